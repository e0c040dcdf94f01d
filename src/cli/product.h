// The product a command is about: a program, extents, dtypes and layouts from the command line, as a bound Problem.
#pragma once

#include <CLI/CLI11.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "coda/problem.h"

namespace coda::cli {

struct ProductOptions {
  std::string program;  ///< name in the library, or path of a program's text
  std::int64_t n = 4096;
  std::int64_t k = 4096;
  std::string dtype = "bf16";  ///< of A, B and the operands that are no vectors of statistics
  std::string out_dtype;       ///< of tile outputs; empty: dtype
  std::string layout = "TN";   ///< BLAS letters of B, then A; see the help text
};

/// Largest extent the command line takes: no product of extents overflows.
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 28;

/// Adds all of them but PROGRAM's being required, and M, which commands take differently.
void add_product_options(CLI::App& app, ProductOptions& options);

/// Adds PROGRAM, which is required, the others and one M.
void add_one_product_options(CLI::App& app, ProductOptions& options, std::int64_t& m);

/// A program of the library by its name, else one read from a file. Errors: ValueError, FileError.
Program find_program(std::string_view call, const std::string& name);

/// Gives the memory of a tensor with that many elements.
using Memory = std::function<void*(DType dtype, std::int64_t elements)>;

/// The product on cuda:0; its tensors are contiguous, an open number of partials is that of K in spans of 64. A program
/// without accumulator gives an elementwise pass, one with two a pair. Errors: as bind and find_program.
Problem make_product(std::string_view call, const ProductOptions& options, std::int64_t m, const Memory& memory);

/// Memory nobody has: aligned addresses for looking at a kernel without a GPU.
Memory invented_memory();

}  // namespace coda::cli
