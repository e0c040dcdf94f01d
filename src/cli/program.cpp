// coda: the command line program. One file a command; this one reads the command line and reports errors.
#include "cli/program.h"

#include <algorithm>
#include <array>
#include <iostream>

#include "cli/command.h"

namespace coda::cli {

int run(std::vector<std::string> arguments, const std::vector<Diagnosis>& host) {
  CLI::App app{"coda: kernels of matrix products with programs in their epilogues, looked at and tuned", "coda"};
  app.set_version_flag("--version", "coda " CODA_VERSION, "Print the version");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  coda doctor                         is everything there that kernels need?\n"
      "  coda dump bias_gelu -m 8192         the kernel of a program, no GPU needed\n"
      "  coda explain residual_rms -m 8192   what it moves and computes, and its floor\n"
      "  coda explain layer                  what a layer keeps for its backward, in bytes a token\n"
      "  coda tune swiglu -n 11008 -k 4096   the fastest schedule for a product, recorded\n"
      "  coda cache ls                       the kernels kept on disk");
  const std::array commands{doctor_command(app, host), cache_command(app), dump_command(app), explain_command(app),
                            tune_command(app)};
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  try {
    for (const Command& command : commands)
      if (command.app->parsed()) return command.run();
  } catch (const std::exception& error) {
    std::cout.flush();
    std::cerr << "coda: " << error.what() << "\n";
    return kProblem;
  }
  return kUsage;
}

}  // namespace coda::cli
