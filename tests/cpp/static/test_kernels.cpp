// Every candidate of every layout, compiled for sm_90a without a GPU: nothing spills, nothing lives in local memory,
// the compiler heeds setmaxnreg and lets products run on (it says C75.. where it does not), and the tensor cores are
// used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

#include "autodiff/backward_cases.h"
#include "coda/build.h"
#include "coda/epilogues.h"
#include "cuda/backend.h"
#include "cuda/compile/cache.h"
#include "cuda/compile/disassemble.h"
#include "cuda/emit/blocks.h"
#include "cuda/emit/elementwise.h"
#include "cuda/emit/kernel.h"
#include "cuda/launch/layout.h"
#include "support/invented.h"

namespace coda {
namespace {

using testing_support::invented_matrix;
using testing_support::invented_operands;

constexpr int kMultiprocessors = 132;

struct Extents {
  std::int64_t m, n, k;
};
// Many tiles, and too few to fill the chip: the candidates differ.
constexpr Extents kLarge{16384, 4096, 4096}, kSmall{256, 512, 2048};

Program storing(const std::string& name, DType dtype, bool accumulate) {
  Builder b(name);
  b.store("out", b.acc(), {.dtype = dtype, .accumulate = accumulate});
  return b.build();
}

// CODA_STATIC_ALL: every candidate of every program, some 900 kernels more, which takes a quarter of an hour.
bool every_candidate() { return std::getenv("CODA_STATIC_ALL") != nullptr; }

// One kernel to compile: what a failure calls it, and its text.
struct Kernel {
  std::string what;
  cuda::KernelSource source;
};

class Kernels {
 public:
  // Candidates of a problem: all, or `at_most` spread over the list from the likeliest to the last.
  void add(const std::string& what, const Problem& problem, std::size_t at_most = 100) {
    const auto refusal = cuda::kernel_refusal(problem);
    ASSERT_FALSE(refusal) << what << ": " << *refusal;
    const Arch& arch = *find_arch(9, 0);
    const GemmShape shape = cuda::gemm_shape(problem, cuda::specialise(problem));
    const auto list = candidates(shape, arch, kMultiprocessors);
    ASSERT_FALSE(list.empty()) << what;
    const std::size_t count = every_candidate() ? list.size() : std::min(list.size(), at_most);
    for (std::size_t i = 0; i < count; ++i) {
      const Schedule& schedule = list[count == 1 ? 0 : i * (list.size() - 1) / (count - 1)].schedule;
      const cuda::KernelSpec spec = cuda::scheduled(problem, &schedule, arch, kMultiprocessors, "");
      const std::string text = cuda::emit_kernel(spec);
      if (texts_.insert(text).second)
        kernels_.push_back(
            {what + ", " + to_text(spec.schedule), {cuda::kernel_name(spec), text, std::string(arch.name)}});
    }
  }

  void add(const std::string& what, const std::string& text) { kernels_.push_back({what, {"kernel", text, "sm_90a"}}); }

  const std::vector<Kernel>& all() const { return kernels_; }

 private:
  std::vector<Kernel> kernels_;
  std::set<std::string> texts_;
};

Problem product(const Extents& extents, const std::string& layout, DType dtype, const Program& program) {
  // BLAS's letters, B first: T of B and N of A have K contiguous.
  const TensorView a = invented_matrix(extents.m, extents.k, dtype, layout[1] == 'T');
  const TensorView b = invented_matrix(extents.k, extents.n, dtype, layout[0] == 'T');
  const Segment segment{program, invented_operands(program, extents.m, extents.n, dtype)};
  return coda::bind(
      "static", a,
      program.accumulators() == 2 ? pair(b, invented_matrix(extents.k, extents.n, dtype, layout[0] == 'T')) : Factor(b),
      {&segment, 1});
}

void expect_clean(const std::vector<Kernel>& kernels) {
  std::vector<cuda::KernelSource> sources;
  for (const Kernel& kernel : kernels) sources.push_back(kernel.source);
  const auto cubins = cuda::compiled(sources);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    SCOPED_TRACE(kernels[i].what);
    const std::string& log = cubins[i]->log;
    EXPECT_NE(log.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), std::string::npos) << log;
    EXPECT_EQ(log.find("(C75"), std::string::npos) << log;  // setmaxnreg ignored, products waited for or in single file
    EXPECT_EQ(log.find("warning"), std::string::npos) << log;
  }
  std::cout << kernels.size() << " kernels\n";
}

// Without an NVRTC these tests fail rather than pass unseen: their message says where one was looked for.
class Static : public testing::Test {
 protected:
  void SetUp() override { cuda::nvrtc_version(); }
};

