// The epilogue of a kernel: one struct for each distinct program, with its arguments and its chunk function.
#pragma once

#include <string>
#include <vector>

#include "cuda/emit/spec.h"
#include "cuda/emit/writer.h"

namespace coda::cuda {

/// Operands that reach the chunk function as a Matrix argument, in order: all but the staged tiles.
std::vector<int> matrix_operands(const SegmentSpec& segment);

/// Partials the program finishes, in order: how many there are of each is an argument.
std::vector<int> counted_operands(const SegmentSpec& segment);

/// Values a tile keeps: Cols in registers, Rows in shared memory.
struct KeptVectors {
  int cols = 0;
  int rows = 0;
};
KeptVectors kept_vectors(const SegmentSpec& segment);

/// "Bf16": the element type of device/element.cuh.
std::string element_name(DType dtype);

/// Writes the struct `name`; device/tile.cuh tells what a chunk is.
void emit_program(Writer& out, const std::string& name, const SegmentSpec& segment);

}  // namespace coda::cuda
