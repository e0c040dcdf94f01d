#include "cuda/emit/distinct.h"

#include <algorithm>

#include "core/integers.h"
#include "cuda/emit/kernel.h"
#include "cuda/emit/program.h"

namespace coda::cuda {
namespace {

bool same_program(const SegmentSpec& x, const SegmentSpec& y) {
  return x.access == y.access && to_text(x.program) == to_text(y.program);
}

// Position of a segment among those of its program.
std::string place_of(const DistinctProgram& program) {
  std::string text = "0";
  for (std::size_t i = 1; i < program.segments.size(); ++i)
    text = concat("segment == ", program.segments[i], " ? ", i, " : ", text);
  return text;
}

}  // namespace

std::vector<DistinctProgram> distinct_programs(const std::vector<SegmentSpec>& segments) {
  std::vector<DistinctProgram> distinct;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto known = std::ranges::find_if(distinct, [&](const DistinctProgram& program) {
      return same_program(segments[program.segments[0]], segments[i]);
    });
    if (known != distinct.end()) {
      known->segments.push_back(i);
    } else {
      const std::string number = distinct.empty() ? "" : std::to_string(distinct.size());
      distinct.push_back({"Epilogue" + number, "arguments" + number, {i}});
    }
  }
  return distinct;
}

void emit_programs(Writer& out, const std::vector<SegmentSpec>& segments,
                   const std::vector<DistinctProgram>& programs) {
  for (const DistinctProgram& program : programs) {
    out.line();
    emit_program(out, program.name, segments[program.segments[0]]);
  }
}

void emit_arguments(Writer& out, const std::vector<DistinctProgram>& programs) {
  for (const DistinctProgram& program : programs)
    out.line(program.name, "::Arguments ", program.arguments, "[", program.segments.size(), "];");
}

std::vector<std::size_t> place_arguments(const std::vector<SegmentSpec>& segments, std::size_t& end) {
  std::vector<std::size_t> places(segments.size());
  for (const DistinctProgram& program : distinct_programs(segments)) {
    for (const std::size_t segment : program.segments) {
      places[segment] = end;
      end += arguments_bytes(segments[segment]);
    }
  }
  return places;
}

void emit_visit(Writer& out, const std::vector<DistinctProgram>& programs,
                const std::function<std::string(const DistinctProgram&)>& more) {
  out.line("template <class Body>");
  out.open("__device__ __forceinline__ static void visit(const Params& p, i32 segment, Body&& body)");
  for (const DistinctProgram& program : programs) {
    const std::string call =
        concat("body(", program.name, "{}, ", more(program), "p.", program.arguments, "[", place_of(program), "]);");
    out.line(programs.size() == 1 ? call : concat("if (", is_one_of(program.segments), ") ", call));
  }
  out.close();
}

std::string is_one_of(const std::vector<std::size_t>& segments) {
  std::string text;
  for (const std::size_t segment : segments) text += concat(text.empty() ? "" : " || ", "segment == ", segment);
  return text;
}

std::string joined_names(const std::vector<SegmentSpec>& segments) {
  constexpr std::size_t kMostLetters = 100;  // it names a folder, with a hash behind it
  std::string name = segments[0].program.name();
  for (std::size_t i = 1; i < segments.size(); ++i)
    if (segments[i].program.name() != segments[i - 1].program.name()) name += "_" + segments[i].program.name();
  name.resize(std::min(name.size(), kMostLetters));
  return name;
}

std::size_t arguments_bytes(const SegmentSpec& segment) {
  return first_matrix(segment) + kMatrixBytes * matrix_operands(segment).size();
}

std::size_t first_matrix(const SegmentSpec& segment) { return round_up(8 + 4 * counted_operands(segment).size(), 8); }

}  // namespace coda::cuda
