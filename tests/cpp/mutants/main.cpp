// Runs the tests of gradients once for each mutant of differentiate, in a process of its own, and fails if one passes:
// what can be taken out of the code without a test failing is not tested.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "core/thread_count.h"
#include "mutants/mutants.h"

namespace coda::mutants {
namespace {

// A process that runs the tests as a mutant; it exits with 0 when all pass.
pid_t start(int mutant) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  active = mutant;
  if (mutant >= 0 && !std::freopen("/dev/null", "w", stdout)) std::_Exit(0);
  std::_Exit(RUN_ALL_TESTS());
}

bool passed(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

bool passes(int mutant) {
  int status = 0;
  waitpid(start(mutant), &status, 0);
  return passed(status);
}

// The mutants no test failed for.
std::vector<int> survivors(int processes) {
  std::map<pid_t, int> running;
  std::vector<int> found;
  const auto wait_for_one = [&] {
    int status = 0;
    const pid_t child = wait(&status);
    if (passed(status)) found.push_back(running.at(child));
    running.erase(child);
  };
  for (int mutant = 0; mutant < static_cast<int>(list().size()); ++mutant) {
    if (static_cast<int>(running.size()) == processes) wait_for_one();
    running[start(mutant)] = mutant;
  }
  while (!running.empty()) wait_for_one();
  // The tests draw their inputs: one that passed by luck fails when it runs again.
  std::erase_if(found, [](int mutant) { return !passes(mutant) || !passes(mutant); });
  return found;
}

}  // namespace
}  // namespace coda::mutants

int main(int argc, char** argv) {
  using namespace coda::mutants;
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(fail_fast, true);
  if (!passes(-1)) {
    std::puts("mutants: the tests fail without any edit");
    return 1;
  }
  const std::vector<int> found = survivors(coda::thread_count());
  for (const int mutant : found) std::printf("mutants: no test fails for %s\n", list()[mutant].c_str());
  std::printf("mutants: %zu of %zu caught\n", list().size() - found.size(), list().size());
  return found.empty() ? 0 : 1;
}
