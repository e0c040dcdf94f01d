// Many programs against the reference backend.
#pragma once

#include <atomic>
#include <thread>
#include <utility>

#include "emulated/program_case.h"

namespace coda::testing_support {

using NamedProgram = std::pair<std::string, Program>;

/// Compares each program, two at a time: most of it is the compiler.
inline void compare_all(const std::vector<NamedProgram>& programs, std::int64_t rows, std::int64_t least_cols,
                        bool aligned) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      for (std::size_t p = next++; p < programs.size(); p = next++) {
        const auto& [name, program] = programs[p];
        const std::int64_t cols = columns(program, least_cols);
        SCOPED_TRACE(name + (aligned ? ", aligned" : ", unaligned") + ", " + std::to_string(cols) + " columns");
        try {
          Case inputs(program, rows, cols, aligned, std::hash<std::string>{}(name));
          compare(inputs, program);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
    });
  threads.clear();
  std::cout << programs.size() << " programs\n";
}

}  // namespace coda::testing_support