TEST_F(Static, EveryCandidateOfEveryLayout) {
  Kernels kernels;
  for (const std::string layout : {"TN", "NN", "NT", "TT"})
    for (const DType dtype : {DType::BF16, DType::F16})
      for (const Extents& extents : {kLarge, kSmall})
        kernels.add(layout, product(extents, layout, dtype, epilogues::identity()));
  expect_clean(kernels.all());
}

TEST_F(Static, EveryCandidateOfEveryEpilogueOfThisBackend) {
  Kernels kernels;
  const std::vector<Program> programs{epilogues::bias(""),
                                      epilogues::scale(),
                                      epilogues::residual(),
                                      storing("accumulate", DType::BF16, true),
                                      storing("accumulate", DType::F32, true),
                                      storing("widened", DType::F32, false)};
  for (const Program& program : programs)
    for (const Extents& extents : {kLarge, kSmall})
      kernels.add(program.name(), product(extents, "TN", DType::BF16, program));
  expect_clean(kernels.all());
}

std::int64_t whole_heads(const Program& program, std::int64_t cols) {
  return (cols + program.column_granule() - 1) / program.column_granule() * program.column_granule();
}

// A program's kernels at the schedules of large and of few tiles; the only one of a program without a product.
void add_program(Kernels& kernels, const std::string& name, const Program& program) {
  if (program.accumulators() == 0) {
    const std::int64_t cols = whole_heads(program, kLarge.n);
    const Segment segment{program, invented_operands(program, kLarge.m, cols, DType::BF16)};
    const Problem problem = bind_elementwise("static", kLarge.m, cols, segment);
    kernels.add(name, cuda::emit_elementwise(cuda::specialise_elementwise(problem)));
    return;
  }
  for (const Extents& extents : {kLarge, kSmall})
    kernels.add(name, product({extents.m, whole_heads(program, extents.n), extents.k}, "TN", DType::BF16, program), 2);
}

TEST_F(Static, TheLibrary) {
  Kernels kernels;
  for (const auto& [name, program] : epilogues::library()) add_program(kernels, name, program);
  expect_clean(kernels.all());
}

TEST_F(Static, BackwardsOfTheLibrary) {
  Kernels kernels;
  for (const testing_support::BackwardCase& each : testing_support::backward_cases()) {
    const Backward backward = differentiate(each.forward, each.wrt, each.cotangents, each.options);
    add_program(kernels, "backward " + each.name, backward.program);
    for (const Gradient& gradient : backward.gradients)
      if (gradient.finish) add_program(kernels, "finish " + each.name, *gradient.finish);
  }
  expect_clean(kernels.all());
}

// The passes over q, k and v of a layer's backward in one kernel, with norms of their heads and biases.
TEST_F(Static, BackwardsSideBySide) {
  Kernels kernels;
  constexpr std::int64_t kCols[] = {4096, 1024};
  for (const auto& [first, second] :
       {std::pair("rms_rope", "rms"), std::pair("rms_qk_norm_rope", "rms"), std::pair("rms_rope_bias", "rms_bias")}) {
    std::vector<Segment> segments;
    for (const std::string name : {first, second})
      for (const testing_support::BackwardCase& each : testing_support::backward_cases()) {
        if (each.name != name) continue;
        const Program program = differentiate(each.forward, each.wrt, each.cotangents, each.options).program;
        const std::int64_t cols = kCols[segments.size()];
        segments.push_back({program, invented_operands(program, kLarge.m, cols, DType::BF16)});
      }
    kernels.add(first, cuda::emit_elementwise(
                           cuda::specialise_elementwise(bind_elementwise("static", kLarge.m, kCols, segments))));
  }
  expect_clean(kernels.all());
}

// Rotary embeddings whose pairs lie in different threads, with what comes before them in a layer, and their backwards.
TEST_F(Static, PairsAndHeadsAcrossThreads) {
  using namespace epilogues;
  Kernels kernels;
  for (const Rope& each :
       {Rope{.head = 96, .width = 24}, Rope{.head = 80, .width = 20}, Rope{.head = 72}, Rope{.head = 120},
        Rope{.head = 36}, Rope{.head = 16, .width = 6}, Rope{.head = 80, .width = 20, .interleaved = true}}) {
    const std::string name = std::to_string(each.head) + " " + std::to_string(each.width);
    const Program forward = rope({each});
    add_program(kernels, "rope " + name, rope({each, true}));
    add_program(kernels, "rms_rope " + name, rms_rope({testing_support::kCaseNorm, each}));
    add_program(kernels, "qk_norm_rope " + name, qk_norm_rope({.rope = each}));
    for (const Cotangent& cotangent : {Cotangent::load("out"), Cotangent::acc("out")})
      add_program(kernels, "rope backward " + name, differentiate(forward, {"acc0"}, {cotangent}).program);
  }
  expect_clean(kernels.all());
}

