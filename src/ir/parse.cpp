// Reads program text back. One function a production of the grammar in docs/programs.md; types are inferred and
// checked statement by statement, so that every message has a place.
#include <map>
#include <string>

#include "coda/program.h"
#include "ir/parse_reader.h"

namespace coda {
namespace {

// The words that begin the right side of a statement, besides the ops.
constexpr NodeKind kNamedKinds[] = {NodeKind::Acc,   NodeKind::Const,    NodeKind::Load,       NodeKind::Index,
                                    NodeKind::Split, NodeKind::Join,     NodeKind::SpanReduce, NodeKind::Reduce,
                                    NodeKind::Round, NodeKind::SelectCol};

std::string known_words() {
  std::string list;
  for (const OpRow& row : op_table()) list += concat(row.name, ", ");
  for (const NodeKind kind : kNamedKinds) list += concat(name_of(Node{.kind = kind}), ", ");
  return list.substr(0, list.size() - 2);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : read_(text) {}

  Program program() {
    read_.expect("program");
    data_.name = read_.expect_name("the program's name").text;
    read_.expect("{");
    read_.expect_line_end();
    while (!read_.peek().is("}")) {
      if (read_.peek().kind == Token::Kind::End)
        fail_at(read_.peek(), "program '", data_.name, "' is not closed, expected '}' on a line of its own");
      at_operand() ? operand() : statement();
      read_.expect_line_end();
    }
    const Token closing = read_.take();
    read_.expect_line_end();
    if (read_.peek().kind != Token::Kind::End)
      fail_at(read_.peek(), "got ", quoted(read_.peek()), " after the program's '}', expected one program and no more");
    return checked(closing, [&] { return Program(std::move(data_)); });
  }

 private:
  // Gives an error that `check` raises the place of `token`.
  template <class Check>
  static auto checked(const Token& token, Check check) -> decltype(check()) {
    try {
      return check();
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      fail_at(token, error.what());
    }
  }

  bool at_operand() const {
    const Token& first = read_.peek();
    return (first.is("in") || first.is("out") || first.is("accumulate")) && read_.peek(1).kind == Token::Kind::Name;
  }

  void operand() {
    const Token first = read_.peek();
    if (!data_.nodes.empty()) fail_at(first, "an operand after a statement, expected all operands first");
    Operand operand;
    operand.role = read_.word("a role", {Role::Input, Role::Output, Role::Accumulate});
    const Token name = read_.expect_name("an operand's name");
    operand.name = name.text;
    read_.expect(":");
    operand.shape = read_.word("a shape", {Shape::Tile, Shape::Row, Shape::Col, Shape::Scalar});
    if (read_.at_pairing()) operand.pairing = read_.pairing();
    if (read_.accept("period")) operand.period = read_.integer("a period");
    const bool ends = read_.peek().kind == Token::Kind::Line || read_.peek().is("partials");
    if (!ends) operand.dtype = read_.dtype();
    if (read_.accept("partials")) operand.partials = partials();
    if (!operands_.emplace(name.text, static_cast<int>(data_.operands.size())).second)
      fail_at(name, "operand '", name.text, "' is declared twice, expected each name once");
    checked(first, [&] { validate_operand(data_, operand); });
    data_.operands.push_back(std::move(operand));
  }

  Partials partials() {
    Partials partials;
    read_.expect("(");
    partials.op = reduction();
    read_.expect(",");
    partials.axis = axis();
    if (read_.accept(",")) partials.width = read_.integer("a partial width");
    read_.expect(")");
    return partials;
  }

  Reduction reduction() { return read_.word("a reduction", {Reduction::Sum, Reduction::Max, Reduction::LogSumExp}); }
  Axis axis() { return read_.word("an axis", {Axis::Row, Axis::Col}); }

  // name = word(…), or store(…).
  void statement() {
    const Token first = read_.expect_name("an operand, a statement or '}'");
    if (first.text == "store" && read_.peek().is("(")) return append(first, store());
    read_.expect("=");
    if (values_.contains(first.text))
      fail_at(first, "value '", first.text, "' is defined twice, expected each name once");
    const Token word = read_.expect_name("an op or a node kind");
    Node node = right_side(word);
    if (!is_default_value_name(first.text)) node.name = first.text;
    append(word, std::move(node));
    values_.emplace(first.text, static_cast<NodeId>(data_.nodes.size() - 1));
  }

  void append(const Token& place, Node node) {
    node.type = checked(place, [&] { return infer_type(data_, node); });
    data_.nodes.push_back(std::move(node));
  }

  Node store() {
    Node node{.kind = NodeKind::Store};
    read_.expect("(");
    node.index = operand_index();
    read_.expect(",");
    node.args.push_back(value());
    read_.expect(")");
    return node;
  }

  Node right_side(const Token& word) {
    if (const auto op = op_from_name(word.text)) {
      read_.expect("(");
      Node node{.kind = NodeKind::Map, .op = *op};
      do node.args.push_back(value());
      while (read_.accept(","));
      read_.expect(")");
      return node;
    }
    for (const NodeKind kind : kNamedKinds) {
      Node node{.kind = kind};
      if (word.text != name_of(node)) continue;
      read_.expect("(");
      attributes(node);
      read_.expect(")");
      return node;
    }
    fail_at(word, "unknown op '", word.text, "', expected one of ", known_words());
  }

  // What stands between the parentheses of a node that is neither a Map nor a Store.
  void attributes(Node& node) {
    switch (node.kind) {
      case NodeKind::Acc: node.index = read_.bit("accumulator"); return;
      case NodeKind::Const: node.value = read_.number(); return;
      case NodeKind::Load: node.index = operand_index(); return;
      case NodeKind::Index: return index(node);
      case NodeKind::Split: return split(node);
      case NodeKind::Join: return join(node);
      case NodeKind::SpanReduce: node.args = {value_and_comma()}, node.period = read_.integer("a span"); return;
      case NodeKind::Reduce: return reduce(node);
      case NodeKind::Round: node.args = {value_and_comma()}, node.dtype = read_.dtype(); return;
      case NodeKind::SelectCol: return select_col(node);
      case NodeKind::Map:
      case NodeKind::Store: break;
    }
    INVARIANT(false, "parse: node kind ", static_cast<int>(node.kind), " has its own production");
  }

  void index(Node& node) {
    node.axis = axis();
    bool more = read_.accept(",");
    if (more && read_.accept("period")) {
      node.period = read_.integer("a period");
      more = read_.accept(",");
    }
    if (more) node.pairing = read_.pairing();
  }

  void split(Node& node) {
    node.args = {value_and_comma()};
    node.index = read_.bit("member");
    read_.expect(",");
    node.pairing = read_.pairing();
  }

  void join(Node& node) {
    node.args.push_back(value_and_comma());
    node.args.push_back(value_and_comma());
    if (!read_.at_pairing()) node.args.push_back(value_and_comma());
    node.pairing = read_.pairing();
  }

  void reduce(Node& node) {
    node.args = {value_and_comma()};
    node.reduction = reduction();
    read_.expect(",");
    node.axis = axis();
    read_.expect(",");
    node.period = read_.integer("a partial width");
  }

  void select_col(Node& node) {
    node.args.push_back(value_and_comma());
    node.args.push_back(value());
    if (!read_.accept(",")) return;
    read_.expect("ignored");
    node.ignored = read_.integer("the ignored index");
  }

  NodeId value_and_comma() {
    const NodeId id = value();
    read_.expect(",");
    return id;
  }

  NodeId value() {
    const Token name = read_.expect_name("a value's name");
    const auto found = values_.find(name.text);
    if (found == values_.end())
      fail_at(name, "value '", name.text, "' is not defined yet; values must be defined before they are used");
    return found->second;
  }

  int operand_index() {
    const Token name = read_.expect_name("an operand's name");
    const auto found = operands_.find(name.text);
    if (found != operands_.end()) return found->second;
    std::string known;
    for (const Operand& operand : data_.operands) known += concat(known.empty() ? "" : ", ", operand.name);
    fail_at(name, "unknown operand '", name.text, "', expected ",
            known.empty() ? "one declared at the top: there is none" : "one of " + known);
  }

  TokenReader read_;
  Program::Data data_;
  std::map<std::string_view, NodeId> values_;
  std::map<std::string_view, int> operands_;
};

}  // namespace

Program parse_program(std::string_view text) { return Parser(text).program(); }

}  // namespace coda
