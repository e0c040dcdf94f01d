// Segments that run the same program on operands that travel the same way share its code and an array of arguments.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cuda/emit/spec.h"
#include "cuda/emit/writer.h"

namespace coda::cuda {

struct DistinctProgram {
  std::string name;       ///< of its struct
  std::string arguments;  ///< of its member of KernelParams
  std::vector<std::size_t> segments;
};

std::vector<DistinctProgram> distinct_programs(const std::vector<SegmentSpec>& segments);

/// Their structs.
void emit_programs(Writer& out, const std::vector<SegmentSpec>& segments, const std::vector<DistinctProgram>& programs);

/// Their members of KernelParams; and where each segment's arguments lie when the first begin at `end`, which moves
/// behind the last.
void emit_arguments(Writer& out, const std::vector<DistinctProgram>& programs);
std::vector<std::size_t> place_arguments(const std::vector<SegmentSpec>& segments, std::size_t& end);

/// Device function visit(p, segment, body), which calls body(program, [more,] arguments of the segment). `more`: text
/// of further arguments, with a comma behind each.
void emit_visit(Writer& out, const std::vector<DistinctProgram>& programs,
                const std::function<std::string(const DistinctProgram&)>& more);

/// "segment == 0 || segment == 2"
std::string is_one_of(const std::vector<std::size_t>& segments);

/// "rms_rope_rms": the names of the programs, of neighbours of one name once; for people.
std::string joined_names(const std::vector<SegmentSpec>& segments);

/// Bytes of a segment's arguments, and the offset of the first Matrix in them, behind rows, cols and the counts of
/// counted_operands.
std::size_t arguments_bytes(const SegmentSpec& segment);
std::size_t first_matrix(const SegmentSpec& segment);

}  // namespace coda::cuda
