// Prints a program; parse.cpp reads it back. docs/programs.md tells the grammar.
#include <array>
#include <charconv>
#include <string>

#include "coda/program.h"
#include "core/check.h"
#include "ir/validate.h"

namespace coda {
namespace {

// The shortest digits that read back as the same double.
std::string number_text(double value) {
  if (value != value) return "nan";
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  INVARIANT(error == std::errc{}, "number ", value, " needs more than ", digits.size(), " characters");
  return std::string(digits.data(), end);
}

std::string operand_text(const Operand& operand) {
  std::string text = concat(name_of(operand.role), " ", operand.name, ": ", name_of(operand.shape));
  if (!operand.pairing.is_none()) text += concat(" ", pairing_text(operand.pairing));
  if (operand.period != 0) text += concat(" period ", operand.period);
  if (operand.dtype) text += concat(" ", name_of(*operand.dtype));
  if (operand.partials) {
    text += concat(" partials(", name_of(operand.partials->op), ", ", name_of(operand.partials->axis));
    if (operand.partials->width != 0) text += concat(", ", operand.partials->width);
    text += ")";
  }
  return text;
}

std::string value_name(const Program& program, NodeId id) {
  const std::string& name = program.node(id).name;
  return name.empty() ? concat("v", id) : name;
}

// What stands between the parentheses after the arguments: the attributes the kind uses.
std::string attributes_text(const Program& program, const Node& node) {
  switch (node.kind) {
    case NodeKind::Acc: return std::to_string(node.index);
    case NodeKind::Const: return number_text(node.value);
    case NodeKind::Load: return program.operand(node.index).name;
    case NodeKind::Index:
      return concat(name_of(node.axis), node.period != 0 ? concat(", period ", node.period) : "",
                    node.pairing.is_none() ? "" : ", " + pairing_text(node.pairing));
    case NodeKind::Map: return "";
    case NodeKind::Split: return concat(node.index, ", ", pairing_text(node.pairing));
    case NodeKind::Join: return pairing_text(node.pairing);
    case NodeKind::SpanReduce: return std::to_string(node.period);
    case NodeKind::Reduce: return concat(name_of(node.reduction), ", ", name_of(node.axis), ", ", node.period);
    case NodeKind::Round: return std::string(name_of(node.dtype));
    case NodeKind::SelectCol: return node.ignored ? concat("ignored ", *node.ignored) : "";
    case NodeKind::Store: return "";
  }
  INVARIANT(false, "node kind ", static_cast<int>(node.kind));
}

std::string node_text(const Program& program, const Node& node) {
  std::string inside;
  if (node.kind == NodeKind::Store) inside = program.operand(node.index).name;
  const auto append = [&](const std::string& part) {
    if (part.empty()) return;
    if (!inside.empty()) inside += ", ";
    inside += part;
  };
  for (const NodeId arg : node.args) append(value_name(program, arg));
  append(attributes_text(program, node));
  return concat(name_of(node), "(", inside, ")");
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text = concat("program ", program.name(), " {\n");
  for (const Operand& operand : program.operands()) text += "  " + operand_text(operand) + "\n";
  if (!program.operands().empty()) text += "\n";
  for (NodeId id = 0; id < static_cast<NodeId>(program.nodes().size()); ++id) {
    const Node& node = program.node(id);
    text += "  ";
    if (node.kind != NodeKind::Store) text += value_name(program, id) + " = ";
    text += node_text(program, node) + "\n";
  }
  return text + "}\n";
}

}  // namespace coda
