// NVRTC, opened at run time: kernel text in, cubin out.
#pragma once

#include <string>
#include <string_view>

namespace coda::cuda {

/// Device code of one kernel, with what the compiler said.
struct Cubin {
  std::string image;  ///< an ELF for exactly the architecture it was compiled for
  std::string log;    ///< with ptxas's report: registers, spills, stack, warnings
};

/// "13.0": version of the NVRTC in use. Errors: as compile.
std::string nvrtc_version();

/// File the NVRTC in use was loaded from. Errors: as compile.
std::string nvrtc_path();

/// What tells any two NVRTCs apart: the version and the library's build id. Errors: as compile.
std::string nvrtc_build();

/// One more folder to look for an NVRTC in: one that holds the library, or Python's site-packages. To be called before
/// the first compilation: an NVRTC that was found stays.
void add_nvrtc_folder(std::string folder);

/// Options every kernel is compiled with, for an architecture like "sm_90a"; those of NVRTC_APPEND_FLAGS included.
std::string compile_options(std::string_view arch);

/// What a kernel is called in its cubin, and so by profilers. Its text says CODA_KERNEL, a macro of that name.
std::string kernel_symbol(std::string_view name);

/// Compiles `text`, whose includes are files of src/cuda/device by their path there. `name` is what the compiler's
/// messages call it, and kernel_symbol(name) its entry. Thread-safe. Errors: NotImplementedError when no NVRTC is
/// found, with the places looked at and the cure, or when it cannot target `arch`; ValueError when CODA_NVRTC names no
/// usable library; InternalError with the compiler's log when the text does not compile.
Cubin compile(std::string_view name, std::string_view text, std::string_view arch);

}  // namespace coda::cuda
