// Pairs and heads whose columns lie in different threads of a quad, at every distance and by every way that a tile
// takes, against the reference backend.
#include "coda/build.h"
#include "coda/epilogues.h"
#include "emulated/compare_all.h"

namespace coda::testing_support {
namespace {

class EmulatedPairs : public EmulatedTest {};

constexpr Pairing kPairings[] = {
    {Pairing::Kind::Halves, 96, 24},      {Pairing::Kind::Halves, 80, 20},      {Pairing::Kind::Halves, 72, 72},
    {Pairing::Kind::Halves, 120, 120},    {Pairing::Kind::Halves, 36, 36},      {Pairing::Kind::Halves, 16, 6},
    {Pairing::Kind::Halves, 48, 46},      {Pairing::Kind::Halves, 5, 4},        {Pairing::Kind::Halves, 16, 2},
    {Pairing::Kind::Interleaved, 80, 20}, {Pairing::Kind::Interleaved, 36, 36}, {Pairing::Kind::Interleaved, 5, 4},
    {Pairing::Kind::Interleaved, 15, 6},  {Pairing::Kind::Halves, 64, 32},      {Pairing::Kind::Interleaved, 64, 64}};

std::string name_of_pairs(const char* what, const Pairing& pairing) {
  return std::string(what) + "_" + (pairing.kind == Pairing::Kind::Halves ? "halves" : "interleaved") + "_" +
         std::to_string(pairing.head) + "_" + std::to_string(pairing.width);
}

// Members told apart: neither sum nor product is the same when they change places.
Value turned(const Value& z, const Value& angle, const Pairing& pairing) {
  const auto [first, second] = split(z, pairing);
  const Value a = first * 2 - second * angle, b = second * 3 + first * angle;
  return pairing.has_rest() ? join(a, b, z) : join(a, b);
}

// The accumulator with a row of whole columns and one of pairs.
Program of_product(const Pairing& pairing) {
  Builder b(name_of_pairs("product", pairing));
  const Value z = b.acc() + b.load_row("bias");
  b.store("out", turned(z, b.load_row("angle", {.pairing = pairing}), pairing));
  return b.build();
}

// Loaded tiles: one of whole columns that is split, one of pairs that is joined.
Program of_loads(const Pairing& pairing, bool with_product) {
  Builder b(name_of_pairs(with_product ? "product_of_loads" : "loads", pairing));
  Value z = b.load_tile("x") * b.load_row("gamma");
  if (with_product) z = z + b.acc();
  const Value angle = b.load_tile("angle", {.pairing = pairing});
  b.store("out", turned(z, angle, pairing));
  const auto [first, second] = split(z, pairing);
  b.store("members", first * second + angle);
  return b.build();
}

std::vector<NamedProgram> programs_of_pairs() {
  std::vector<NamedProgram> programs;
  for (const Pairing& pairing : kPairings)
    for (const Program& program : {of_product(pairing), of_loads(pairing, false), of_loads(pairing, true)})
      programs.emplace_back(program.name(), program);
  return programs;
}

TEST_F(EmulatedPairs, AlignedTensors) { compare_all(programs_of_pairs(), 70, 200, true); }

TEST_F(EmulatedPairs, RaggedAndUnalignedTensors) {
  std::vector<NamedProgram> programs;
  for (const Pairing& pairing : kPairings) programs.emplace_back(name_of_pairs("", pairing), of_loads(pairing, true));
  compare_all(programs, 37, 121, false);
}

TEST_F(EmulatedPairs, EveryCandidate) {
  const Program program = of_product({Pairing::Kind::Halves, 96, 24});
  Case inputs(program, 70, 288, true, 1);
  const std::vector<Candidate> candidates = inputs.candidates();
  EXPECT_GT(candidates.size(), 3U);
  for (const Candidate& candidate : candidates) {
    SCOPED_TRACE(to_text(candidate.schedule));
    compare(inputs, program, &candidate.schedule);
  }
}

}  // namespace
}  // namespace coda::testing_support
