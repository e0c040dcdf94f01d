#include "cuda/launch/layout.h"

#include <algorithm>

#include "core/check.h"
#include "core/integers.h"
#include "cuda/emit/needs.h"

namespace coda::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes: what the copy engine asks of bases and pitches
constexpr std::int64_t kFactorBytes = 2;
// Coordinates of the copy engine are signed 32-bit, and the last tile may begin just under the end.
constexpr std::int64_t kMaxExtent = (std::int64_t{1} << 31) - 1024;

bool is_aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

// The major order in which most matrices of a factor fit; K-major when it does not matter.
bool choose_k_major(const std::vector<TensorView>& parts, FactorMatrix (*matrix)(const TensorView&)) {
  int k_major = 0, other = 0;
  for (const TensorView& part : parts) {
    k_major += matrix(part).fits(true) ? 1 : 0;
    other += matrix(part).fits(false) ? 1 : 0;
  }
  return k_major >= other;
}

// Simplified, with every operand in its place: simplify drops inputs that nothing reads any more, a problem binds all.
Program simplified(const Program& program) {
  const Program fewer = simplify(program);
  if (fewer.operands().size() == program.operands().size()) return fewer;
  Program::Data data = fewer.data();
  data.operands.assign(program.operands().begin(), program.operands().end());
  for (Node& node : data.nodes)
    if (node.kind == NodeKind::Load || node.kind == NodeKind::Store)
      node.index = program.find_operand(fewer.operand(node.index).name);
  return Program(std::move(data));
}

}  // namespace

SegmentSpec specialise(const BoundSegment& segment) {
  std::vector<DType> dtypes;
  for (const TensorView& operand : segment.operands) dtypes.push_back(operand.dtype());
  SegmentSpec spec{.program = with_operand_dtypes(simplified(segment.program), dtypes)};
  spec.split = split_inputs(spec.program);
  for (std::size_t i = 0; i < segment.operands.size(); ++i)
    spec.access.push_back(access_of(spec.program.operands()[i], segment.operands[i]));
  return spec;
}

bool serves(Access bound, Access planned) { return bound == planned || (bound < planned && planned != Access::Single); }

bool FactorMatrix::fits(bool k_major) const {
  if (lines == 0 || depth == 0) return true;
  const std::int64_t in = inner(k_major), out = outer(k_major), step = outer_stride(k_major);
  if (in > 1 && inner_stride(k_major) != 1) return false;
  return is_aligned(data, kAlignment) && (out <= 1 || (step >= in && step * kFactorBytes % kAlignment == 0));
}

std::int64_t FactorMatrix::pitch(bool k_major) const {
  return outer(k_major) > 1 ? outer_stride(k_major) : round_up(inner(k_major), kAlignment / kFactorBytes);
}

FactorMatrix FactorMatrix::copy_at(void* to, bool k_major) const {
  const std::int64_t pitch = round_up(inner(k_major), kAlignment / kFactorBytes);
  return {to, lines, depth, k_major ? pitch : 1, k_major ? 1 : pitch};
}

std::size_t FactorMatrix::copy_bytes(bool k_major) const {
  const std::int64_t pitch = copy_at(nullptr, k_major).outer_stride(k_major);
  return static_cast<std::size_t>(round_up(pitch * outer(k_major) * kFactorBytes, 256));
}

FactorMatrix a_matrix(const TensorView& part) {
  return {part.data(), part.shape(0), part.shape(1), part.stride(0), part.stride(1)};
}

FactorMatrix b_matrix(const TensorView& part) { return a_matrix(part.transposed()); }

