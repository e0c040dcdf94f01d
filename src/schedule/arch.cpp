// One row a GPU architecture coda has kernels for.
#include <algorithm>
#include <array>

#include "coda/schedule.h"

namespace coda {

std::span<const Arch> arch_table() {
  static constexpr std::array kTable{
      Arch{"sm_90a", 9, 0, 227 * 1024},  // H100, H200, GH200
  };
  return kTable;
}

const Arch* find_arch(int major, int minor) {
  const auto table = arch_table();
  const auto row = std::ranges::find_if(table, [&](const Arch& a) { return a.major == major && a.minor == minor; });
  return row == table.end() ? nullptr : &*row;
}

}  // namespace coda
