#include "cuda/emit/spec.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "cuda/emit/needs.h"
#include "cuda/emit/op_spelling.h"
#include "cuda/emit/program.h"
#include "ir/validate.h"

namespace coda::cuda {
namespace {

bool is_staged_tile(const SegmentSpec& segment, std::size_t i) {
  return segment.program.operands()[i].shape == Shape::Tile && segment.access[i] == Access::Staged;
}

int units(const std::vector<StagedOperand>& operands) {
  return std::accumulate(operands.begin(), operands.end(), 0, [](int sum, const StagedOperand& operand) {
    return sum + static_cast<int>(size_of(operand.dtype) / 2);
  });
}

bool loads_unstaged(const SegmentSpec& segment) {
  for (std::size_t i = 0; i < segment.access.size(); ++i) {
    const Operand& operand = segment.program.operands()[i];
    if (operand.role != Role::Output && operand.shape == Shape::Tile && segment.access[i] != Access::Staged)
      return true;
  }
  return false;
}

// Neighbours that all pair meet in any tile, and in one thread.
bool meets_anywhere(const Pairing& pairing) {
  return pairing.kind == Pairing::Kind::Interleaved && !pairing.has_rest();
}

// What a program holds beside the accumulators: partners of pairs and sums of heads, the parts of a long op, vectors,
// reductions, and what the threads load by themselves.
Pressure pressure_of(const SegmentSpec& segment) {
  const auto has = [&](auto test) { return std::ranges::any_of(segment.program.nodes(), test); };
  const KeptVectors kept = kept_vectors(segment);
  const bool pairs = has([](const Node& node) { return node.kind == NodeKind::Split; });
  const bool apart = has([](const Node& node) { return !node.pairing.is_none() && !meets_anywhere(node.pairing); });
  if (pairs && has([](const Node& node) { return node.kind == NodeKind::SpanReduce; })) return Pressure::Heaviest;
  const bool is_long = has([](const Node& node) {
    return node.kind == NodeKind::Map && node.type.shape == Shape::Tile && !is_light(node.op);
  });
  if (is_long && kept.cols > 0) return Pressure::Heavy;
  const auto reductions = std::ranges::count(segment.program.nodes(), NodeKind::Reduce, &Node::kind);
  if (reductions > 0 && kept.cols > 0 && reductions + kept.cols > 2) return Pressure::PerRow;
  // Along rows a thread keeps what it has reduced; down columns each chunk hands its own on.
  const bool is_one_sum =
      reductions == 1 && !is_long && has([&](const Node& node) {
        return node.kind == NodeKind::Reduce &&
               (node.axis == Axis::Col || (kept.cols == 0 && node.reduction != Reduction::LogSumExp));
      });
  if (apart || (reductions > 0 && !is_one_sum) || loads_unstaged(segment)) return Pressure::Medium;
  if (is_one_sum) return Pressure::Sums;
  return Pressure::Light;
}

std::string_view access_text(Access access) {
  switch (access) {
    case Access::Staged: return "staged";
    case Access::Fours: return "fours";
    case Access::Paired: return "paired";
    case Access::Single: return "single";
  }
  return "";
}

template <class Measure>
int most(const KernelSpec& spec, Measure measure) {
  int result = 0;
  for (const SegmentSpec& segment : spec.segments) result = std::max(result, measure(segment));
  return result;
}

}  // namespace

std::int64_t column_unit(const Program& program) {
  std::int64_t granule = 1;
  const auto include = [&](const Pairing& pairing) {
    if (!pairing.is_none() && !meets_anywhere(pairing)) granule = std::lcm(granule, pairing.head);
  };
  for (const Operand& operand : program.operands()) include(operand.pairing);
  for (const Node& node : program.nodes()) {
    include(node.pairing);
    const bool reduces_row = node.kind == NodeKind::Reduce && node.axis == Axis::Row;
    if (reduces_row || node.kind == NodeKind::SpanReduce) granule = std::lcm(granule, node.period);
  }
  return granule;
}

std::vector<StagedOperand> staged_inputs(const SegmentSpec& segment) {
  std::vector<StagedOperand> staged;
  for (std::size_t i = 0; i < segment.access.size(); ++i) {
    const Operand& operand = segment.program.operands()[i];
    const bool read = operand.role == Role::Input || (operand.role == Role::Accumulate && *operand.dtype != DType::F32);
    if (read && is_staged_tile(segment, i)) staged.push_back({static_cast<int>(i), *operand.dtype});
  }
  return staged;
}

std::vector<StagedOperand> staged_outputs(const SegmentSpec& segment) {
  std::vector<StagedOperand> staged;
  for (std::size_t i = 0; i < segment.access.size(); ++i) {
    const Operand& operand = segment.program.operands()[i];
    if (operand.role == Role::Input || !is_staged_tile(segment, i)) continue;
    const bool adds = operand.role == Role::Accumulate && *operand.dtype == DType::F32;
    staged.push_back({static_cast<int>(i), *operand.dtype, adds});
  }
  return staged;
}

bool takes_fours(const Program& program) {
  constexpr std::int64_t kChunk = 16;  // columns
  const auto in_chunks = [](const auto& part) {
    const Pairing& pairing = part.pairing;
    const std::int64_t half = pairing.kind == Pairing::Kind::Halves ? pairing.width / 2 : pairing.width;
    return pairing.is_none() || (pairing.head % kChunk == 0 && half % kChunk == 0);
  };
  return std::ranges::all_of(program.operands(), in_chunks) && std::ranges::all_of(program.nodes(), in_chunks) &&
         std::ranges::all_of(program.nodes(), [](const Node& node) {
           return node.kind != NodeKind::SpanReduce || node.period % kChunk == 0;
         });
}

SegmentSpec without_product(SegmentSpec segment) {
  const Access by_threads = takes_fours(segment.program) ? Access::Fours : Access::Paired;
  for (Access& access : segment.access)
    if (access < Access::Paired) access = by_threads;
  return segment;
}

SegmentSpec behind_product(SegmentSpec segment) {
  const std::vector<bool> reread = reread_inputs(segment.program);
  for (std::size_t i = 0; i < reread.size(); ++i)
    if (segment.access[i] == Access::Fours || (reread[i] && segment.access[i] == Access::Staged))
      segment.access[i] = Access::Paired;
  return segment;
}

int staged_input_units(const KernelSpec& spec) {
  return most(spec, [](const SegmentSpec& segment) { return units(staged_inputs(segment)); });
}

int staged_output_units(const KernelSpec& spec) {
  return most(spec, [](const SegmentSpec& segment) { return units(staged_outputs(segment)); });
}

int input_maps(const KernelSpec& spec) {
  return most(spec, [](const SegmentSpec& segment) { return static_cast<int>(staged_inputs(segment).size()); });
}

int output_maps(const KernelSpec& spec) {
  return most(spec, [](const SegmentSpec& segment) { return static_cast<int>(staged_outputs(segment).size()); });
}

bool makes_vectors(const KernelSpec& spec) {
  return std::ranges::any_of(spec.segments, [](const SegmentSpec& segment) {
    const KeptVectors kept = kept_vectors(segment);
    return kept.cols + kept.rows > 0;
  });
}

int kept_cols(const KernelSpec& spec) {
  return most(spec, [](const SegmentSpec& segment) { return kept_vectors(segment).cols; });
}

int row_vectors(const KernelSpec& spec) {
  constexpr int kWarps = 4;  // of a consumer
  return most(spec, [](const SegmentSpec& segment) {
    return kept_vectors(segment).rows + kWarps * static_cast<int>(column_reductions(segment.program).size());
  });
}

GemmShape shape_of(const KernelSpec& spec) {
  GemmShape shape{.a_k_major = spec.a_k_major, .b_k_major = spec.b_k_major, .pair = spec.pair, .k_parts = spec.k_parts};
  shape.staged_inputs = staged_input_units(spec);
  shape.staged_outputs = staged_output_units(spec);
  shape.row_vectors = row_vectors(spec);
  for (const SegmentSpec& segment : spec.segments)
    shape.column_granule = std::lcm(shape.column_granule, column_unit(segment.program));
  for (const SegmentSpec& segment : spec.segments) shape.pressure = std::max(shape.pressure, pressure_of(segment));
  return shape;
}

std::string factors_text(const KernelSpec& spec) {
  const auto major = [](bool k_major) { return k_major ? "K" : "MN"; };
  std::string text =
      concat(name_of(spec.element), ", A ", major(spec.a_k_major), "-major, B ", major(spec.b_k_major), "-major");
  if (spec.pair) text += ", B a pair";
  if (spec.k_parts > 1) text += concat(", ", spec.k_parts, " parts along K");
  if (spec.segments.size() > 1)
    text += concat(", ", spec.segments.size(), " segments along ", spec.segments_along_n ? "N" : "M");
  return text;
}

std::string identity_text(const KernelSpec& spec) {
  std::string text = factors_text(spec) + "\n";
  for (const SegmentSpec& segment : spec.segments) {
    text += to_text(segment.program);
    for (std::size_t i = 0; i < segment.access.size(); ++i) {
      const Operand& operand = segment.program.operands()[i];
      if (operand.shape != Shape::Tile) continue;
      text += concat(operand.name, " ", access_text(segment.access[i]), "\n");
    }
  }
  return text;
}

namespace {

constexpr std::int64_t kRowsOfPartials = 64;
constexpr std::int64_t kNarrowestHead = 8;  // a thread keeps a sum for each head of a tile
// Columns after which heads and chunks begin anew where there is no product: its loop over chunks is unrolled as often.
constexpr std::int64_t kWidestGroup = 512;

// Why the sums over heads of a program cannot be had.
std::optional<std::string> heads_refusal(const Program& program) {
  const std::vector<NodeId> sums = span_sums(program);
  const NodeSet partners = wanted_of_partners(program, all_nodes(program));
  for (const NodeId sum : sums) {
    const Node& node = program.node(sum);
    if (node.period < kNarrowestHead || node.period != program.node(sums[0]).period)
      return concat("program '", program.name(), "' sums over heads of ", node.period,
                    " columns, expected one width of at least ", kNarrowestHead);
    if (program.accumulators() == 0 && std::lcm(node.period, std::int64_t{16}) > kWidestGroup)
      return concat("program '", program.name(), "' sums over heads of ", node.period,
                    " columns without a product, expected a width with a multiple of 16 columns up to ", kWidestGroup);
    if (node.type.shape != Shape::Tile)
      return concat("program '", program.name(), "' sums a row over heads, and it sums only tiles yet");
    for (const Node& user : program.nodes())
      if (partners[static_cast<std::size_t>(sum)] && user.kind == NodeKind::Split &&
          node.period % user.pairing.head != 0)
        return concat("program '", program.name(), "' splits sums over heads of ", node.period, " columns into ",
                      pairing_text(user.pairing), ", whose members lie in different heads");
  }
  return {};
}

std::optional<std::string> pairs_refusal(const Program& program) {
  Pairing pairing;
  const auto differs = [&](const Pairing& other) {
    if (pairing.is_none()) pairing = other;
    return !other.is_none() && other != pairing;
  };
  const auto is_pair = [](const Node& node) { return node.kind == NodeKind::Split || node.kind == NodeKind::Join; };
  for (const Node& node : program.nodes()) {
    if (differs(node.pairing))
      return concat("program '", program.name(), "' pairs columns in two ways, and it emits one");
    if (is_pair(node) && node.type.shape != Shape::Tile)
      return concat("program '", program.name(), "' pairs the columns of a row, and it pairs only those of tiles yet");
  }
  for (const Operand& operand : program.operands())
    if (differs(operand.pairing))
      return concat("program '", program.name(), "' pairs columns in two ways, and it emits one");
  return {};
}

std::optional<std::string> reductions_refusal(const Program& program) {
  for (const NodeId id : column_reductions(program)) {
    const Node& node = program.node(id);
    if (node.reduction == Reduction::LogSumExp)
      return concat("program '", program.name(), "' takes log-sum-exps down columns, and it takes sums and maxima yet");
    if (node.period != kRowsOfPartials)
      return concat("program '", program.name(), "' reduces ", node.period, " rows to a partial, and it reduces ",
                    kRowsOfPartials, ", which a consumer has at once");
  }
  return {};
}

}  // namespace

std::optional<std::string> emit_refusal(const Program& program) {
  if (auto refusal = reductions_refusal(program)) return refusal;
  if (auto refusal = pairs_refusal(program)) return refusal;
  return heads_refusal(program);
}

}  // namespace coda::cuda