Access access_of(const Operand& operand, const TensorView& tensor) {
  if (operand.shape != Shape::Tile || operand.period > 0 || !operand.pairing.is_none()) return Access::Single;
  const auto bytes = static_cast<std::int64_t>(size_of(tensor.dtype()));
  const std::int64_t rows = tensor.shape(0), cols = tensor.shape(1), pitch = tensor.stride(0);
  const bool is_input = operand.role == Role::Input;
  if (tensor.stride(1) != 1 || (rows > 1 && pitch < cols)) return Access::Single;
  const bool takes = bytes == 2 || (tensor.dtype() == DType::F32 && !is_input);
  // A copied box ends in whole 16 bytes: what lies past a ragged edge may be read but not written.
  const bool whole = is_input || cols * bytes % kAlignment == 0;
  if (takes && whole && is_aligned(tensor.data(), kAlignment) && pitch * bytes % kAlignment == 0) return Access::Staged;
  const auto goes_by = [&](std::int64_t count) {
    return is_aligned(tensor.data(), count * bytes) && pitch % count == 0;
  };
  return goes_by(4) ? Access::Fours : goes_by(2) ? Access::Paired : Access::Single;
}

std::optional<std::string> place_refusal(const BoundSegment& segment, const std::vector<bool>& split) {
  if (segment.rows == 0 || segment.cols == 0) return {};
  const auto operands = segment.program.operands();
  for (std::size_t in = 0; in < split.size(); ++in)
    for (std::size_t out = 0; split[in] && out < operands.size(); ++out)
      if (operands[out].role != Role::Input && segment.operands[out].data() == segment.operands[in].data())
        return concat("operand '", operands[out].name, "' takes the place of '", operands[in].name,
                      "', of which a column is read for its pair after it was written: bind a tensor of its own");
  return {};
}

std::optional<std::string> extent_refusal(const Problem& problem) {
  if (std::max({problem.m, problem.n, problem.k}) <= kMaxExtent) return {};
  return concat("M ", problem.m, ", N ", problem.n, ", K ", problem.k, " are too large, expected at most ", kMaxExtent,
                " each");
}

std::vector<SegmentSpec> specialise_elementwise(const Problem& problem) {
  std::vector<SegmentSpec> segments;
  for (const BoundSegment& segment : problem.segments) segments.push_back(without_product(specialise(segment)));
  return segments;
}

KernelSpec specialise(const Problem& problem) {
  KernelSpec spec;
  spec.element = problem.a.parts[0].dtype();
  spec.a_k_major = choose_k_major(problem.a.parts, a_matrix);
  spec.b_k_major = choose_k_major(problem.b.parts, b_matrix);
  spec.pair = problem.b.view == Factor::View::Pair;
  spec.k_parts = problem.a.view == Factor::View::ConcatK ? static_cast<int>(problem.a.parts.size()) : 1;
  spec.segments_along_n = problem.a.view != Factor::View::Concat;
  for (const BoundSegment& segment : problem.segments) spec.segments.push_back(behind_product(specialise(segment)));
  return spec;
}

GemmShape gemm_shape(const Problem& problem, const KernelSpec& spec) {
  GemmShape shape = shape_of(spec);
  shape.m = problem.m;
  shape.n = problem.n;
  shape.k = problem.k;
  return shape;
}

ClusterGrid cluster_grid(const Problem& problem, const KernelSpec& spec) {
  const Schedule& s = spec.schedule;
  const std::int64_t tile_rows = std::int64_t{s.tile_m} * s.cluster_m;
  const std::int64_t tile_cols = std::int64_t{spec.pair ? s.tile_n / 2 : s.tile_n} * s.cluster_n;
  ClusterGrid grid{ceil_div(problem.m, tile_rows), ceil_div(problem.n, tile_cols), {}};
  std::int64_t along = 0;
  for (const BoundSegment& segment : problem.segments) {
    const std::int64_t tiles =
        spec.segments_along_n ? ceil_div(segment.cols, tile_cols) : ceil_div(segment.rows, tile_rows);
    grid.segment_tiles.push_back(static_cast<std::int32_t>(tiles));
    along += tiles;
  }
  (spec.segments_along_n ? grid.cols : grid.rows) = along;
  return grid;
}

}  // namespace coda::cuda
