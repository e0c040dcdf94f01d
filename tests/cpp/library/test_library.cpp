// The programs of the library as texts: names, operands, and what each option changes.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "coda/epilogues.h"

namespace coda::epilogues {
namespace {

// "in sum_sq, in bias, out out": roles and names in the order the program declares them.
std::string operands_of(const Program& program) {
  std::string text;
  for (const Operand& operand : program.operands())
    text += (text.empty() ? "" : ", ") + std::string(operand.role == Role::Input ? "in " : "out ") + operand.name;
  return text;
}

const Operand& operand_of(const Program& program, const std::string& name) {
  const int index = program.find_operand(name);
  EXPECT_GE(index, 0) << name;
  return program.operand(index);
}

int count(const Program& program, NodeKind kind) {
  int found = 0;
  for (const Node& node : program.nodes()) found += node.kind == kind;
  return found;
}

constexpr DelayedRms kNorm{.count = 576, .eps = 1e-5};

TEST(Library, EntriesHaveUniqueNamesFitForFiles) {
  std::set<std::string> names;
  std::set<std::string> texts;
  for (const Entry& entry : library()) {
    EXPECT_TRUE(std::regex_match(entry.name, std::regex("[a-z][a-z0-9_]*"))) << entry.name;
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " is there twice";
    EXPECT_TRUE(texts.insert(to_text(entry.program)).second) << entry.name << " equals another entry";
  }
  EXPECT_GE(library().size(), 45u);
}

TEST(Library, EveryProgramPrintsAndParsesBack) {
  for (const Entry& entry : library()) {
    const std::string text = to_text(entry.program);
    EXPECT_EQ(to_text(parse_program(text)), text) << entry.name;
  }
}

TEST(Library, EveryActivationAndGateHasAnEntry) {
  std::set<std::string> names;
  for (const Entry& entry : library()) names.insert(entry.name);
  for (const Activation& row : activations()) EXPECT_TRUE(names.contains("bias_" + std::string(row.name))) << row.name;
  for (const Gate& row : gates()) {
    EXPECT_TRUE(names.contains(std::string(row.name))) << row.name;
    EXPECT_TRUE(names.contains("rms_" + std::string(row.name))) << row.name;
  }
}

TEST(Library, EveryValueThatIsStoredCarriesAName) {
  for (const Entry& entry : library())
    for (const Node& node : entry.program.nodes()) {
      if (node.kind != NodeKind::Store || entry.name == "identity") continue;
      EXPECT_FALSE(entry.program.node(node.args[0]).name.empty())
          << entry.name << ": " << entry.program.operand(node.index).name;
    }
}

TEST(Library, AccumulatorsMatchTheFactor) {
  EXPECT_EQ(identity().accumulators(), 1);
  EXPECT_EQ(gated().accumulators(), 2);
  EXPECT_EQ(rms_gated({kNorm, {}}).accumulators(), 2);
  EXPECT_EQ(rms_entry().accumulators(), 0);
}

TEST(Library, OperandsOfThePlainPrograms) {
  EXPECT_EQ(operands_of(identity()), "out out");
  EXPECT_EQ(operands_of(bias()), "in bias, out out");
  EXPECT_EQ(operands_of(bias("gelu")), "in bias, out out");
  EXPECT_EQ(operands_of(scale()), "in alpha, out out");
  EXPECT_EQ(operand_of(scale(), "alpha").shape, Shape::Scalar);
  EXPECT_EQ(operands_of(residual()), "in residual, out out");
  EXPECT_EQ(operands_of(sigmoid()), "out out");
}

TEST(Library, NormProgramsHaveAnOperandForEachOption) {
  EXPECT_EQ(operands_of(residual_rms()), "in residual, out x, in gamma, out h, out sum_sq");
  EXPECT_EQ(operands_of(residual_rms({.weight = NormWeight::None})), "in residual, out x, out sum_sq");
  EXPECT_EQ(operands_of(residual_rms({.bias = true})), "in bias, in residual, out x, in gamma, out h, out sum_sq");
  EXPECT_EQ(operand_of(residual_rms({.partial_width = 192}), "sum_sq").partials,
            (Partials{Reduction::Sum, Axis::Row, 192}));
  EXPECT_EQ(operands_of(rms_entry()), "in x, in gamma, out h, out sum_sq");
  EXPECT_EQ(operands_of(rms_entry({.weight = NormWeight::None})), "in x, out sum_sq");
  EXPECT_EQ(operands_of(rms({kNorm})), "in sum_sq, out out");
  EXPECT_EQ(operands_of(rms({kNorm, true})), "in sum_sq, in bias, out out");
  EXPECT_EQ(operand_of(rms({kNorm}), "sum_sq").partials, (Partials{Reduction::Sum, Axis::Row, 0})) << "any width";
}

TEST(Library, GatedProgramsHaveAnOperandForEachOption) {
  EXPECT_EQ(operands_of(gated()), "out out");
  EXPECT_EQ(operands_of(gated({.bias = true, .save_inputs = true})),
            "in gate_bias, out gate, in up_bias, out up, out out");
  EXPECT_EQ(operands_of(rms_gated({kNorm, {.save_inputs = true}})), "in sum_sq, out gate, out up, out out");
  EXPECT_EQ(to_text(gated({.clamped = ClampedSwiglu{}})), to_text(gated({.gate = "clamped_swiglu"})));
}

TEST(Library, RopeProgramsHaveTheOperandsOfTheirAngles) {
  const Rope frequency{.head = 64, .angles = Rope::Angles::Frequency}, table{.head = 64, .angles = Rope::Angles::Table};
  EXPECT_EQ(operands_of(rope({{.head = 64}})), "in positions, out out");
  EXPECT_EQ(operands_of(rope({frequency})), "in positions, in frequencies, out out");
  EXPECT_EQ(operands_of(rope({table, true})), "in bias, in cos, in sin, out out");
  EXPECT_EQ(operands_of(rms_rope({kNorm, table})), "in sum_sq, in cos, in sin, out out");
  EXPECT_EQ(operand_of(rope({frequency}), "frequencies").period, 32);
  EXPECT_EQ(operand_of(rope({table}), "cos").period, 32);
  EXPECT_EQ(operand_of(rope({table}), "cos").pairing, (Pairing{Pairing::Kind::Halves, 64, 64}));
  EXPECT_EQ(rope({{.head = 80, .width = 32}}).column_granule(), 80);
}

TEST(Library, RopeOfTheWholeHeadNeedsNoRest) {
  const auto join_of = [](const Program& program) {
    for (const Node& node : program.nodes())
      if (node.kind == NodeKind::Join) return node;
    return Node{};
  };
  EXPECT_EQ(join_of(rope({{.head = 64}})).args.size(), 2u);
  EXPECT_EQ(join_of(rope({{.head = 64, .width = 64}})).args.size(), 2u);
  EXPECT_EQ(join_of(rope({{.head = 64, .width = 62}})).args.size(), 3u);
  EXPECT_EQ(join_of(rope({{.head = 65, .width = 64, .interleaved = true}})).pairing,
            (Pairing{Pairing::Kind::Interleaved, 65, 64}));
}

TEST(Library, AScaleOfOneAddsNoNode) {
  const Program plain = rope({{.head = 64}}), scaled = rope({{.head = 64, .scale = 1.5}});
  EXPECT_EQ(count(scaled, NodeKind::Map), count(plain, NodeKind::Map) + 2);
}

TEST(Library, HeadNormProgramsHaveAnOperandForEachOption) {
  EXPECT_EQ(operands_of(qk_norm_rope({.rope = {.head = 64}})), "in gamma, in positions, out out");
  EXPECT_EQ(operands_of(qk_norm_rope(
                {.norm = kNorm, .rope = {.head = 64}, .weight = NormWeight::None, .bias = true, .save_inputs = true})),
            "in sum_sq, in bias, out z, in positions, out out");
  EXPECT_EQ(operand_of(qk_norm_rope({.rope = {.head = 96}}), "gamma").period, 96);
}

TEST(Library, LossProgramsKeepTheTargetInFp32) {
  EXPECT_EQ(operands_of(lse()), "out lse, in targets, out target");
  EXPECT_EQ(operands_of(lse({.store_logits = true})), "out logits, out lse, in targets, out target");
  EXPECT_EQ(operands_of(rms_lse({kNorm, {}})), "in sum_sq, out lse, in targets, out target");
  EXPECT_EQ(operand_of(lse(), "target").dtype, DType::F32);
  EXPECT_EQ(operand_of(lse({.partial_width = 128}), "lse").partials, (Partials{Reduction::LogSumExp, Axis::Row, 128}));
}

}  // namespace
}  // namespace coda::epilogues
