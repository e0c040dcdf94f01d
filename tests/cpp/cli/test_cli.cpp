// The program `coda`, run as a user runs it, without a GPU in sight.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "coda/epilogues.h"
#include "coda/schedule.h"
#include "cuda/cache_support.h"

namespace coda::testing_support {
namespace {

using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Ran {
  int status = -1;
  std::string out;
  std::string err;
};

class Cli : public testing::Test {
 protected:
  // Runs `coda <arguments>`, which the shell splits; nothing of the machine but its compiler is seen.
  Ran coda(const std::string& arguments) const {
    const std::string out = folder_.path() + "/out", err = folder_.path() + "/err";
    const std::string environment = "CUDA_VISIBLE_DEVICES= CODA_CACHE= CODA_CACHE_DIR='" + directory() +
                                    "' VIRTUAL_ENV='" CODA_SOURCE_DIR "/.venv'";
    const std::string command =
        environment + " '" CODA_EXECUTABLE "' " + arguments + " >'" + out + "' 2>'" + err + "' </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
  }

  // Whether `coda` finds an NVRTC, hence whether it can compile.
  bool compiles() const {
    const auto json = nlohmann::json::parse(coda("doctor --json").out);
    for (const auto& check : json["checks"])
      if (check["what"] == "kernels") return check["good"];
    return false;
  }

  std::string directory() const { return folder_.path() + "/cache"; }

  TemporaryFolder folder_;
};

TEST_F(Cli, DoctorNamesTheCureOfWhatIsMissing) {
  const Ran ran = coda("doctor");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, StartsWith("FAIL  NVIDIA driver  "));
  EXPECT_THAT(ran.out, AnyOf(HasSubstr("\n      cure: install it, or use the CPU\n"),
                             HasSubstr("\n      cure: check nvidia-smi and CUDA_VISIBLE_DEVICES\n")));
  EXPECT_THAT(ran.out, HasSubstr("ok    kernel cache   " + directory() + "\n"));
}

TEST_F(Cli, DoctorSpeaksJson) {
  const Ran ran = coda("doctor --json");
  EXPECT_EQ(ran.status, 1);
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_FALSE(json["good"]);
  ASSERT_EQ(json["checks"].size(), 4u);
  EXPECT_EQ(json["checks"][0]["what"], "NVIDIA driver");
  EXPECT_FALSE(json["checks"][0]["good"]);
  EXPECT_NE(json["checks"][0]["cure"], "");
  EXPECT_EQ(json["checks"][3]["found"], directory());
}

TEST_F(Cli, DumpPrintsAKernelInEveryForm) {
  if (!compiles()) GTEST_SKIP() << "no NVRTC";
  const Ran ran = coda("dump bias_gelu -m 512 -n 512 -k 512");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, testing::ContainsRegex("^== schedule\n[0-9]+x[0-9]+ (cooperative|ping-pong), "));
  EXPECT_THAT(ran.out, HasSubstr("\n== program\nprogram bias_gelu {\n"));
  EXPECT_THAT(ran.out, HasSubstr("\n== text\n// bias_gelu_"));
  EXPECT_THAT(ran.out, HasSubstr("\nstruct Epilogue {\n"));
  EXPECT_THAT(ran.out, HasSubstr("\n== ptxas\n"));
  EXPECT_THAT(ran.out, HasSubstr("0 bytes spill stores, 0 bytes spill loads"));
}

TEST_F(Cli, DumpDisassembles) {
  if (!compiles()) GTEST_SKIP() << "no NVRTC";
  const Ran ran = coda("dump identity --only sass");
  if (ran.status == 1) {
    EXPECT_EQ(ran.err,
              "coda: dump: no nvdisasm was found, expected one on PATH: pip install nvidia-cuda-nvdisasm, or leave "
              "--sass out\n");
    GTEST_SKIP() << "no nvdisasm";
  }
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("HGMMA"));
  EXPECT_THAT(ran.out, Not(HasSubstr("== ")));
  EXPECT_THAT(coda("dump identity --no-sass").out, Not(HasSubstr("== sass")));
}

