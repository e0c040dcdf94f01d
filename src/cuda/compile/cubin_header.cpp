#include "cuda/compile/cubin_header.h"

#include <elf.h>

#include <charconv>
#include <cstring>

#include "core/check.h"

namespace coda::cuda {
namespace {

constexpr int kMachineCuda = 190;

// Toolkits up to 12 write ABI version 7, later ones 8 (12.8 does for its newest architectures); they keep the number
// in different bits of the flags. 0 for a version that is not known.
int arch_number_of(const Elf64_Ehdr& header) {
  switch (header.e_ident[EI_ABIVERSION]) {
    case 7: return static_cast<int>(header.e_flags & 0xff);
    case 8: return static_cast<int>(header.e_flags >> 8 & 0xff);
    default: return 0;
  }
}

}  // namespace

int arch_number(std::string_view arch) {
  if (!arch.starts_with("sm_")) return 0;
  int number = 0;
  std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}

std::string cubin_problem(std::string_view image, std::string_view arch) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return "it is shorter than an ELF header";
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is no ELF file";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachineCuda) return "it is no code of a GPU";
  const int number = arch_number_of(header);
  if (number != 0 && number != arch_number(arch)) return concat("its code is for sm_", number, ", not ", arch);
  return {};
}

}  // namespace coda::cuda
