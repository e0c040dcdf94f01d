#include "cuda/emit/elementwise.h"

#include <algorithm>
#include <numeric>

#include "core/integers.h"
#include "cuda/emit/distinct.h"
#include "cuda/emit/kernel.h"
#include "cuda/emit/needs.h"

namespace coda::cuda {
namespace {

void emit_config(Writer& out, const std::vector<SegmentSpec>& segments, const std::vector<DistinctProgram>& programs) {
  out.open("struct Config");
  out.line("using Params = KernelParams;");
  out.line("static constexpr int kSegments = ", segments.size(), ";");
  out.line();
  out.line("// Calls body with the program of a segment, its Span and its arguments.");
  emit_visit(out, programs, [&](const DistinctProgram& distinct) {
    const Program& program = segments[distinct.segments[0]].program;
    return concat("Span<", elementwise_span(program), ", ", takes_fours(program) ? "true" : "false", ">{}, ");
  });
  out.close(";");
}

void emit_params(Writer& out, const std::vector<SegmentSpec>& segments, const std::vector<DistinctProgram>& programs) {
  const std::size_t size = elementwise_layout(segments).size;
  out.open("struct KernelParams");
  emit_arguments(out, programs);
  out.line("i32 runs[", segments.size(), "];");
  out.close(";");
  out.line("static_assert(sizeof(KernelParams) == ", size, ", \"the host lays it out alike\");");
}

// Of a multiprocessor, by the registers of a program. Four leave 128 a thread, which hold what a light one reads ahead,
// and have enough bytes on their way; what sums heads or columns is left as many as it takes.
int blocks_at_once(const std::vector<SegmentSpec>& segments) {
  const bool is_light = std::ranges::all_of(segments, [](const SegmentSpec& segment) {
    return span_sums(segment.program).empty() && column_reductions(segment.program).empty();
  });
  return is_light ? 4 : 1;
}

}  // namespace

std::int64_t elementwise_span(const Program& program) { return std::lcm(std::int64_t{64}, column_unit(program)); }

ElementwiseLayout elementwise_layout(const std::vector<SegmentSpec>& segments) {
  ElementwiseLayout layout;
  layout.arguments = place_arguments(segments, layout.runs);
  layout.size = round_up(layout.runs + 4 * segments.size(), 8);
  return layout;
}

std::string emit_elementwise(const std::vector<SegmentSpec>& segments) {
  const std::vector<DistinctProgram> programs = distinct_programs(segments);
  Writer out;
  out.line("// ", joined_names(segments), ", elementwise");
  out.margin("#include \"elementwise.cuh\"");
  out.line();
  out.line("namespace coda {");
  emit_programs(out, segments, programs);
  out.line();
  emit_params(out, segments, programs);
  out.line();
  emit_config(out, segments, programs);
  out.line();
  out.line("}  // namespace coda");
  out.line();
  emit_entry(out, concat("kElementwiseThreads, ", blocks_at_once(segments)), "KernelParams",
             "run_elementwise<coda::Config>");
  return out.take();
}

}  // namespace coda::cuda
