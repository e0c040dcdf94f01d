// What one may ask of the CUDA backend beside running: is everything there that it needs, and what does a kernel look
// like. Neither needs a GPU.
#pragma once

#include <string>
#include <vector>

#include "coda/problem.h"
#include "coda/schedule.h"

namespace coda {

/// One thing the CUDA backend needs.
struct Diagnosis {
  std::string what;  ///< "NVIDIA driver", "GPU cuda:0", "NVRTC", "kernel cache"
  bool good = false;
  std::string found;  ///< version, name or path; or what is wrong
  std::string cure;   ///< what to do; empty when good
};

/// Driver, each GPU, NVRTC, whether kernels can be compiled and loaded, and the cache, in that order. Never throws for
/// what it diagnoses.
std::vector<Diagnosis> diagnose();

/// A kernel as it would be run.
struct KernelReport {
  std::string name;
  Schedule schedule{};       ///< of a product; a program without one has no schedule
  int shared_bytes = 0;      ///< shared memory of a block
  std::string text;          ///< the `.cu`
  std::string compiler_log;  ///< with ptxas's report: registers, spills, stack
  std::string cubin;         ///< an ELF, for cuobjdump and nvdisasm
};

/// Writes and compiles the kernel of a problem whose tensors are on a GPU; pointers are not read, so they may be
/// invented. schedule null: as plan would choose on an H200. Errors: NotImplementedError with the reason no kernel can
/// be written; as compiling.
KernelReport report_kernel(const Problem& problem, const Schedule* schedule = nullptr);

}  // namespace coda
