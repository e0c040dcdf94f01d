// Mutants: copies of differentiate with one edit each, all in one executable; a process chooses which it is.
#pragma once

#include <string>
#include <vector>

namespace coda::mutants {

/// What each mutant is without, in words.
std::vector<std::string>& list();

/// The number of the one this process is; −1: none.
inline int active = -1;

inline int add(std::string words) {
  list().push_back(std::move(words));
  return static_cast<int>(list().size()) - 1;
}

}  // namespace coda::mutants
