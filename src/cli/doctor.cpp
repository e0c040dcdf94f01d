// coda doctor: what the CUDA backend needs, and what to do about what is missing.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/table.h"

namespace coda::cli {
namespace {

constexpr const char* kIndent = "      ";

bool all_good(const std::vector<Diagnosis>& rows) { return std::ranges::all_of(rows, &Diagnosis::good); }

// The lines after the first, a compiler's log say, indented like the cures.
std::string indented(const std::string& text) {
  std::string lines;
  for (const char c : text) lines += c == '\n' ? std::string("\n") + kIndent : std::string(1, c);
  return lines;
}

void print(const std::vector<Diagnosis>& rows) {
  std::size_t width = 0;
  for (const Diagnosis& row : rows) width = std::max(width, row.what.size());
  for (const Diagnosis& row : rows) {
    std::cout << (row.good ? "ok    " : "FAIL  ") << row.what << std::string(width - row.what.size() + 2, ' ')
              << indented(row.found) << "\n";
    if (!row.good) std::cout << kIndent << "cure: " << indented(row.cure) << "\n";
  }
}

void print_json(const std::vector<Diagnosis>& rows) {
  nlohmann::ordered_json json;
  json["good"] = all_good(rows);
  json["checks"] = nlohmann::ordered_json::array();
  for (const Diagnosis& row : rows)
    json["checks"].push_back({{"what", row.what}, {"good", row.good}, {"found", row.found}, {"cure", row.cure}});
  std::cout << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace

Command doctor_command(CLI::App& coda, const std::vector<Diagnosis>& host) {
  CLI::App* app =
      coda.add_subcommand("doctor", "Say whether kernels can be compiled and run here, and what to do if not");
  app->footer("Exit status: 0 when all is good, else 1.\nExample:\n  coda doctor --json");
  const auto json = std::make_shared<bool>(false);
  app->add_flag("--json", *json, "Print JSON");
  return {app, [json, host] {
            std::vector<Diagnosis> rows = diagnose();
            rows.insert(rows.end(), host.begin(), host.end());
            if (*json)
              print_json(rows);
            else
              print(rows);
            return all_good(rows) ? kOk : kProblem;
          }};
}

}  // namespace coda::cli
