// coda dump: a program's kernel, to look at: schedule, program, text, the compiler's report, machine code. No GPU
// needed.
#include <iostream>

#include "cli/command.h"
#include "cli/product.h"
#include "cli/table.h"
#include "coda/cuda.h"
#include "core/check.h"
#include "cuda/backend.h"
#include "cuda/compile/disassemble.h"
#include "cuda/launch/layout.h"

namespace coda::cli {
namespace {

constexpr int kMultiprocessors = 132;  // an H200's, as in report_kernel

struct DumpOptions {
  ProductOptions product;
  std::int64_t m = 4096;
  std::string schedule;
  std::string only;  ///< part to print; empty: all
  bool list = false;
  bool sass = false;  ///< asked for: an error when there is no nvdisasm
  bool no_sass = false;
};

void print_candidates(const Problem& problem) {
  REQUIRE(NotImplementedError, !problem.a.parts.empty(), "dump: program '", problem.segments[0].program.name(),
          "' fits no schedule: it has no product, which is what a schedule cuts up: leave --list out");
  const GemmShape shape = cuda::gemm_shape(problem, cuda::specialise(problem));
  const Arch& arch = *find_arch(9, 0);
  const std::vector<Candidate> list = cuda::required_candidates(problem, arch, kMultiprocessors);
  std::vector<std::vector<std::string>> rows{{"schedule", "shared", "reason"}};
  for (const Candidate& candidate : list)
    rows.push_back(
        {to_text(candidate.schedule), bytes_text(shared_bytes(candidate.schedule, shape)), candidate.reason});
  std::cout << table_text(rows, "lrl");
}

// Prints the parts that were asked for, each under its name unless it is the only one.
class Parts {
 public:
  explicit Parts(const std::string& only) : only_(only) {}

  void print(std::string_view name, std::string_view text) {
    if (!only_.empty() && only_ != name) return;
    if (only_.empty()) std::cout << (first_ ? "" : "\n") << "== " << name << "\n";
    first_ = false;
    std::cout << text << (text.ends_with('\n') ? "" : "\n");
  }

 private:
  const std::string& only_;
  bool first_ = true;
};

// Empty when none is to be printed, or none can be and nobody insists.
std::string sass_of(const DumpOptions& options, const std::string& cubin) {
  if (options.no_sass || !(options.only.empty() || options.only == "sass")) return "";
  const auto sass = cuda::disassemble(cubin);
  const bool must = options.sass || options.only == "sass";
  REQUIRE(NotImplementedError, sass || !must,
          "dump: no nvdisasm was found, expected one on PATH: pip install nvidia-cuda-nvdisasm, or leave --sass out");
  return sass.value_or("");
}

void print_report(const Problem& problem, const DumpOptions& options) {
  Schedule given;
  if (!options.schedule.empty()) given = parse_schedule(options.schedule);
  Parts parts(options.only);
  const std::string program = to_text(problem.segments[0].program);
  if (options.only == "program") return parts.print("program", program);
  const KernelReport report = report_kernel(problem, options.schedule.empty() ? nullptr : &given);
  const std::string sass = sass_of(options, report.cubin);
  const std::string facts = concat("\n", report.name, ": ", report.shared_bytes, " bytes of shared memory a block");
  if (!problem.a.parts.empty()) parts.print("schedule", to_text(report.schedule) + (options.only.empty() ? facts : ""));
  parts.print("program", program);
  parts.print("text", report.text);
  parts.print("ptxas", report.compiler_log);
  if (!sass.empty()) parts.print("sass", sass);
}

int dump(const DumpOptions& options) {
  const Problem problem = make_product("dump", options.product, options.m, invented_memory());
  if (const auto refusal = cuda::kernel_refusal(problem)) {
    std::cerr << "coda: dump: program '" << problem.segments[0].program.name() << "' has no kernel: " << *refusal
              << "\n";
    return kUsage;
  }
  if (options.list)
    print_candidates(problem);
  else
    print_report(problem, options);
  return kOk;
}

}  // namespace

Command dump_command(CLI::App& coda) {
  CLI::App* app = coda.add_subcommand("dump", "Print the kernel of a program: schedule, text, compiler's report, SASS");
  app->footer(
      "No GPU is needed. Exit status: 2 for a program that has no kernel yet.\nExamples:\n"
      "  coda dump bias_gelu -m 8192\n"
      "  coda dump swiglu --list\n"
      "  coda dump my_program.ir --only text > kernel.cu");
  const auto options = std::make_shared<DumpOptions>();
  add_one_product_options(*app, options->product, options->m);
  app->add_option("--schedule", options->schedule, "Schedule, as --list prints them; default: as a plan chooses");
  CLI::Option* list = app->add_flag("--list", options->list, "List the schedules worth timing, with reasons, instead");
  CLI::Option* only = app->add_option("--only", options->only, "Print this part alone, without headings")
                          ->check(CLI::IsMember({"schedule", "program", "text", "ptxas", "sass"}));
  CLI::Option* sass = app->add_flag("--sass", options->sass, "Fail when no nvdisasm is found to print SASS with");
  CLI::Option* no_sass = app->add_flag("--no-sass", options->no_sass, "Print no SASS");
  list->excludes(only);
  no_sass->excludes(sass);
  return {app, [options] { return dump(*options); }};
}

}  // namespace coda::cli
