// coda explain: what a program moves and computes, and the time neither lets it fall below. No GPU needed.
#include <iostream>

#include "cli/command.h"
#include "cli/product.h"
#include "cli/table.h"
#include "core/check.h"

namespace coda::cli {
namespace {

struct ExplainOptions {
  ProductOptions product;
  std::int64_t m = 4096;
  double tflops = 989;     // an H200's dense bf16 rate, from its data sheet
  double gb_per_s = 4800;  // and its memory's
};

double bytes_of(const TensorView& tensor) {
  return static_cast<double>(tensor.size()) * static_cast<double>(size_of(tensor.dtype()));
}

// Every tensor of the launch, once: its way through memory and its bytes.
class Traffic {
 public:
  void add(const std::string& name, const TensorView& tensor, Role role) {
    const double bytes = bytes_of(tensor) * (role == Role::Accumulate ? 2 : 1);
    rows_.push_back(
        {name, shape_text(tensor.shape()), std::string(name_of(tensor.dtype())), way_of(role), bytes_text(bytes)});
    total_ += bytes;
  }

  std::string text() const { return table_text(rows_, "llllr"); }
  double total() const { return total_; }

 private:
  static std::string way_of(Role role) {
    switch (role) {
      case Role::Input: return "read";
      case Role::Output: return "written";
      case Role::Accumulate: return "read and written";
    }
    INVARIANT(false, "role ", static_cast<int>(role));
  }

  std::vector<std::vector<std::string>> rows_{{"tensor", "shape", "dtype", "", "bytes"}};
  double total_ = 0;
};

Traffic traffic_of(const Problem& problem) {
  Traffic traffic;
  const auto factor = [&](const std::string& name, const Factor& of) {
    for (std::size_t i = 0; i < of.parts.size(); ++i)
      traffic.add(of.parts.size() > 1 ? concat(name, i) : name, of.parts[i], Role::Input);
  };
  factor("A", problem.a);
  factor("B", problem.b);
  for (const BoundSegment& segment : problem.segments)
    for (std::size_t i = 0; i < segment.operands.size(); ++i) {
      const Operand& operand = segment.program.operands()[i];
      traffic.add(operand.name, segment.operands[i], operand.role);
    }
  return traffic;
}

// Two for each multiply-add of the products.
double product_flops(const Problem& problem) {
  double flops = 0;
  for (const BoundSegment& segment : problem.segments)
    flops += 2.0 * static_cast<double>(segment.rows) * static_cast<double>(segment.cols) *
             static_cast<double>(problem.k) * segment.program.accumulators();
  return flops;
}

int ops_an_element(const Program& program) {
  int ops = 0;
  for (const Node& node : program.nodes())
    if (node.kind == NodeKind::Map && node.type.shape == Shape::Tile) ++ops;
  return ops;
}

int explain(const ExplainOptions& options) {
  const Problem problem = make_product("explain", options.product, options.m, invented_memory());
  const Traffic traffic = traffic_of(problem);
  const double flops = product_flops(problem);
  const double product_us = flops / options.tflops / 1e6, memory_us = traffic.total() / options.gb_per_s / 1e3;
  std::cout << traffic.text() << "\n"
            << "moved    " << bytes_text(traffic.total()) << "\n"
            << "product  " << fixed(flops / 1e9, 1) << " GFLOP, " << fixed(flops / traffic.total(), 1)
            << " FLOP a byte\n"
            << "program  " << ops_an_element(problem.segments[0].program) << " operations an element\n"
            << "floor    " << fixed(std::max(product_us, memory_us), 1) << " us at " << fixed(options.tflops, 0)
            << " TFLOP/s and " << fixed(options.gb_per_s, 0) << " GB/s: the product takes " << fixed(product_us, 1)
            << ", memory " << fixed(memory_us, 1) << "\n";
  return kOk;
}

}  // namespace

Command explain_command(CLI::App& coda) {
  CLI::App* app =
      coda.add_subcommand("explain", "What a program moves and computes, and the time it cannot fall below");
  app->footer(
      "No GPU is needed. The rates are those of an H200 unless others are given.\nExamples:\n"
      "  coda explain residual_rms -m 16384\n"
      "  coda explain my_backward.ir -n 14336 -k 4096 --tflops 400 --gb-per-s 2000");
  const auto options = std::make_shared<ExplainOptions>();
  add_one_product_options(*app, options->product, options->m);
  app->add_option("--tflops", options->tflops, "Rate of products, in 10^12 operations a second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--gb-per-s", options->gb_per_s, "Rate of memory, in 10^9 bytes a second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  // PROGRAM, unless it is a layer.
  app->get_option("PROGRAM")->required(false);
  const Command layer = explain_layer_command(*app);
  app->final_callback([layer, options] {
    if (!layer.app->parsed() && options->product.program.empty()) throw CLI::RequiredError("PROGRAM");
  });
  return {app, [layer, options] { return layer.app->parsed() ? layer.run() : explain(*options); }};
}

}  // namespace coda::cli
