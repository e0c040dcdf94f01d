// coda cache: the compiled kernels kept on disk.
#include "cuda/compile/cache.h"

#include <unistd.h>

#include <iostream>

#include "cli/command.h"
#include "cli/table.h"
#include "core/check.h"

namespace coda::cli {
namespace {

std::string count_text(std::size_t kernels) { return concat(kernels, kernels == 1 ? " kernel" : " kernels"); }

// Errors: FileError when there is no directory that can be used.
std::string directory() {
  const cuda::CacheReport report = cuda::cache_report();
  REQUIRE(FileError, !report.directory.empty(), "cache: there is no directory to look at: ", report.problem);
  return report.directory;
}

int list() {
  const std::string path = directory();
  const std::vector<cuda::CacheEntry> entries = cuda::cache_entries();
  std::vector<std::vector<std::string>> rows;
  double total = 0;
  for (const cuda::CacheEntry& entry : entries) {
    const auto bytes = static_cast<double>(entry.bytes);
    rows.push_back({entry.name, bytes_text(bytes), entry.created, entry.valid ? "valid" : "damaged"});
    total += bytes;
  }
  if (!rows.empty()) rows.insert(rows.begin(), {"name", "size", "created", "state"});
  std::cout << table_text(rows, "lrll") << count_text(entries.size()) << ", " << bytes_text(total) << ", in " << path
            << "\n";
  if (const std::string problem = cuda::cache_report().problem; !problem.empty())
    std::cout << "not used: " << problem << "\n";
  return kOk;
}

// Asks on a terminal. Errors: ValueError when there is none to ask on.
bool is_confirmed(const std::string& path, std::size_t kernels) {
  REQUIRE(ValueError, ::isatty(STDIN_FILENO) == 1,
          "cache clear: the input is no terminal to ask on, expected --yes: add it to remove ", count_text(kernels),
          " from '", path, "'");
  std::cout << "Remove " << count_text(kernels) << " from " << path << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int clear(bool yes) {
  const std::string path = directory();
  if (!yes && !is_confirmed(path, cuda::cache_entries().size())) {
    std::cout << "nothing was removed\n";
    return kProblem;
  }
  const int removed = cuda::clear_cache();
  std::cout << "removed " << count_text(static_cast<std::size_t>(removed)) << " from " << path << "\n";
  return kOk;
}

}  // namespace

Command cache_command(CLI::App& coda) {
  CLI::App* app = coda.add_subcommand("cache", "List or remove the compiled kernels kept on disk");
  app->footer("Examples:\n  coda cache ls\n  coda cache clear --yes");
  app->require_subcommand(1);
  const CLI::App* ls =
      app->add_subcommand("ls", "List the kernels: name, size, when they were made, whether they are whole");
  CLI::App* clear_app = app->add_subcommand("clear", "Remove every kernel; recorded schedules stay");
  const auto yes = std::make_shared<bool>(false);
  clear_app->add_flag("--yes,-y", *yes, "Do not ask");
  return {app, [ls, yes] { return ls->parsed() ? list() : clear(*yes); }};
}

}  // namespace coda::cli
