// The words of program text for the enums of program.h.
#include <cctype>

#include "core/check.h"
#include "ir/validate.h"

namespace coda {

std::string_view name_of(Shape shape) {
  switch (shape) {
    case Shape::Tile: return "tile";
    case Shape::Row: return "row";
    case Shape::Col: return "col";
    case Shape::Scalar: return "scalar";
  }
  INVARIANT(false, "shape ", static_cast<int>(shape));
}

std::string_view name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum: return "sum";
    case Reduction::Max: return "max";
    case Reduction::LogSumExp: return "lse";
  }
  INVARIANT(false, "reduction ", static_cast<int>(reduction));
}

std::string_view name_of(Axis axis) { return axis == Axis::Row ? "row" : "col"; }

std::string_view name_of(Role role) {
  switch (role) {
    case Role::Input: return "in";
    case Role::Output: return "out";
    case Role::Accumulate: return "accumulate";
  }
  INVARIANT(false, "role ", static_cast<int>(role));
}

std::string_view name_of(const Node& node) {
  switch (node.kind) {
    case NodeKind::Acc: return "acc";
    case NodeKind::Const: return "const";
    case NodeKind::Load: return "load";
    case NodeKind::Index: return "index";
    case NodeKind::Map: return op_row(node.op).name;
    case NodeKind::Split: return "split";
    case NodeKind::Join: return "join";
    case NodeKind::SpanReduce: return "span_sum";
    case NodeKind::Reduce: return "reduce";
    case NodeKind::Round: return "round";
    case NodeKind::SelectCol: return "select_col";
    case NodeKind::Store: return "store";
  }
  INVARIANT(false, "node kind ", static_cast<int>(node.kind));
}

std::string pairing_text(const Pairing& pairing) {
  if (pairing.is_none()) return "none";
  return concat(pairing.kind == Pairing::Kind::Halves ? "halves(" : "interleaved(", pairing.head, ", ", pairing.width,
                ")");
}

std::string type_text(const Type& type) {
  std::string text = type.partial ? "partial " : "";
  text += name_of(type.shape);
  if (!type.pairing.is_none()) text += " of " + pairing_text(type.pairing);
  return text;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (const char c : text)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_')) return false;
  return true;
}

bool is_default_value_name(std::string_view text) {
  if (text.size() < 2 || text[0] != 'v') return false;
  for (const char c : text.substr(1))
    if (!std::isdigit(static_cast<unsigned char>(c))) return false;
  return true;
}

}  // namespace coda
