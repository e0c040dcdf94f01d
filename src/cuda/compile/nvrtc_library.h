// The NVRTC shared library: where it is looked for, and the functions of it that coda calls.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "coda/error.h"

namespace coda::cuda {

/// The oldest NVRTC that knows sm_90a.
inline constexpr int kOldestNvrtcMajor = 12;

/// NVRTC's C functions; the types are those of nvrtc.h of the toolkit, results are 0 for success.
struct NvrtcFunctions {
  using Program = void*;
  int (*version)(int* major, int* minor) = nullptr;
  int (*count_archs)(int* count) = nullptr;
  int (*archs)(int* numbers) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*create_program)(Program*, const char* text, const char* name, int header_count, const char* const* headers,
                        const char* const* include_names) = nullptr;
  int (*destroy_program)(Program*) = nullptr;
  int (*compile_program)(Program, int option_count, const char* const* options) = nullptr;
  int (*cubin_size)(Program, std::size_t* size) = nullptr;
  int (*cubin)(Program, char* image) = nullptr;
  int (*log_size)(Program, std::size_t* size) = nullptr;
  int (*log)(Program, char* text) = nullptr;
};

struct NvrtcLibrary {
  NvrtcFunctions call;
  int major = 0;
  int minor = 0;
  std::string path;
  std::string build;  ///< GNU build id of the file in hex, or its size when it has none

  std::string version() const;
};

/// Where to look, in this order: `file` alone when given; else the names as the loader finds them, loaded ones first;
/// then the names in each folder, and in the places a Python package of NVRTC has below each folder.
struct NvrtcSearch {
  std::string file;
  std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12"};
  std::vector<std::string> folders;
};

/// Of this process: its options, the CUDA toolkit's folders, Python's package folders, add_nvrtc_folder's.
NvrtcSearch nvrtc_search();

/// Opens the first usable one. Errors: NotImplementedError when there is none; ValueError for a `file` that is none.
NvrtcLibrary open_nvrtc(const NvrtcSearch& search);

/// Why an NVRTC of this version cannot be used, or empty.
std::string nvrtc_version_problem(int major, int minor);

/// The NVRTC of this process, opened at the first call that finds one. Errors: as open_nvrtc.
const NvrtcLibrary& nvrtc();

}  // namespace coda::cuda