TEST_F(Cli, DumpTakesLayoutsTypesAndSchedules) {
  if (!compiles()) GTEST_SKIP() << "no NVRTC";
  const auto first_line = [&](const std::string& options) {
    const std::string out = coda("dump swiglu --only text " + options).out;
    return out.substr(0, out.find('\n'));
  };
  EXPECT_THAT(first_line(""), HasSubstr(": bf16, A K-major, B K-major, B a pair"));
  EXPECT_THAT(first_line("--layout NN --dtype f16"), HasSubstr(": f16, A K-major, B MN-major"));
  EXPECT_THAT(first_line("--layout TT"), HasSubstr(": bf16, A MN-major, B K-major"));
  EXPECT_THAT(first_line("--layout NT"), HasSubstr(": bf16, A MN-major, B MN-major"));
  EXPECT_THAT(coda("dump swiglu --only text --out-dtype f32").out, HasSubstr("StagedOutputs = Elements<F32>"));
  const std::string given = to_text(Schedule{.tile_n = 128, .stages = 3, .raster_group = 4});
  EXPECT_EQ(coda("dump swiglu --only schedule --schedule '" + given + "'").out, given + "\n");
}

TEST_F(Cli, DumpReadsAProgramFromAFile) {
  const std::string text = to_text(epilogues::bias("relu"));
  const Ran ran = coda("dump '" + folder_.write("mine.ir", text) + "' --only program");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, text);
  const Ran wrong = coda("dump '" + folder_.write("wrong.ir", "programme x") + "'");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.err, StartsWith("coda: parse_program: line 1, column 1: "));
  const Ran folder = coda("dump '" + folder_.path() + "'");
  EXPECT_EQ(folder.status, 1);
  EXPECT_EQ(folder.err,
            "coda: dump: '" + folder_.path() + "' cannot be read, expected a program's text: check the path\n");
}

TEST_F(Cli, DumpListsCandidates) {
  const Ran ran = coda("dump residual --list");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Arch& arch = *find_arch(9, 0);
  const GemmShape shape{.m = 4096, .n = 4096, .k = 4096, .staged_inputs = 1};
  EXPECT_THAT(ran.out, StartsWith("schedule "));
  ASSERT_FALSE(candidates(shape, arch, 132).empty());
  for (const Candidate& candidate : candidates(shape, arch, 132)) {
    EXPECT_THAT(ran.out, HasSubstr("\n" + to_text(candidate.schedule) + " "));
    EXPECT_THAT(ran.out, HasSubstr("  " + candidate.reason + "\n"));
  }
}

// Shapes and dtypes are invented for each program; those without a kernel say so, and nothing else goes wrong.
TEST_F(Cli, DumpKnowsEveryProgramOfTheLibrary) {
  for (const epilogues::Entry& entry : epilogues::library()) {
    SCOPED_TRACE(entry.name);
    const std::string columns = std::to_string(64 * entry.program.column_granule());
    const Ran ran = coda("dump " + entry.name + " --list -k 576 -n " + columns);
    if (ran.status == 1) {
      EXPECT_THAT(ran.err, HasSubstr("' fits no schedule: "));
      continue;
    }
    EXPECT_THAT(ran.status, AnyOf(0, 2)) << ran.err;
    const std::string refused = "coda: dump: program '" + entry.program.name() + "' has no kernel: ";
    EXPECT_THAT(ran.err, ran.status == 0 ? testing::Matcher<std::string>(Eq("")) : StartsWith(refused));
  }
}

TEST_F(Cli, DumpNamesMistakes) {
  std::string names;
  for (const epilogues::Entry& entry : epilogues::library()) names += (names.empty() ? "" : ", ") + entry.name;
  const Ran unknown = coda("dump bias_gleu");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_EQ(unknown.err,
            "coda: dump: 'bias_gleu' is no program of the library and no file, expected the path of a program's text "
            "or one of " +
                names + "\n");
  const Ran schedule = coda("dump bias_gelu --schedule 128by256");
  EXPECT_EQ(schedule.status, 1);
  EXPECT_EQ(schedule.out, "");
  EXPECT_EQ(schedule.err,
            "coda: parse_schedule: found 'by256' in '128by256', expected 'x': write it as 128x256 cooperative, 4 "
            "stages, cluster 1x1, raster 8, sub 64, buffers 2+2\n");
  const Ran elementwise = coda("dump rms_entry --list");
  EXPECT_EQ(elementwise.status, 1);
  EXPECT_EQ(elementwise.err,
            "coda: dump: program 'rms_entry' fits no schedule: it has no product, which is what a schedule cuts up: "
            "leave --list out\n");
  const Ran head = coda("dump rope -n 100");
  EXPECT_EQ(head.status, 1);
  EXPECT_THAT(head.err, StartsWith("coda: dump: head 64 of program 'rope' does not divide N = 100"));
}

