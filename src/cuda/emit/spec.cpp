#include "cuda/emit/spec.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
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

// What a program holds beside the accumulators: partners of pairs and sums of heads, the parts of a long op, vectors,
// reductions, and what the threads load by themselves.
Pressure pressure_of(const SegmentSpec& segment) {
  const auto has = [&](auto test) { return std::ranges::any_of(segment.program.nodes(), test); };
  const KeptVectors kept = kept_vectors(segment);
  const bool pairs = has([](const Node& node) { return node.kind == NodeKind::Split; });
  const bool apart = has([](const Node& node) { return node.pairing.kind == Pairing::Kind::Halves; });
  if (pairs && has([](const Node& node) { return node.kind == NodeKind::SpanReduce; })) return Pressure::Heaviest;
  const bool is_long = has([](const Node& node) {
    return node.kind == NodeKind::Map && node.type.shape == Shape::Tile && !is_light(node.op);
  });
  if (is_long && kept.cols > 0) return Pressure::Heavy;
  const bool reduces = has([](const Node& node) { return node.kind == NodeKind::Reduce; });
  if (reduces && kept.cols > 1) return Pressure::PerRow;
  const bool exponentials =
      has([](const Node& node) { return node.kind == NodeKind::Reduce && node.reduction == Reduction::LogSumExp; });
  if (apart || exponentials || (reduces && kept.cols > 0) || loads_unstaged(segment)) return Pressure::Medium;
  if (reduces) return Pressure::Sums;
  return Pressure::Light;
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
    // Neighbours that all pair meet in any tile.
    const bool neighbours = pairing.kind == Pairing::Kind::Interleaved && !pairing.has_rest();
    if (!pairing.is_none() && !neighbours) granule = std::lcm(granule, pairing.head);
  };
  for (const Operand& operand : program.operands()) include(operand.pairing);
  for (const Node& node : program.nodes()) {
    include(node.pairing);
    if (node.kind == NodeKind::SpanReduce) granule = std::lcm(granule, node.period);
  }
  for (const Node& node : program.nodes())
    if (node.kind == NodeKind::Reduce && node.axis == Axis::Row) granule = std::lcm(granule, node.period);
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

SegmentSpec unstaged(SegmentSpec segment) {
  for (Access& access : segment.access)
    if (access == Access::Staged) access = Access::Paired;
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

int kept_cols(const KernelSpec& spec) {
  return most(spec, [](const SegmentSpec& segment) { return kept_vectors(segment).cols; });
}

int kept_rows(const KernelSpec& spec) {
  return most(spec, [](const SegmentSpec& segment) { return kept_vectors(segment).rows; });
}

GemmShape shape_of(const KernelSpec& spec) {
  GemmShape shape{.a_k_major = spec.a_k_major, .b_k_major = spec.b_k_major, .pair = spec.pair, .k_parts = spec.k_parts};
  shape.staged_inputs = staged_input_units(spec);
  shape.staged_outputs = staged_output_units(spec);
  shape.row_vectors = kept_rows(spec);
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
      const Access access = segment.access[i];
      text += concat(operand.name, access == Access::Staged   ? " staged\n"
                                   : access == Access::Paired ? " paired\n"
                                                              : " single\n");
    }
  }
  return text;
}

namespace {

// Why the pairs and heads of a program cannot be found in a thread's registers.
std::optional<std::string> columns_refusal(const Program& program) {
  Pairing pairing;
  std::int64_t head = 0;
  const auto differs = [&](const Pairing& other) { return !other.is_none() && !pairing.is_none() && other != pairing; };
  for (const Node& node : program.nodes()) {
    if (differs(node.pairing))
      return concat("program '", program.name(), "' pairs columns in two ways, and it emits one");
    if (!node.pairing.is_none()) pairing = node.pairing;
    if (node.kind == NodeKind::Split && program.node(node.args[0]).kind == NodeKind::Load)
      return concat("program '", program.name(), "' splits a loaded tile, which it does not emit yet");
    if (node.kind != NodeKind::SpanReduce) continue;
    if ((head != 0 && head != node.period) || node.period % 8 != 0)
      return concat("program '", program.name(), "' sums over heads of ", node.period,
                    " columns, expected one multiple of 8");
    head = node.period;
  }
  for (const Operand& operand : program.operands())
    if (differs(operand.pairing))
      return concat("program '", program.name(), "' pairs columns in two ways, and it emits one");
  const std::int64_t unit = pairing.kind == Pairing::Kind::Halves ? 16 : 8;
  if (pairing.head % 8 != 0 || pairing.width % unit != 0)
    return concat("program '", program.name(), "' pairs columns as ", pairing_text(pairing),
                  ", whose members lie in different threads, which it does not exchange yet");
  return {};
}

}  // namespace

std::optional<std::string> emit_refusal(const Program& program) {
  for (const Operand& operand : program.operands()) {
    if (operand.partials && operand.partials->axis == Axis::Col)
      return concat("operand '", operand.name, "' holds partials of columns, which it does not make or finish yet");
    if (operand.role != Role::Input && !operand.pairing.is_none())
      return concat("operand '", operand.name,
                    "' has an entry for each pair of columns, and it stores only whole columns yet");
    if (operand.role != Role::Input && operand.shape != Shape::Tile && operand.shape != Shape::Col)
      return concat("operand '", operand.name, "' is a ", name_of(operand.shape),
                    ", and it stores only tiles and cols yet");
  }
  for (const Node& node : program.nodes())
    if (node.kind == NodeKind::Reduce && node.axis == Axis::Col)
      return concat("program '", program.name(), "' reduces columns, which it does not emit yet");
  return columns_refusal(program);
}

}  // namespace coda::cuda
