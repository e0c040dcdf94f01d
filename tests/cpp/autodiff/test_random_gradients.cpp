// Gradients of random programs against differences: with the accumulator at hand, with it stored, and with whatever the
// program stores by itself. A failing program is printed with its seed, and shrinks.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "autodiff/gradcheck.h"
#include "coda/error.h"
#include "support/random_program.h"

namespace coda {
namespace {

using namespace testing_support;

// Without maxima, whose derivative is refused.
Program smooth(const Program& program) {
  Program::Data data = program.data();
  for (Operand& operand : data.operands)
    if (operand.role != Role::Input && operand.partials && operand.partials->op == Reduction::Max)
      operand.partials->op = Reduction::Sum;
  for (Node& node : data.nodes)
    if (node.kind == NodeKind::Reduce && node.reduction == Reduction::Max) node.reduction = Reduction::Sum;
  return in_double(Program(std::move(data)));
}

// The name in quotes after `before`, or nothing.
std::string quoted_after(const std::string& text, const std::string& before) {
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + before.size();
  return text.substr(begin, text.find('\'', begin) - begin);
}

struct Wanted {
  std::vector<std::string> smooth, flat;
};

// Divides the inputs into those with a gradient and those without; leaves out those that are refused.
Wanted wanted_of(const Program& program, const std::vector<Cotangent>& cotangents,
                 const DifferentiateOptions& options) {
  Wanted wanted{everything(program), {}};
  while (!wanted.smooth.empty()) {
    std::string flat, refused;
    try {
      differentiate(program, wanted.smooth, cotangents, options);
      return wanted;
    } catch (const NotImplementedError& error) {
      refused = quoted_after(error.what(), "wrt names '");
      RC_ASSERT(!refused.empty());
    } catch (const ValueError& error) {
      flat = quoted_after(error.what(), "no gradient reaches '");
      if (flat.empty()) throw;
      wanted.flat.push_back(flat);
    }
    std::erase(wanted.smooth, refused.empty() ? flat : refused);
  }
  return wanted;
}

void check(const Program& program, const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options,
           Extent extent, std::uint64_t seed) {
  const Wanted wanted = wanted_of(program, cotangents, options);
  if (wanted.smooth.empty()) return;
  const Verdict verdict = check_gradients(program, wanted.smooth, cotangents, options, extent, seed);
  if (!verdict.wrong.empty()) RC_FAIL(verdict.wrong);
  RC_TAG(verdict.compared > verdict.kinks ? "mostly smooth" : "mostly kinks");
}

RC_GTEST_PROP(RandomGradients, WithTheAccumulatorComputedAgain, (std::uint64_t seed)) {
  const Program program = smooth(*random_programs());
  check(program, loads(program), {.recompute_acc = true}, {}, seed);
}

RC_GTEST_PROP(RandomGradients, OverSeveralPartials, (std::uint64_t seed)) {
  const Program program = smooth(*random_programs({.max_steps = 12}));
  check(program, loads(program), {.recompute_acc = true}, {67, 80}, seed);
}

RC_GTEST_PROP(RandomGradients, WithTheAccumulatorStored, (std::uint64_t seed)) {
  const Program plain = smooth(*random_programs());
  if (plain.accumulators() == 0) return;
  const Program program = with_saved(plain, {"acc0"});
  std::vector<Cotangent> cotangents = loads(program);
  cotangents.back() = Cotangent::none("acc0");
  for (Cotangent& cotangent : cotangents) {
    const Operand& output = program.operand(program.find_operand(cotangent.output));
    if (output.name == "acc0" || output.shape != Shape::Tile || !output.pairing.is_none()) continue;
    cotangent = Cotangent::acc(output.name);
    break;
  }
  check(program, cotangents, {}, {}, seed);
}

// The accumulator follows from what is stored, or the error names what to store.
RC_GTEST_PROP(RandomGradients, WithWhatTheProgramStores, (std::uint64_t seed)) {
  const Program program = smooth(*random_programs());
  try {
    check(program, loads(program), {}, {}, seed);
  } catch (const ValueError& error) {
    const std::string what = error.what();
    if (what.find("the backward needs value") == std::string::npos) RC_FAIL(what);
    RC_TAG("refused");
  }
}

RC_GTEST_PROP(RandomGradients, WhatNoGradientReachesIsFlat, (std::uint64_t seed)) {
  const Program program = smooth(*random_programs());
  const Wanted wanted = wanted_of(program, loads(program), {.recompute_acc = true});
  const Verdict verdict = check_flat(program, wanted.flat, {}, seed);
  if (!verdict.wrong.empty()) RC_FAIL(verdict.wrong);
}

}  // namespace
}  // namespace coda