TEST_F(Cli, ExplainCountsBytesAndOperations) {
  const Ran ran = coda("explain residual_rms -m 128 -n 256 -k 64 --tflops 1 --gb-per-s 1");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "tensor    shape       dtype              bytes\n"
            "A         [128, 64]   bf16   read     16.0 KiB\n"
            "B         [64, 256]   bf16   read     32.0 KiB\n"
            "residual  [128, 256]  bf16   read     64.0 KiB\n"
            "x         [128, 256]  bf16   written  64.0 KiB\n"
            "gamma     [1, 256]    bf16   read        512 B\n"
            "h         [128, 256]  bf16   written  64.0 KiB\n"
            "sum_sq    [128, 4]    f32    written   2.0 KiB\n"
            "\n"
            "moved    242.5 KiB\n"
            "product  0.0 GFLOP, 16.9 FLOP a byte\n"
            "program  3 operations an element\n"
            "floor    248.3 us at 1 TFLOP/s and 1 GB/s: the product takes 4.2, memory 248.3\n");
}

TEST_F(Cli, ExplainKnowsEveryProgramOfTheLibrary) {
  for (const epilogues::Entry& entry : epilogues::library()) {
    SCOPED_TRACE(entry.name);
    const std::string columns = std::to_string(64 * entry.program.column_granule());
    const Ran ran = coda("explain " + entry.name + " -m 100 -k 576 -n " + columns);
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const Operand& operand : entry.program.operands()) EXPECT_THAT(ran.out, HasSubstr("\n" + operand.name + " "));
  }
}

// The sizes of LLaMA-3 8B.
TEST_F(Cli, ExplainItemisesWhatALayerKeeps) {
  const Ran ran = coda("explain layer");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "bytes kept of a token    fast   lean\n"
            "x before attention       8192   8192\n"
            "sum of its x^2            256      4\n"
            "rotated q                8192   8192\n"
            "rotated k                2048   2048\n"
            "v                        2048   2048\n"
            "attention's result       8192   8192\n"
            "its log-sum-exp           128    128\n"
            "x before the MLP         8192   8192\n"
            "sum of that x^2           256      4\n"
            "gate                    28672  28672\n"
            "up                      28672  28672\n"
            "gated activation        28672      0\n"
            "a layer                123520  94344\n");
}

TEST_F(Cli, ExplainKnowsTheNormsOfHeads) {
  const Ran ran = coda("explain layer --width 64 --heads 4 --kv-heads 2 --head 16 --mlp 96 --dtype f32 --qk-norm");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("q before its norm       256   256\nk before its norm       128   128\n"));
}

TEST_F(Cli, ExplainNamesMistakes) {
  EXPECT_THAT(coda("explain").err, HasSubstr("PROGRAM is required"));
  EXPECT_EQ(coda("explain layer --heads 0").status, 2);
  EXPECT_EQ(coda("explain layer --heads 3 --kv-heads 2").err,
            "coda: transformer_layer_saved: config.heads 3 is no multiple of config.kv_heads 2\n");
  EXPECT_EQ(coda("explain residual --tflops 0").status, 2);
  EXPECT_EQ(coda("explain rope -n 100").err.substr(0, 55), "coda: explain: head 64 of program 'rope' does not divid");
}

