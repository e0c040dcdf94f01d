// coda tune: times the schedules worth trying for a product on the GPU and records the fastest.
#include "coda/tune.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/device_memory.h"
#include "cli/product.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "core/check.h"
#include "core/options.h"
#include "schedule/records.h"

namespace coda::cli {
namespace {

struct TuneCommandOptions {
  ProductOptions product;
  std::vector<std::int64_t> m{4096};
  int rounds = TuneOptions{}.rounds;
  bool no_record = false;
  bool list_records = false;
};

void print_timings(const Problem& problem, const std::vector<Timing>& timings) {
  const double products = problem.b.view == Factor::View::Pair ? 2 : 1;
  const double flops =
      2.0 * products * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k);
  std::vector<std::vector<std::string>> rows{{"schedule", "ms", "ratio", "TFLOP/s", "reason"}};
  for (const Timing& timing : timings)
    rows.push_back({to_text(timing.schedule), fixed(timing.milliseconds, 4), fixed(timing.ratio, 3),
                    fixed(flops / timing.milliseconds / 1e9, 1), timing.reason});
  std::cout << problem.segments[0].program.name() << ", M " << problem.m << ", N " << problem.n << ", K " << problem.k
            << ":\n"
            << table_text(rows, "lrrrl");
}

void tune_one(const TuneCommandOptions& command, const cuda::Gpu& gpu, std::int64_t m) {
  DeviceMemory memory(gpu, command.product.n);
  const Problem problem = make_product(
      "tune", command.product, m, [&](DType dtype, std::int64_t elements) { return memory.tensor(dtype, elements); });
  std::vector<Timing> timings;
  {
    Progress progress(concat("M ", m));
    TuneOptions options{.rounds = command.rounds, .record = !command.no_record};
    options.progress = [&](std::string_view stage, int done, int total) { progress.show(stage, done, total); };
    timings = tune(problem, options);
  }
  print_timings(problem, timings);
}

int tune_all(const TuneCommandOptions& command) {
  REQUIRE(ValueError, !command.product.program.empty(),
          "tune: no PROGRAM was given, expected one: name it, or ask for --list-records");
  cuda::driver();  // without a GPU this says so before anything else
  const cuda::Gpu& gpu = cuda::gpu(0);
  for (const std::int64_t m : command.m) tune_one(command, gpu, m);
  if (command.no_record) return kOk;
  const std::string file = records_file(gpu.name);
  if (file.empty() || options().cache != "rw")
    std::cout << "not recorded: CODA_CACHE or the lack of a directory forbids it; coda doctor says more\n";
  else
    std::cout << "recorded in " << file << "\n";
  return kOk;
}

// The GPUs there are records of: each file names its own.
std::set<std::string> recorded_gpus() {
  std::set<std::string> gpus;
  std::error_code ignored;
  const auto folder = std::filesystem::path(records_file("any")).parent_path();
  for (const auto& item : std::filesystem::directory_iterator(folder, ignored)) {
    if (item.path().extension() != ".json") continue;
    std::ifstream file(item.path());
    const auto json = nlohmann::json::parse(file, nullptr, false);
    if (json.is_object()) gpus.insert(json.value("gpu", ""));
  }
  gpus.erase("");
  return gpus;
}

int list_records() {
  std::size_t count = 0;
  for (const std::string& gpu : recorded_gpus()) {
    std::vector<std::vector<std::string>> rows{{"up to M", "N", "K", "schedule", "ms", "date", "program"}};
    for (const Record& record : records_of(gpu)) {
      const std::string& kernel = record.key.kernel;
      const auto at = kernel.find("program ");
      const std::string program =
          at == std::string::npos ? "" : kernel.substr(at + 8, kernel.find(' ', at + 8) - at - 8);
      rows.push_back({std::to_string(record.key.m_bucket), std::to_string(record.key.n), std::to_string(record.key.k),
                      to_text(record.schedule), fixed(record.milliseconds, 4), record.date, program});
    }
    count += rows.size() - 1;
    std::cout << gpu << ", " << records_file(gpu) << ":\n" << table_text(rows, "rrrlrll");
  }
  if (count == 0) std::cout << "no schedules are recorded\n";
  return kOk;
}

}  // namespace

Command tune_command(CLI::App& coda) {
  CLI::App* app = coda.add_subcommand("tune", "Time the schedules worth trying on the GPU and record the fastest");
  app->footer(
      "Plans made afterwards take the recorded schedule for an M up to the next power of two.\nExamples:\n"
      "  coda tune bias_gelu -m 4096 -m 8192 -n 11008 -k 4096\n"
      "  coda tune --list-records");
  const auto options = std::make_shared<TuneCommandOptions>();
  add_product_options(*app, options->product);
  app->add_option("-m", options->m, "Rows of the output; may be given several times")
      ->allow_extra_args(false)
      ->check(CLI::Range(std::int64_t{1}, kMaxExtent))
      ->capture_default_str();
  app->add_option("--rounds", options->rounds, "Rounds the fastest candidates are timed for")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app->add_flag("--no-record", options->no_record, "Only time them");
  app->add_flag("--list-records", options->list_records, "Print the recorded schedules instead");
  return {app, [options] { return options->list_records ? list_records() : tune_all(*options); }};
}

}  // namespace coda::cli
