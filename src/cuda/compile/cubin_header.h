// The first bytes of a cubin: an ELF file that names the architecture its code is for.
#pragma once

#include <string>
#include <string_view>

namespace coda::cuda {

/// 90 for "sm_90a"; 0 for what is no architecture.
int arch_number(std::string_view arch);

/// Why these bytes are no cubin for `arch`, or empty. The header has the number alone: "sm_90" and "sm_90a" look alike.
std::string cubin_problem(std::string_view image, std::string_view arch);

}  // namespace coda::cuda