TEST_F(Cli, CacheListsAndClears) {
  EXPECT_EQ(coda("cache ls").out, "0 kernels, 0 B, in " + directory() + "\n");
  const FakeCompiler compiler;
  cuda::KernelCache cache(settings_of(directory()), compiler.compiler());
  for (const char* text : {"first", "second"}) cache.get(source_of(text));
  const std::vector<cuda::CacheEntry> entries = cache.entries();
  ASSERT_EQ(entries.size(), 2u);
  write(entries[1].path + "/kernel.cubin", "damaged");
  const Ran ran = coda("cache ls");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("name "));
  EXPECT_THAT(ran.out, HasSubstr("\n" + entries[0].name + "  "));
  EXPECT_THAT(ran.out, HasSubstr("  " + entries[0].created + "  valid\n" + entries[1].name + "  "));
  EXPECT_THAT(ran.out, HasSubstr("  damaged\n2 kernels, "));
  EXPECT_THAT(ran.out, HasSubstr(", in " + directory() + "\n"));

  const Ran unasked = coda("cache clear");
  EXPECT_EQ(unasked.status, 1);
  EXPECT_EQ(unasked.err,
            "coda: cache clear: the input is no terminal to ask on, expected --yes: add it to remove 2 "
            "kernels from '" +
                directory() + "'\n");
  EXPECT_EQ(cache.entries().size(), 2u);
  const Ran cleared = coda("cache clear --yes");
  EXPECT_EQ(cleared.status, 0) << cleared.err;
  EXPECT_EQ(cleared.out, "removed 2 kernels from " + directory() + "\n");
  EXPECT_EQ(cache.entries().size(), 0u);
}

TEST_F(Cli, DumpLeavesNothingInTheCache) {
  coda("dump identity --only ptxas");
  EXPECT_EQ(coda("cache ls").out, "0 kernels, 0 B, in " + directory() + "\n");
}

TEST_F(Cli, TuneNeedsAGpu) {
  const Ran ran = coda("tune bias_gelu -m 512 -m 1024");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, AnyOf("coda: cuda: no NVIDIA driver is installed (libcuda.so.1 was not found), expected one: "
                             "install it, or use the CPU\n",
                             "coda: cuda: the NVIDIA driver sees no GPU, expected one: check nvidia-smi and "
                             "CUDA_VISIBLE_DEVICES\n"));
}

TEST_F(Cli, TuneListsRecords) {
  EXPECT_EQ(coda("tune --list-records").out, "no schedules are recorded\n");
  const Schedule schedule{.tile_n = 192, .cluster_m = 2};
  nlohmann::json file{{"schema", 1}, {"gpu", "NVIDIA H200"}};
  file["records"].push_back({{"m_bucket", 8192},
                             {"n", 4096},
                             {"k", 1024},
                             {"schedule", to_text(schedule)},
                             {"milliseconds", 0.25},
                             {"date", "2026-11-29"},
                             {"kernel", "bf16\n" + to_text(epilogues::residual())}});
  fs::create_directories(directory() + "/tuned");
  write(directory() + "/tuned/NVIDIA-H200.json", file.dump());
  write(directory() + "/tuned/damaged.json", "{");
  const Ran ran = coda("tune --list-records");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("NVIDIA H200, " + directory() + "/tuned/NVIDIA-H200.json:\n"));
  EXPECT_THAT(ran.out, HasSubstr("   8192  4096  1024  " + to_text(schedule) + "  0.2500  2026-11-29  residual\n"));
}

TEST_F(Cli, UsageErrorsExitWith2) {
  for (const char* arguments :
       {"", "dance", "dump", "dump identity -m 0", "dump identity -m x", "dump identity --dtype f32",
        "dump identity --layout XX", "dump identity --only all", "dump identity --sass --no-sass",
        "dump identity --list --only text", "dump identity swiglu", "cache", "cache rm", "cache ls --yes",
        "tune identity --rounds 0", "doctor --yaml"}) {
    const Ran ran = coda(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_THAT(ran.err, HasSubstr("Run with --help for more information.")) << arguments;
    EXPECT_EQ(ran.out, "") << arguments;
  }
}

TEST_F(Cli, HelpsWithExamples) {
  EXPECT_EQ(coda("--version").out, "coda 0.1.0\n");
  for (const char* command : {"doctor", "cache", "dump", "tune"}) {
    EXPECT_THAT(coda("--help").out, HasSubstr("\n  " + std::string("coda ") + command));
    const Ran ran = coda(std::string(command) + " --help");
    EXPECT_EQ(ran.status, 0) << command;
    EXPECT_THAT(ran.out, HasSubstr("  coda " + std::string(command) + " ")) << command;
  }
}

}  // namespace
}  // namespace coda::testing_support
