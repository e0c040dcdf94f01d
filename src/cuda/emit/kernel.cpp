#include "cuda/emit/kernel.h"

#include <algorithm>
#include <numeric>

#include "core/integers.h"
#include "cuda/emit/distinct.h"
#include "cuda/emit/program.h"
#include "cuda/emit/writer.h"

namespace coda::cuda {
namespace {

std::string_view word(bool value) { return value ? "true" : "false"; }

int at_least_one(int count) { return std::max(count, 1); }

void emit_params(Writer& out, const KernelSpec& spec, const std::vector<DistinctProgram>& programs) {
  const int segments = static_cast<int>(spec.segments.size());
  out.open("struct KernelParams");
  out.line("TensorMap a[", a_maps(spec), "];");
  out.line("TensorMap b[", b_maps(spec), "];");
  out.line("TensorMap outputs[", at_least_one(segments * output_maps(spec)), "];");
  out.line("TensorMap inputs[", at_least_one(segments * input_maps(spec)), "];");
  emit_arguments(out, programs);
  out.line("i32 k_blocks[", spec.k_parts, "];");
  out.line("i32 segment_tiles[", segments, "];");
  out.line("i32 cluster_rows, cluster_cols, raster_group;");
  out.close(";");
  out.line("static_assert(sizeof(KernelParams) == ", params_layout(spec).size, ", \"the host lays it out alike\");");
}

void emit_constants(Writer& out, const KernelSpec& spec) {
  const Schedule& s = spec.schedule;
  const auto number = [&](std::string_view name, int value) {
    out.line("static constexpr int ", name, " = ", value, ";");
  };
  const auto flag = [&](std::string_view name, bool value) {
    out.line("static constexpr bool ", name, " = ", word(value), ";");
  };
  number("kTileM", s.tile_m);
  number("kTileN", s.tile_n);
  number("kOutputTileN", spec.pair ? s.tile_n / 2 : s.tile_n);
  number("kStages", s.stages);
  number("kClusterM", s.cluster_m);
  number("kClusterN", s.cluster_n);
  number("kSplitK", s.split_k);
  flag("kPingPong", s.ping_pong);
  flag("kAMajorK", spec.a_k_major);
  flag("kBMajorK", spec.b_k_major);
  flag("kPair", spec.pair);
  number("kKParts", spec.k_parts);
  number("kSegments", static_cast<int>(spec.segments.size()));
  flag("kSegmentsAlongN", spec.segments_along_n);
  flag("kMakesVectors", makes_vectors(spec));
  number("kCols", kept_cols(spec));
  number("kRows", row_vectors(spec));
  number("kSub", s.sub);
  number("kInputMaps", input_maps(spec));
  number("kInputBuffers", input_maps(spec) > 0 ? s.input_buffers : 0);
  number("kOutputMaps", output_maps(spec));
  number("kOutputUnits", staged_output_units(spec));
  number("kOutputBuffers", s.output_buffers);
}

void emit_segments(Writer& out, const KernelSpec& spec, const std::vector<DistinctProgram>& programs) {
  out.line("// Calls body with the epilogue of a segment and its arguments.");
  emit_visit(out, programs, [](const DistinctProgram&) { return std::string(); });
  out.line();
  out.open("__device__ __forceinline__ static constexpr int staged_inputs(i32 segment)");
  for (const DistinctProgram& program : programs)
    if (programs.size() > 1)
      out.line("if (", is_one_of(program.segments), ") return ",
               staged_inputs(spec.segments[program.segments[0]]).size(), ";");
  out.line("return ", programs.size() > 1 ? 0 : input_maps(spec), ";");
  out.close();
}

void emit_comment(Writer& out, const KernelSpec& spec) {
  out.line("// ", kernel_name(spec), ": ", factors_text(spec));
  out.line("// ", to_text(spec.schedule));
}

}  // namespace

void emit_entry(Writer& out, std::string_view bounds, std::string_view params, std::string_view function) {
  out.line("extern \"C\" __global__ void __launch_bounds__(coda::", bounds, ")");
  out.open("    CODA_KERNEL(const __grid_constant__ coda::", params, " p)");
  out.line("coda::", function, "(p);");
  out.close();
}

int a_maps(const KernelSpec& spec) {
  if (spec.k_parts > 1) return spec.k_parts;
  return spec.segments_along_n ? 1 : static_cast<int>(spec.segments.size());
}

int b_maps(const KernelSpec& spec) {
  if (spec.k_parts > 1) return spec.k_parts;
  if (spec.pair) return 2;
  return spec.segments_along_n ? static_cast<int>(spec.segments.size()) : 1;
}

ParamsLayout params_layout(const KernelSpec& spec) {
  const auto segments = spec.segments.size();
  const auto count = [](int value) { return static_cast<std::size_t>(value); };
  ParamsLayout layout;
  layout.b = count(a_maps(spec)) * kMapBytes;
  layout.outputs = layout.b + count(b_maps(spec)) * kMapBytes;
  layout.inputs = layout.outputs + std::max<std::size_t>(segments * count(output_maps(spec)), 1) * kMapBytes;
  std::size_t end = layout.inputs + std::max<std::size_t>(segments * count(input_maps(spec)), 1) * kMapBytes;
  layout.arguments = place_arguments(spec.segments, end);
  layout.k_blocks = end;
  layout.segment_tiles = layout.k_blocks + 4 * count(spec.k_parts);
  layout.cluster_rows = layout.segment_tiles + 4 * segments;
  layout.cluster_cols = layout.cluster_rows + 4;
  layout.raster_group = layout.cluster_rows + 8;
  layout.size = round_up(layout.cluster_rows + 12, 64);
  return layout;
}

std::string kernel_name(const KernelSpec& spec) {
  return concat(joined_names(spec.segments), "_", spec.schedule.tile_m, "x", spec.schedule.tile_n);
}

std::string emit_kernel(const KernelSpec& spec) {
  for (const SegmentSpec& segment : spec.segments) {
    const auto refusal = emit_refusal(segment.program);
    INVARIANT(!refusal, "emit_kernel: ", *refusal, "\n", to_text(segment.program));
  }
  const std::vector<DistinctProgram> programs = distinct_programs(spec.segments);
  Writer out;
  emit_comment(out, spec);
  out.margin(concat("#define CODA_ELEMENT \"", name_of(spec.element), "\""));
  out.margin("#include \"sm90/gemm.cuh\"");
  out.line();
  out.line("namespace coda {");
  emit_programs(out, spec.segments, programs);
  out.line();
  emit_params(out, spec, programs);
  out.line();
  out.open("struct Config");
  out.line("using Params = KernelParams;");
  emit_constants(out, spec);
  out.line();
  emit_segments(out, spec, programs);
  out.close(";");
  out.line();
  out.line("}  // namespace coda");
  out.line();
  emit_entry(out, "kThreads, 1", "KernelParams", "run_gemm<coda::Config>");
  return out.take();
}

std::string emit_copy() {
  Writer out;
  out.margin("#include \"copy.cuh\"");
  out.line();
  emit_entry(out, "kCopyThreads", "CopyParams", "copy_tile");
  return out.take();
}

}  // namespace coda::cuda