TEST_F(Static, JoinedFactorsAndUnalignedOperands) {
  Kernels kernels;
  const DType dtype = DType::BF16;
  const auto whole = [&](std::int64_t rows, std::int64_t cols, bool transposed) {
    return invented_matrix(rows, cols, dtype, transposed);
  };
  const auto segment = [&](const Program& program, std::int64_t rows, std::int64_t cols) {
    return Segment{program, invented_operands(program, rows, cols, dtype)};
  };
  const Program bias = epilogues::bias(""), identity = epilogues::identity();
  const std::vector<Segment> along_n{segment(bias, 4096, 4096), segment(identity, 4096, 1024),
                                     segment(bias, 4096, 1000)};
  kernels.add("concat along N",
              coda::bind("static", whole(4096, 4096, false),
                         concat({whole(4096, 4096, true), whole(4096, 1024, true), whole(4096, 1000, true)}), along_n),
              4);
  const std::vector<Segment> along_m{segment(identity, 4096, 4096), segment(identity, 1000, 4096)};
  kernels.add("concat along M",
              coda::bind("static", concat({whole(4096, 4096, true), whole(1000, 4096, true)}), whole(4096, 4096, false),
                         along_m),
              4);
  const std::vector<Segment> one{segment(identity, 4096, 4096)};
  kernels.add("concat along K",
              coda::bind("static", concat_k({whole(4096, 4096, false), whole(4096, 1024, false)}),
                         concat_k({whole(4096, 4096, false), whole(1024, 4096, false)}), one),
              4);
  for (const Program& program :
       {epilogues::residual(), storing("accumulate", DType::F32, true), storing("accumulate", dtype, true)})
    for (const std::int64_t n : {4097, 4098})
      kernels.add("ragged N", product({4096, n, 4096}, "TN", dtype, program), 4);
  expect_clean(kernels.all());
}

// The copy of an operand, rows of a table, and attention and its backward of the smallest, common and largest heads.
TEST_F(Static, WhatIsNoProgram) {
  Kernels kernels;
  kernels.add("copy", cuda::emit_copy());
  for (const DType dtype : {DType::BF16, DType::F16, DType::F32}) {
    kernels.add("gather", cuda::emit_gather(dtype));
    for (const int head : {8, 64, 80, 128, 256})
      for (const int rows : {1, 8})
        for (const bool pieces : {true, false})
          kernels.add("attention " + std::to_string(head), cuda::emit_attention({dtype, head, rows, pieces}));
    for (const int head : {8, 64, 80, 128, 192, 256})
      for (const bool pieces : {true, false})
        for (const auto pass :
             {cuda::AttentionPass::Means, cuda::AttentionPass::ByQueries, cuda::AttentionPass::ByKeys})
          kernels.add(
              "attention's backward " + std::to_string(head),
              cuda::emit_attention_backward(
                  pass, {dtype, head, pass == cuda::AttentionPass::ByKeys ? cuda::keys_of_block(head) : 8, pieces}));
    for (const DType into : {dtype, DType::F32}) kernels.add("add_rows", cuda::emit_add_rows(dtype, into));
  }
  expect_clean(kernels.all());
}

TEST_F(Static, TheTensorCoresAreUsed) {
  for (const std::string layout : {"TN", "NN", "NT", "TT"}) {
    for (const DType dtype : {DType::BF16, DType::F16}) {
      const cuda::KernelSpec spec = cuda::scheduled(product(kLarge, layout, dtype, epilogues::identity()), nullptr,
                                                    *find_arch(9, 0), kMultiprocessors, "");
      const auto cubin = cuda::compiled({cuda::kernel_name(spec), cuda::emit_kernel(spec), "sm_90a"});
      const auto sass = cuda::disassemble(cubin->image);
      ASSERT_TRUE(sass) << "no nvdisasm: pip install nvidia-cuda-nvdisasm";
      const std::string instruction = dtype == DType::BF16 ? "HGMMA.64x256x16.F32.BF16" : "HGMMA.64x256x16.F32";
      EXPECT_NE(sass->find(instruction), std::string::npos) << layout;
      EXPECT_EQ(sass->find("LDL"), std::string::npos) << layout << " loads from local memory";
      EXPECT_NE(sass->find("USETMAXREG"), std::string::npos) << layout;
    }
  }
}

}  // namespace
}  // namespace coda
