// Every mistake and failure that src/cuda/launch and src/cuda/backend.cpp tell of, and its text.
#include "core/check.h"
#include "cuda/launch/gpu.h"
#include "cuda/launch/plan.h"
#include "cuda/launch_support.h"
#include "support/error_row.h"

namespace coda {
namespace {

using namespace testing_support;

constexpr Schedule kPlain{.tile_m = 128, .tile_n = 128, .stages = 4};
constexpr const char* kFake =
    ": CUDA_ERROR_FAKE (1), it only pretends: an earlier kernel may have failed; compute-sanitizer finds which";

using CudaLaunchErrors = LaunchTest;
class CudaRefusals : public LaunchTest {};

std::string refusal(const Problem& problem) { return cuda::cuda_backend().refuses(problem).value_or("none"); }

// The reason while `api` is in the driver's place.
std::string driver_refusal(const cuda::DriverApi* api) {
  const Problem problem = linear(64, 64, 64);
  const cuda::DriverForTesting other(api);
  return refusal(problem);
}

TEST(CudaDriverRefusals, HaveTheirText) {
  fake_gpu() = {};
  EXPECT_EQ(driver_refusal(nullptr),
            "no NVIDIA driver is installed (libcuda.so.1 was not found), expected one: install it, or use the CPU");
  cuda::DriverApi api = fake_driver();
  fake_gpu().driver_version = 12020;
  EXPECT_EQ(driver_refusal(&api), "the NVIDIA driver supports CUDA 12.2, expected 12.3 or newer: update the driver");
  fake_gpu() = {.count = 0};
  EXPECT_EQ(driver_refusal(&api),
            "the NVIDIA driver sees no GPU, expected one: check nvidia-smi and CUDA_VISIBLE_DEVICES");
  fake_gpu() = {};
  api.init = [](unsigned) { return 3; };
  EXPECT_EQ(driver_refusal(&api),
            "the NVIDIA driver failed to start with CUDA_ERROR_FAKE, expected a working GPU: check nvidia-smi");
  api = fake_driver();
  fake_gpu() = {.name = "NVIDIA A100", .major = 8};
  EXPECT_EQ(driver_refusal(&api),
            "cuda:0 is a NVIDIA A100 of compute capability 8.0, expected 9.0 (H100, H200, GH200)");
  const cuda::DriverForTesting none(nullptr);
  expect_errors({{typeid(NotImplementedError),
                  "cuda: no NVIDIA driver is installed (libcuda.so.1 was not found), expected one: install it, or use "
                  "the CPU",
                  [] { cuda::gpu(0); }}});
}

TEST_F(CudaRefusals, OfDtypesHaveTheirText) {
  const auto of_dtype = [](DType dtype) { return fake_problem(placed(64, 64, dtype), placed(64, 64, dtype)); };
  EXPECT_EQ(refusal(of_dtype(DType::F32)),
            "A and B are f32, and Hopper's tensor cores multiply f32 only after rounding it to 11 bits (tf32); convert "
            "them to bf16 or f16, or run on the CPU");
  EXPECT_EQ(refusal(of_dtype(DType::F64)), "A and B are f64, expected bf16 or f16");
  const Segment segment{epilogues::bias(),
                        {{"bias", invented({64}, DType::F64)}, {"out", invented({64, 64}, DType::BF16)}}};
  EXPECT_EQ(refusal(coda::bind("gemm", placed(64, 64), placed(64, 64), {&segment, 1})),
            "operand 'bias' is f64, expected f32, bf16 or f16");
}

TEST_F(CudaRefusals, OfExtentsHaveTheirText) {
  EXPECT_EQ(refusal(linear(2147482624, 8, 8)), "none");
  EXPECT_EQ(refusal(linear(2147482625, 8, 8)),
            "M 2147482625, N 8, K 8 are too large, expected at most 2147482624 each");
  EXPECT_EQ(refusal(linear(8, std::int64_t{1} << 32, 16)),
            "M 8, N 4294967296, K 16 are too large, expected at most 2147482624 each");
}

TEST_F(CudaRefusals, OfProgramsHaveTheirText) {
  const auto of = [](auto fill) {
    Builder b("mine");
    fill(b);
    return refusal(linear(64, 64, 64, b.build()));
  };
  EXPECT_EQ(of([](Builder& b) { b.store("out", span_sum(b.acc(), 4)); }),
            "program 'mine' sums over heads of 4 columns, expected one width of at least 8");
  EXPECT_EQ(of([](Builder& b) { b.store("out", span_sum(span_sum(b.acc(), 32), 64)); }),
            "program 'mine' sums over heads of 64 columns, expected one width of at least 8");
  EXPECT_EQ(of([](Builder& b) { b.store("out", b.acc() * span_sum(b.load_row("x"), 32)); }),
            "program 'mine' sums a row over heads, and it sums only tiles yet");
  const Pairing halves{Pairing::Kind::Halves, 32, 32}, neighbours{Pairing::Kind::Interleaved, 32, 32};
  EXPECT_EQ(of([&](Builder& b) {
              const auto [first, second] = split(span_sum(b.acc(), 16), halves);
              b.store("out", join(second, first));
            }),
            "program 'mine' splits sums over heads of 16 columns into halves(32, 32), whose members lie in different "
            "heads");
  EXPECT_EQ(of([&](Builder& b) {
              b.store("out", split(b.acc(), halves).first), b.store("other", split(b.acc(), neighbours).first);
            }),
            "program 'mine' pairs columns in two ways, and it emits one");
  EXPECT_EQ(
      of([&](Builder& b) { b.store("out", split(b.acc(), halves).first * split(b.load_row("x"), halves).second); }),
      "program 'mine' pairs the columns of a row, and it pairs only those of tiles yet");
  EXPECT_EQ(of([](Builder& b) { b.store("out", reduce_col(b.acc(), Reduction::LogSumExp, 64)); }),
            "program 'mine' takes log-sum-exps down columns, and it takes sums and maxima yet");
  EXPECT_EQ(of([](Builder& b) { b.store("out", reduce_col(b.acc(), Reduction::Sum, 128)); }),
            "program 'mine' reduces 128 rows to a partial, and it reduces 64, which a consumer has at once");
}

// An output may take the place of a tile, but not of one whose columns are read for others; nor when a plan runs.
TEST_F(CudaRefusals, OfPlacesHaveTheirText) {
  const Pairing halves{Pairing::Kind::Halves, 32, 32};
  const TensorView whole = placed(64, 64), nothing = whole.slice(0, 0, 0);
  const auto bound = [&](bool with_product, const TensorView& tile, const TensorView& out) {
    Builder b("turn");
    const Value x = b.load_tile("x");
    b.store("out", join(split(x, halves).second, split(x, halves).first) + (with_product ? b.acc() : b.constant(1)));
    const Segment segment{b.build(), {{"x", tile}, {"out", out}}};
    return with_product ? coda::bind("gemm", placed(tile.shape(0), 64), placed(64, 64), {&segment, 1})
                        : bind_elementwise("elementwise", tile.shape(0), 64, segment);
  };
  const std::string reason =
      "operand 'out' takes the place of 'x', of which a column is read for its pair after it was written: bind a "
      "tensor of its own";
  for (const bool with_product : {false, true}) {
    const Problem apart = bound(with_product, whole, placed(64, 64)), in_place = bound(with_product, whole, whole);
    EXPECT_EQ(refusal(apart), "none");
    EXPECT_EQ(refusal(bound(with_product, nothing, nothing)), "none");  // of no elements, often at one address
    EXPECT_EQ(refusal(in_place), reason);
    const auto plan = cuda::cuda_backend().plan(apart, {});
    expect_errors({{typeid(NotImplementedError), apart.call + ": " + reason,
                    [&] { plan->run(in_place, {.stream = fake_stream()}); }}});
  }
}

TEST_F(CudaRefusals, OfHeadsWithoutAProductHaveTheirText) {
  Builder b("sums");
  b.store("out", span_sum(b.load_tile("x"), 100));
  b.store("wide", span_sum(b.load_tile("y"), 100) * 2);
  Builder odd("odd");
  odd.store("out", span_sum(odd.load_tile("x"), 255));
  const auto of = [](const Program& program, std::int64_t cols) {
    return refusal(bind_elementwise("elementwise", 64, cols,
                                    {program, testing_support::invented_operands(program, 64, cols, DType::BF16)}));
  };
  EXPECT_EQ(of(b.build(), 400), "none");
  EXPECT_EQ(of(odd.build(), 510),
            "program 'odd' sums over heads of 255 columns without a product, expected a width with a multiple of 16 "
            "columns up to 512");
}

TEST_F(CudaLaunchErrors, OfPlansHaveTheirText) {
  const Schedule wide{.tile_n = 512};
  Builder many("many");
  for (int i = 0; i < 50; ++i) many.store("out" + std::to_string(i), many.acc());
  const Program stores = many.build();
  Builder wide_heads("wide_heads");
  wide_heads.store("out", span_sum(wide_heads.acc(), 512));
  const Program heads = wide_heads.build();
  Builder odd_heads("odd_heads");
  odd_heads.store("out", span_sum(odd_heads.acc(), 100));
  const Program odd = odd_heads.build();
  std::vector<TensorView> parts(20, placed(64, 64));
  const Problem segments = fake_problem(placed(64, 64), concat(parts));
  expect_errors({
      {typeid(ValueError),
       "cuda: got device cuda:1, expected cuda:0 to cuda:0: choose one of them, or let CUDA_VISIBLE_DEVICES show it",
       [] { refusal(linear(64, 64, 64, epilogues::identity(), 1)); }},
      {typeid(NotImplementedError),
       "gemm: schedule '128x512 cooperative, 4 stages, cluster 1x1, raster 8, sub 64, buffers 2+2' does not fit: "
       "tile_n "
       "is 512, expected a multiple of 16 from 64 to 256: take one of the candidates",
       [&] { plan(linear(64, 64, 64), &wide); }},
      {typeid(NotImplementedError),
       "gemm: program 'many' fits no schedule: its tiles (0 in, 50 out, in units of 16 bits) need 253984 bytes of "
       "shared "
       "memory at the least, a block has 232448: split it into two programs",
       [&] { plan(linear(64, 64, 64, stores)); }},
      {typeid(NotImplementedError),
       "gemm: program 'wide_heads' fits no schedule: it needs whole multiples of 512 columns in a tile, which has at "
       "most "
       "256: use narrower heads or partials, or run it on the CPU",
       [&] { plan(linear(64, 512, 64, heads)); }},
      {typeid(NotImplementedError),
       "gemm: program 'odd_heads' fits no schedule: it needs whole multiples of 100 and of 16 columns in a tile, which "
       "has at most 256: use narrower heads or partials, or run it on the CPU",
       [&] { plan(linear(64, 500, 64, odd)); }},
      {typeid(NotImplementedError),
       "gemm: the kernel would take 5632 bytes of parameters, expected at most 4096: use fewer segments or operands",
       [&] { plan(segments, &kPlain); }},
  });
}

TEST_F(CudaLaunchErrors, OfLoadingHaveTheirText) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC";  // whose version a failure to load asks for
  const Problem problem = linear(64, 64, 64);
  const auto failing = [&](const std::string& call, int result) {
    return [&, call, result] {
      fake_gpu().fails = {{call, result}};
      plan(problem, &kPlain);
    };
  };
  const std::string kernel = " kernel identity_128x128 on cuda:0 (NVIDIA H200)";
  expect_errors({
      {typeid(DeviceError), "gemm: could not load" + kernel + kFake, failing("module_load", 1)},
      {typeid(OutOfMemoryError),
       "gemm: out of GPU memory: could not load" + kernel +
           " (5 MiB of 144384 MiB are free): free some or use smaller tensors",
       failing("module_load", cuda::kOutOfMemory)},
      {typeid(DeviceError), "gemm: could not find" + kernel + kFake, failing("module_function", 1)},
      {typeid(DeviceError), "gemm: could not give 163904 bytes of shared memory to" + kernel + kFake,
       failing("function_set", 1)},
      {typeid(DeviceError), "gemm: could not fit" + kernel + kFake, failing("max_clusters", 1)},
      {typeid(DeviceError),
       "gemm: could not fit" + kernel +
           ": no cluster of 1 blocks with 163904 bytes of shared memory each can run there: free the GPU of what "
           "shares "
           "it",
       [&] {
         fake_gpu().fails.clear();
         fake_gpu().active_clusters = 0;
         plan(problem, &kPlain);
       }},
      {typeid(DeviceError),
       "gemm: kernel identity_128x128 is not loaded on cuda:0 and the stream is being captured, expected a plan made "
       "before the capture: run the call once, or make its plan, before capturing",
       [&] {
         fake_gpu().active_clusters = -1;
         fake_gpu().capturing = {fake_stream()};
         plan(problem, &kPlain);
       }},
  });
  EXPECT_EQ(compilations(), 1) << "nothing is compiled while a stream is captured";
  fake_gpu().capturing = {fake_stream(1)};
  EXPECT_NE(plan(problem, &kPlain), nullptr) << "another stream is captured";
}

TEST_F(CudaLaunchErrors, OfACompilerNewerThanTheDriverHaveTheirText) {
  if (!has_nvrtc() || std::stoi(cuda::nvrtc_version()) < 13) GTEST_SKIP() << "no NVRTC newer than the oldest driver";
  fake_gpu().driver_version = 12090;
  fake_gpu().fails = {{"module_load", 222}};  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION, or whatever the driver says
  const std::string version = cuda::nvrtc_version();
  expect_errors({{typeid(NotImplementedError),
                  "gemm: could not load kernel identity_128x128 on cuda:0 (NVIDIA H200): NVRTC " + version +
                      " makes kernels for drivers of CUDA " + version.substr(0, version.find('.')) +
                      ", and this one is for CUDA 12: update the NVIDIA driver, or set CODA_NVRTC to the file of an "
                      "NVRTC 12",
                  [] { plan(linear(64, 64, 64), &kPlain); }}});
}

TEST_F(CudaLaunchErrors, OfRunsHaveTheirText) {
  const Problem problem = fake_problem(placed(300, 100), placed(100, 200, DType::BF16, true, 104));
  const auto made = plan(problem, &kPlain);
  char* const memory = reinterpret_cast<char*>(std::intptr_t{0x7f0000000100});
  const auto failing = [&](const std::string& call, int result) {
    return [&, call, result] {
      fake_gpu().fails = {{call, result}};
      made->run(problem, {.stream = fake_stream()});
    };
  };
  const auto with = [&](void* workspace, std::size_t bytes) {
    return [&, workspace, bytes] {
      fake_gpu().fails.clear();
      made->run(problem, {fake_stream(), workspace, bytes});
    };
  };
  expect_errors({
      {typeid(OutOfMemoryError),
       "gemm: out of GPU memory: could not allocate 62464 bytes of workspace (5 MiB of 144384 MiB are free): free some "
       "or use smaller tensors",
       failing("alloc_async", cuda::kOutOfMemory)},
      {typeid(DeviceError), std::string("gemm: could not allocate 62464 bytes of workspace") + kFake,
       failing("alloc_async", 1)},
      {typeid(ValueError), "gemm: the workspace has 62463 bytes, expected 62464: ask Plan::workspace_bytes",
       with(memory, 62463)},
      {typeid(ValueError),
       "gemm: the workspace begins at 0x7f0000000110, expected a multiple of 256 bytes: pass memory as the allocator "
       "gave it",
       with(memory + 16, 1 << 20)},
      {typeid(DeviceError), std::string("gemm: could not make a tensor map of A") + kFake, failing("encode_tiled", 1)},
      {typeid(DeviceError),
       std::string("gemm: could not launch kernel copy_16bit on cuda:0 with 10 blocks of 256 threads and 0 bytes of "
                   "shared memory for M 300, N 200, K 100") +
           kFake,
       failing("launch", 1)},
      {typeid(DeviceError), std::string("cuda: could not make cuda:0 current") + kFake,
       [&] {
         fake_gpu().fails = {{"context_push", 1}};
         --fake_gpu().calls["context_push"];  // it fails, so that nothing is there to pop
         made->run(problem, {.stream = fake_stream()});
       }},
  });
  fake_gpu().fails.clear();
  const Problem aligned = linear(1000, 512, 256, epilogues::bias());
  const auto other = plan(aligned, &kPlain);
  expect_errors({{typeid(DeviceError),
                  std::string("gemm: could not launch kernel bias_128x128 on cuda:0 with 32 blocks of 384 threads and "
                              "164928 bytes of shared memory for M 1000, N 512, K 256") +
                      kFake,
                  [&] {
                    fake_gpu().fails = {{"launch", 1}};
                    other->run(aligned, {.stream = fake_stream()});
                  }}});
}

// Runs a plan made for one problem on another: nothing may be launched.
ErrorRow mismatch(const std::string& what, const Plan& plan, const Problem& problem) {
  return {typeid(ValueError), "gemm: " + what + " than the plan was made for: make a plan for this problem",
          [&plan, problem] { plan.run(problem, {.stream = fake_stream()}); }};
}

TEST_F(CudaLaunchErrors, OfAPlanForAnotherLayoutHaveTheirText) {
  fake_gpu().count = 2;
  const Program program = epilogues::residual();
  const auto made = plan(linear(256, 264, 128, program), &kPlain);
  const auto with_out = [&](const TensorView& out) {
    const Segment segment{program, {{"residual", placed(256, 264)}, {"out", out}}};
    return coda::bind("gemm", placed(256, 128), placed(128, 264, DType::BF16, true), {&segment, 1});
  };
  const TensorView k_major = placed(128, 264, DType::BF16, true);
  expect_errors({
      mismatch("the tensors are on another device", *made, linear(256, 264, 128, program, 1)),
      mismatch("A and B have another dtype", *made,
               fake_problem(placed(256, 128, DType::F16), placed(128, 264, DType::F16, true), program)),
      mismatch("A or B is aligned or ordered otherwise", *made,
               fake_problem(placed(256, 128, DType::BF16, false, 0, 1), k_major, program)),
      mismatch("A or B is aligned or ordered otherwise", *made,
               fake_problem(placed(256, 128, DType::BF16, true), k_major, program)),
      mismatch("A or B is aligned or ordered otherwise", *made,
               fake_problem(placed(256, 128), placed(128, 264), program)),
      mismatch("operand 'out' has another dtype or alignment", *made, with_out(placed(256, 264, DType::F32))),
      mismatch("operand 'out' has another dtype or alignment", *made,
               with_out(placed(256, 264, DType::BF16, false, 0, 4))),
      mismatch("operand 'out' has another dtype or alignment", *made,
               with_out(placed(256, 264, DType::BF16, false, 265))),
      mismatch("operand 'out' has another dtype or alignment", *made, with_out(placed(256, 264, DType::BF16, true))),
      mismatch("a segment has another program", *made, linear(256, 264, 128, epilogues::bias())),
      mismatch("A, B or the segments are joined otherwise", *made,
               fake_problem(placed(256, 128), concat({k_major, k_major}), program)),
      mismatch("A, B or the segments are joined otherwise", *made,
               fake_problem(concat_k({placed(256, 128), placed(256, 128)}), concat_k({k_major, k_major}), program)),
  });
  const auto narrow = plan(linear(256, 8, 8), &kPlain);
  expect_errors(
      {{typeid(NotImplementedError), "gemm: M 2147483648, N 8, K 8 are too large, expected at most 2147482624 each",
        [&] { narrow->run(linear(std::int64_t{1} << 31, 8, 8), {.stream = fake_stream()}); }}});
  EXPECT_TRUE(fake_gpu().launches.empty());
  EXPECT_TRUE(fake_gpu().maps.empty());
  EXPECT_EQ(fake_gpu().calls["alloc_async"], 0);
}

// As many parts, operands and segments, but another meaning.
TEST_F(CudaLaunchErrors, OfAPlanForAnotherMeaningHaveTheirText) {
  const Program program = epilogues::identity();
  const TensorView square = placed(128, 128, DType::BF16);
  const auto along_n = plan(fake_problem(square, concat({square, square}), program), &kPlain);
  const auto one = plan(fake_problem(square, square, epilogues::bias("relu")), &kPlain);
  expect_errors({
      mismatch("A, B or the segments are joined otherwise", *along_n,
               fake_problem(concat({square, square}), square, program)),
      mismatch("A, B or the segments are joined otherwise", *one,
               fake_problem(square, pair(square, square), epilogues::gated())),
      mismatch("a segment has another program", *one, fake_problem(square, square, epilogues::bias("silu"))),
  });
  EXPECT_TRUE(fake_gpu().launches.empty());
  // The same program, built anew.
  one->run(fake_problem(square, square, epilogues::bias("relu")), {.stream = fake_stream()});
  EXPECT_EQ(fake_gpu().launches.size(), 1u);
}

}  // namespace
}  // namespace coda
