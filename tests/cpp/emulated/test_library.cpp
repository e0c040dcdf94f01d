// Every library program's kernel text, compiled by the C++ compiler and run on the CPU through the whole path of a
// launch (specialise, schedule, emit, parameters, tensor maps), against the reference backend. What needs a GPU to show
// is the main loop and its barriers, not what the emitter wrote.
#include "coda/build.h"
#include "coda/epilogues.h"
#include "emulated/compare_all.h"

namespace coda::testing_support {
namespace {

class EmulatedLibrary : public EmulatedTest {};

std::vector<NamedProgram> library_programs() {
  std::vector<NamedProgram> programs;
  for (const auto& [name, program] : epilogues::library()) programs.emplace_back(name, program);
  return programs;
}

TEST_F(EmulatedLibrary, AlignedTensors) { compare_all(library_programs(), 70, 200, true); }

TEST_F(EmulatedLibrary, RaggedAndUnalignedTensors) { compare_all(library_programs(), 37, 141, false); }

constexpr std::int64_t kHardRows = 11;

// Rows with each kind of number that a reduction could lose.
Tensor numbers_hard_to_reduce(int cols) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> values;
  const auto row = [&](auto entry) {
    for (int col = 0; col < cols; ++col) values.push_back(entry(col));
  };
  row([](int col) { return col % 70 == 61 ? std::nan("") : 1.0; });
  row([](int) { return -kInf; });
  row([](int col) { return col < 64 ? -kInf : -300.0; });
  row([](int col) { return col == 3 ? kInf : col == 5 ? -kInf : 0.0; });
  row([&](int col) { return col == cols - 1 ? kInf : -1e30; });
  row([](int) { return std::numeric_limits<float>::lowest(); });
  row([](int col) { return col % 2 == 0 ? -200.0 : -250.0; });
  row([](int col) { return col * 1.5; });
  row([](int col) { return 300 - col * 1.5; });
  row([](int col) { return col == 17 ? 3e38 : -3e38; });
  row([](int col) { return col == 130 ? 88.0 : -88.0; });
  return Tensor::from({kHardRows, cols}, values, DType::F32);
}

TEST_F(EmulatedLibrary, ReductionsKeepWhatIsNotFinite) {
  Builder b("reductions");
  const Value x = b.acc() * 0 + b.load_tile("x", {.dtype = DType::F32});
  b.store("largest", reduce_row(x, Reduction::Max, 64));
  b.store("lse", reduce_row(x, Reduction::LogSumExp, 64));
  const Program program = b.build();
  Case inputs(program, kHardRows, 200, true, 1);  // blocks of 64 columns and a ragged one
  inputs.give("x", numbers_hard_to_reduce(200));
  compare(inputs, program);
}

TEST_F(EmulatedLibrary, PartialsAreFinishedByAPassOfTheirOwn) {
  for (const Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::LogSumExp}) {
    Builder b("finish");
    b.store("whole", b.load_partials("x", reduction));
    const Program program = b.build();
    Case inputs(program, kHardRows, 1, true, 1);
    inputs.give("x", numbers_hard_to_reduce(63));
    compare(inputs, program);
  }
}

}  // namespace
}  // namespace coda::testing_support
