#include "cuda/launch/plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/check.h"
#include "core/log.h"
#include "cuda/emit/kernel.h"
#include "cuda/launch/arguments.h"
#include "cuda/launch/gpu.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/tensor_map.h"

namespace coda::cuda {
namespace {

constexpr int kBlockK = 64;               // elements of K a stage of the ring
constexpr std::size_t kMaxParams = 4096;  // bytes a kernel's parameters may have
constexpr int kSwizzleBytes = 128;
constexpr int kWarpgroupRows = 64,
              kWarpRows = 16;  // inputs come for a consumer's four warps, outputs leave warp by warp
constexpr std::uintptr_t kWorkspaceAlignment = 256;

// What device/copy.cuh calls CopyParams.
struct CopyParams {
  const void* from;
  void* to;
  std::int64_t inner_stride, outer_stride, pitch;
  std::int32_t inner, outer;
};

Stream stream_of(const Execution& where) { return static_cast<Stream>(where.stream); }

// Memory of a run: the caller's workspace, or memory of the stream's pool until the run has been queued.
class Scratch {
 public:
  Scratch(std::size_t bytes, const Execution& where, std::string_view call) : stream_(stream_of(where)) {
    if (bytes == 0) return;
    memory_ = static_cast<char*>(where.workspace);
    if (memory_ != nullptr) {
      REQUIRE(ValueError, where.workspace_bytes >= bytes, call, ": the workspace has ", where.workspace_bytes,
              " bytes, expected ", bytes, ": ask Plan::workspace_bytes");
      REQUIRE(ValueError, reinterpret_cast<std::uintptr_t>(memory_) % kWorkspaceAlignment == 0, call,
              ": the workspace begins at ", where.workspace, ", expected a multiple of ", kWorkspaceAlignment,
              " bytes: pass memory as the allocator gave it");
      return;
    }
    DevicePointer pointer = 0;
    check(driver().alloc_async(&pointer, bytes, stream_), call, concat("allocate ", bytes, " bytes of workspace"));
    memory_ = reinterpret_cast<char*>(pointer);
    owned_ = pointer;
  }
  ~Scratch() {
    if (owned_ != 0) driver().free_async(owned_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* take(std::size_t bytes) {
    void* taken = memory_;
    memory_ += bytes;
    return taken;
  }

 private:
  Stream stream_;
  char* memory_ = nullptr;   // what is not taken yet
  DevicePointer owned_ = 0;  // where the pool's memory begins
};

class GemmPlan final : public Plan {
 public:
  GemmPlan(const Problem& problem, const KernelSpec& spec, void* stream)
      : gpu_(gpu(problem.device.index)), spec_(spec), layout_(params_layout(spec)) {
    for (const BoundSegment& segment : problem.segments) programs_.push_back(segment.program);
    const Schedule& s = spec_.schedule;
    REQUIRE(NotImplementedError, layout_.size <= kMaxParams, problem.call, ": the kernel would take ", layout_.size,
            " bytes of parameters, expected at most ", kMaxParams, ": use fewer segments or operands");
    kernel_ = &load_kernel(gpu_,
                           {.name = kernel_name(spec_),
                            .text = emit_kernel(spec_),
                            .threads = kThreads,
                            .shared_bytes = shared_bytes(s, shape_of(spec_)),
                            .cluster_size = cluster_size()},
                           static_cast<Stream>(stream), problem.call);
    if (copies(problem) > 0) load_copy(problem, static_cast<Stream>(stream));
  }

  const Schedule* schedule() const override { return &spec_.schedule; }

  std::size_t workspace_bytes(const Problem& problem) const override {
    std::size_t bytes = 0;
    for_each_part(problem, [&](const FactorMatrix& matrix, bool k_major, int) {
      if (!matrix.fits(k_major)) bytes += matrix.copy_bytes(k_major);
    });
    return bytes;
  }

  void run(const Problem& problem, const Execution& where) const override {
    check_matches(problem);
    if (problem.m == 0 || problem.n == 0) return;
    const CurrentGpu current(gpu_);
    Scratch scratch(workspace_bytes(problem), where, problem.call);
    alignas(64) std::array<char, kMaxParams> params;
    fill_factors(problem, params.data(), scratch, stream_of(where));
    for (std::size_t i = 0; i < problem.segments.size(); ++i) fill_segment(problem, i, params.data());
    launch(problem, params.data(), stream_of(where));
  }

 private:
  int cluster_size() const {
    const Schedule& s = spec_.schedule;
    return s.cluster_m * s.cluster_n * s.split_k;
  }

  // Calls act with each matrix of A and B, its major order and its place among the kernel's maps of the factor.
  template <class Act>
  void for_each_part(const Problem& problem, Act act) const {
    int i = 0;
    for (const TensorView& part : problem.a.parts) act(a_matrix(part), spec_.a_k_major, i++);
    for (const TensorView& part : problem.b.parts) act(b_matrix(part), spec_.b_k_major, i++);
  }

  int copies(const Problem& problem) const {
    int count = 0;
    for_each_part(problem,
                  [&](const FactorMatrix& matrix, bool k_major, int) { count += matrix.fits(k_major) ? 0 : 1; });
    return count;
  }

  // Once a process: which operand it is and how it lies.
  void warn_of_copy(const Problem& problem) const {
    bool told = false;
    for_each_part(problem, [&](const FactorMatrix& matrix, bool k_major, int i) {
      if (told || matrix.fits(k_major)) return;
      told = true;
      const bool is_a = i < static_cast<int>(problem.a.parts.size());
      const TensorView& part = is_a ? problem.a.parts[static_cast<std::size_t>(i)]
                                    : problem.b.parts[static_cast<std::size_t>(i) - problem.a.parts.size()];
      warn_once("gemm.copy",
                concat(problem.call, ": ", is_a ? "A" : "B", " of shape ", shape_text(part.shape()), " has strides ",
                       shape_text(part.strides()), " and begins ", reinterpret_cast<std::uintptr_t>(part.data()) % 16,
                       " bytes past a multiple of 16; the copy engine takes one stride of 1, the other a multiple of 8 "
                       "and no smaller than the extent, and 0 bytes: it is copied first, which is slower"));
    });
  }

  void load_copy(const Problem& problem, Stream stream) {
    warn_of_copy(problem);
    copy_ =
        &load_kernel(gpu_, {.name = "copy_16bit", .text = emit_copy(), .threads = kCopyThreads}, stream, problem.call);
  }

  // Programs that a caller keeps share their data, so that the text, their identity, is rarely asked for.
  static bool is_same(const Program& x, const Program& y) { return &x.data() == &y.data() || to_text(x) == to_text(y); }

  // What the kernel was made for must hold of the problem of a run: all but M, N, K, pointers and strides' sizes.
  void check_matches(const Problem& problem) const {
    const auto refuse = [&](const std::string& what) {
      throw ValueError(concat(problem.call, ": ", what, " than the plan was made for: make a plan for this problem"));
    };
    if (problem.device != Device{DeviceKind::Cuda, gpu_.index}) refuse("the tensors are on another device");
    if (problem.segments.size() != spec_.segments.size() || static_cast<int>(problem.a.parts.size()) != a_maps(spec_) ||
        static_cast<int>(problem.b.parts.size()) != b_maps(spec_))
      refuse("A, B or the segments are joined otherwise");
    if (const auto refusal = extent_refusal(problem)) throw NotImplementedError(concat(problem.call, ": ", *refusal));
    if (problem.a.parts[0].dtype() != spec_.element) refuse("A and B have another dtype");
    if (copy_ == nullptr && copies(problem) > 0) refuse("A or B is aligned or ordered otherwise");
    for (std::size_t s = 0; s < problem.segments.size(); ++s) {
      const SegmentSpec& segment = spec_.segments[s];
      const std::vector<TensorView>& operands = problem.segments[s].operands;
      if (!is_same(problem.segments[s].program, programs_[s])) refuse("a segment has another program");
      if (const auto refusal = place_refusal(problem.segments[s], segment.split))
        throw NotImplementedError(concat(problem.call, ": ", *refusal));
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const Operand& operand = segment.program.operand(static_cast<int>(i));
        if (operands[i].dtype() != *operand.dtype || !serves(access_of(operand, operands[i]), segment.access[i]))
          refuse(concat("operand '", operand.name, "' has another dtype or alignment"));
      }
    }
  }

  template <class T>
  static void put(char* params, std::size_t offset, T value) {
    std::memcpy(params + offset, &value, sizeof value);
  }

  static TensorMap& map_at(char* params, std::size_t offset, std::size_t index) {
    return *reinterpret_cast<TensorMap*>(params + offset + index * kMapBytes);
  }

  void fill_factors(const Problem& problem, char* params, Scratch& scratch, Stream stream) const {
    const Schedule& s = spec_.schedule;
    const int b_tile = spec_.pair ? s.tile_n / 2 : s.tile_n;
    const int a_lines = s.tile_m / s.cluster_n, b_lines = b_tile / s.cluster_m;  // a multicast shares the box
    const int a_count = static_cast<int>(problem.a.parts.size());
    for_each_part(problem, [&](FactorMatrix matrix, bool k_major, int i) {
      const bool is_a = i < a_count;
      if (matrix.lines == 0 || matrix.depth == 0) return;  // never read
      if (!matrix.fits(k_major)) matrix = copied(problem, matrix, k_major, scratch, stream);
      const std::size_t place = static_cast<std::size_t>(is_a ? i : i - a_count);
      encode_map(map_at(params, is_a ? layout_.a : layout_.b, place),
                 {.data = matrix.data,
                  .dtype = spec_.element,
                  .inner = matrix.inner(k_major),
                  .outer = matrix.outer(k_major),
                  .pitch = matrix.pitch(k_major),
                  .box_inner = kBlockK,
                  .box_outer = k_major ? (is_a ? a_lines : b_lines) : kBlockK},
                 problem.call, is_a ? "A" : "B");
    });
    for (int part = 0; part < spec_.k_parts; ++part) {
      const std::int64_t depth = problem.a.parts[static_cast<std::size_t>(part)].shape(1);
      put(params, layout_.k_blocks + 4 * static_cast<std::size_t>(part),
          static_cast<std::int32_t>((depth + kBlockK - 1) / kBlockK));
    }
  }

  FactorMatrix copied(const Problem& problem, const FactorMatrix& from, bool k_major, Scratch& scratch,
                      Stream stream) const {
    const FactorMatrix to = from.copy_at(scratch.take(from.copy_bytes(k_major)), k_major);
    const std::int64_t inner = from.inner(k_major), outer = from.outer(k_major);
    CopyParams params{from.data,
                      to.data,
                      from.inner_stride(k_major),
                      from.outer_stride(k_major),
                      to.outer_stride(k_major),
                      static_cast<std::int32_t>(inner),
                      static_cast<std::int32_t>(outer)};
    const auto tiles = [](std::int64_t extent) { return (extent + kCopyTile - 1) / kCopyTile; };
    const LaunchConfig config{
        .grid_x = static_cast<unsigned>(tiles(inner) * tiles(outer)), .block_x = kCopyThreads, .stream = stream};
    launch_for(problem, *copy_, config, &params);
    return to;
  }

  void fill_segment(const Problem& problem, std::size_t number, char* params) const {
    const SegmentSpec& spec = spec_.segments[number];
    const BoundSegment& segment = problem.segments[number];
    const auto encode = [&](const std::vector<StagedOperand>& staged, std::size_t offset, int maps, int rows) {
      for (std::size_t i = 0; i < staged.size(); ++i)
        encode_operand(problem, spec, segment, staged[i].operand, rows,
                       map_at(params, offset, number * static_cast<std::size_t>(maps) + i));
    };
    encode(staged_inputs(spec), layout_.inputs, input_maps(spec_), kWarpgroupRows);
    encode(staged_outputs(spec), layout_.outputs, output_maps(spec_), kWarpRows);
    fill_arguments(params + layout_.arguments[number], spec, segment);
  }

  void encode_operand(const Problem& problem, const SegmentSpec& spec, const BoundSegment& segment, int operand,
                      int box_rows, TensorMap& map) const {
    const TensorView& tensor = segment.operands[static_cast<std::size_t>(operand)];
    if (segment.rows == 0 || segment.cols == 0) return;
    const int bytes = static_cast<int>(size_of(tensor.dtype()));
    const std::int64_t whole = (segment.cols * bytes + 15) / 16 * 16 / bytes;
    encode_map(map,
               {.data = tensor.data(),
                .dtype = tensor.dtype(),
                .inner = segment.cols,
                .outer = segment.rows,
                .pitch = segment.rows > 1 ? tensor.stride(0) : whole,
                .box_inner = std::min(spec_.schedule.sub, kSwizzleBytes / bytes),
                .box_outer = box_rows},
               problem.call, spec.program.operand(operand).name);
  }

  void launch(const Problem& problem, char* params, Stream stream) const {
    const ClusterGrid grid = cluster_grid(problem, spec_);
    for (std::size_t i = 0; i < grid.segment_tiles.size(); ++i)
      put(params, layout_.segment_tiles + 4 * i, grid.segment_tiles[i]);
    put(params, layout_.cluster_rows, static_cast<std::int32_t>(grid.rows));
    put(params, layout_.cluster_cols, static_cast<std::int32_t>(grid.cols));
    put(params, layout_.raster_group, static_cast<std::int32_t>(spec_.schedule.raster_group));
    // Split K is not persistent: its two blocks hand over one tile, and a tile's rings carry the sum.
    const std::int64_t all = grid.rows * grid.cols;
    const std::int64_t clusters =
        spec_.schedule.split_k > 1 ? all : std::min<std::int64_t>(all, kernel_->active_clusters);
    LaunchAttribute cluster{.id = kClusterDimension};
    cluster.value.cluster = {static_cast<unsigned>(cluster_size()), 1, 1};
    const LaunchConfig config{.grid_x = static_cast<unsigned>(clusters * cluster_size()),
                              .block_x = kThreads,
                              .shared_bytes = static_cast<unsigned>(kernel_->shared_bytes),
                              .stream = stream,
                              .attributes = &cluster,
                              .attribute_count = 1};
    launch_for(problem, *kernel_, config, params);
  }

  void launch_for(const Problem& problem, const LoadedKernel& kernel, const LaunchConfig& config, void* params) const {
    launch_kernel(gpu_, kernel, config, params, problem.call, [&] {
      return concat(" and ", config.shared_bytes, " bytes of shared memory for M ", problem.m, ", N ", problem.n,
                    ", K ", problem.k);
    });
  }

  const Gpu& gpu_;
  KernelSpec spec_;
  std::vector<Program> programs_;  ///< as they were given: the spec's are simplified
  ParamsLayout layout_;
  const LoadedKernel* kernel_ = nullptr;
  const LoadedKernel* copy_ = nullptr;
};

}  // namespace

std::unique_ptr<Plan> make_plan(const Problem& problem, const KernelSpec& spec, void* stream) {
  return std::make_unique<GemmPlan>(problem, spec, stream);
}

}  // namespace coda::cuda
