// The CUDA backend: kernels for Hopper GPUs, written for each program, compiled when first planned.
#pragma once

#include <string>

#include "coda/backend.h"
#include "cuda/emit/spec.h"
#include "schedule/records.h"

namespace coda::cuda {

const Backend& cuda_backend();

/// Nothing when a kernel can be written for the problem; otherwise the reason why not. Asks no GPU.
std::optional<std::string> kernel_refusal(const Problem& problem);

/// The problem's candidates, at least one. Errors: NotImplementedError when none fits, with the reason.
std::vector<Candidate> required_candidates(const Problem& problem, const Arch& arch, int multiprocessors);

/// What a choice of schedule for the problem is recorded under.
RecordKey record_key(const Problem& problem, const KernelSpec& spec, std::string_view gpu_name);

/// The problem's kernel with a schedule: the given one, else the recorded choice, else the first candidate for a GPU of
/// that many multiprocessors. Errors: NotImplementedError for a schedule that does not fit, or when none does.
KernelSpec scheduled(const Problem& problem, const Schedule* schedule, const Arch& arch, int multiprocessors,
                     std::string_view gpu_name);

}  // namespace coda::cuda
