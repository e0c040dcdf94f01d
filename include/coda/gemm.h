// gemm: a matrix product and the program on its output tile, in one call. elementwise: the program alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "coda/backend.h"
#include "coda/problem.h"

namespace coda {

/// Runs `program` on A·B. a: (M,K); b: (K,N), so a checkpoint's (N,K) weight enters as weight.transposed(); f32, bf16
/// or f16 (f64 by the reference). `operands` binds every operand of the program, outputs included, by name.
/// `backend`: empty takes CODA_BACKEND, else the first that can. `where`: the stream on a GPU. Errors: ValueError,
/// TypeError, IndexError, NotImplementedError, all before anything is written.
void gemm(const Factor& a, const Factor& b, const Program& program, const Operands& operands,
          std::string_view backend = {}, const Execution& where = {});

/// The same with a program and operands for each part of a Concat factor: q, k and v in one launch.
void gemm(const Factor& a, const Factor& b, std::span<const Segment> segments, std::string_view backend = {},
          const Execution& where = {});

/// Runs a program that has no accumulator over a rows × cols output.
void elementwise(std::int64_t rows, std::int64_t cols, const Program& program, const Operands& operands,
                 std::string_view backend = {}, const Execution& where = {});

/// The same with programs side by side, segments[i] over cols[i] columns of its own: one launch.
void elementwise(std::int64_t rows, std::span<const std::int64_t> cols, std::span<const Segment> segments,
                 std::string_view backend = {}, const Execution& where = {});

/// Checks the indices of a bound problem, picks the backend, plans and runs: what the calls above do once they bound.
void run(const Problem& problem, std::string_view backend = {}, const Execution& where = {});

/// Plan once, run many: the backend is picked and the problem made ready; on a GPU its kernel is compiled and loaded.
/// Errors: NotImplementedError with the reason why none can run it; as the backend's plan.
std::unique_ptr<Plan> plan(const Problem& problem, std::string_view backend = {}, const PlanOptions& how = {});

/// Threads a call may use; 0 asks for CODA_NUM_THREADS, else every core the process may run on. Errors: ValueError.
void set_num_threads(int count);
int num_threads();

}  // namespace coda
