#include "autodiff/request.h"

#include <algorithm>
#include <set>

#include "autodiff/remake.h"
#include "core/check.h"
#include "ir/validate.h"

namespace coda {
namespace {

bool is_acc_name(const std::string& name) { return name == acc_name(0) || name == acc_name(1); }

class Checker {
 public:
  Checker(const Program& forward, const DifferentiateOptions& options)
      : forward_(forward), options_(options), call_(call_of(forward)) {}

  void check_wrt(const std::vector<std::string>& wrt) const {
    REQUIRE(ValueError, !wrt.empty(), call_, "wrt is empty, expected some of ", known_wrt());
    std::set<std::string> seen;
    for (const std::string& name : wrt) {
      REQUIRE(ValueError, seen.insert(name).second, call_, "wrt names '", name, "' twice, expected each once");
      const std::vector<bool> nodes = nodes_of(forward_, name);
      REQUIRE(ValueError, std::find(nodes.begin(), nodes.end(), true) != nodes.end(), call_, "wrt names '", name,
              "', expected some of ", known_wrt());
      const int operand = forward_.find_operand(name);
      REQUIRE(ValueError, operand < 0 || forward_.operand(operand).role != Role::Input || !is_acc_name(name), call_,
              "wrt names '", name, "', an accumulator and an operand: rename the operand");
      if (operand >= 0 && !is_acc_name(name)) check_operand(forward_.operand(operand));
    }
  }

  void check_cotangents(const std::vector<Cotangent>& cotangents) const {
    std::set<std::string> named, silent;
    int from_acc = 0;
    for (const Cotangent& cotangent : cotangents) {
      const int index = forward_.find_operand(cotangent.output);
      REQUIRE(ValueError, index >= 0 && forward_.operand(index).role != Role::Input, call_,
              "a cotangent is given for '", cotangent.output, "', which is no output: expected some of ",
              known_outputs());
      const bool is_silent = cotangent.source == Cotangent::Source::None;
      const bool is_new = named.insert(cotangent.output).second;
      REQUIRE(ValueError, is_new || (!is_silent && !silent.contains(cotangent.output)), call_, "output '",
              cotangent.output, "' is given none and another cotangent, expected one or the other");
      if (is_silent) silent.insert(cotangent.output);
      check_source(cotangent, forward_.operand(index));
      from_acc += cotangent.source == Cotangent::Source::Acc;
    }
    REQUIRE(ValueError, from_acc < 2, call_, from_acc,
            " cotangents arrive as the accumulator, expected at most one: load the others");
    for (const Operand& output : forward_.operands())
      REQUIRE(ValueError, output.role == Role::Input || named.contains(output.name), call_, "output '", output.name,
              "' has no cotangent, expected one for each output: Cotangent::none where nothing depends on it");
  }

  void check_options() const {
    REQUIRE(ValueError, options_.partial_width > 0 && options_.partial_width % 64 == 0, call_, "partial_width is ",
            options_.partial_width, ", expected a multiple of 64, above 0: a partial result covers whole tiles");
    REQUIRE(ValueError, options_.partial_rows >= 0 && options_.partial_rows % 64 == 0, call_, "partial_rows is ",
            options_.partial_rows, ", expected a multiple of 64, or 0 for as many as partial_width");
    if (options_.saved) check_written_tiles("saved", *options_.saved);
    check_written_tiles("remade", options_.remade);
    for (std::size_t i = 0; i < options_.remade.size(); ++i)
      REQUIRE(ValueError, std::count(options_.remade.begin(), options_.remade.end(), options_.remade[i]) == 1, call_,
              "remade names '", options_.remade[i], "' twice, expected each once");
  }

 private:
  void check_written_tiles(std::string_view option, const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      const int index = forward_.find_operand(name);
      REQUIRE(
          ValueError,
          index >= 0 && forward_.operand(index).role == Role::Output && forward_.operand(index).shape == Shape::Tile,
          call_, option, " names '", name, "', expected tiles the program writes");
    }
  }

  std::string known_wrt() const {
    std::string names;
    for (int i = 0; i < forward_.accumulators(); ++i) names += (names.empty() ? "" : ", ") + acc_name(i);
    for (const Operand& operand : forward_.operands())
      if (operand.role == Role::Input) names += (names.empty() ? "" : ", ") + operand.name;
    return names;
  }

  std::string known_outputs() const {
    std::string names;
    for (const Operand& operand : forward_.operands())
      if (operand.role != Role::Input) names += (names.empty() ? "" : ", ") + operand.name;
    return names;
  }

  void check_operand(const Operand& operand) const {
    if (operand.dtype)
      REQUIRE(TypeError, !is_integer(*operand.dtype), call_, "wrt names '", operand.name, "', which is ",
              coda::name_of(*operand.dtype), ", expected a floating operand: integers have no gradient");
    REQUIRE(NotImplementedError, operand.shape != Shape::Tile || operand.period == 0, call_, "wrt names '",
            operand.name, "', a tile that repeats every ", operand.period,
            " columns: sums over columns of a tile's entries are not implemented; leave it out");
  }

  void check_source(const Cotangent& cotangent, const Operand& output) const {
    switch (cotangent.source) {
      case Cotangent::Source::None: return;
      case Cotangent::Source::Acc: return check_acc(output);
      case Cotangent::Source::Load:
        REQUIRE(ValueError, forward_.find_operand(cotangent.operand) < 0, call_, "the cotangent of '", cotangent.output,
                "' is loaded from '", cotangent.operand,
                "', the name of an operand of the program, expected another name");
        return;
      case Cotangent::Source::Computed: return check_computed(*cotangent.program, output);
    }
    INVARIANT(false, "differentiate: source ", static_cast<int>(cotangent.source));
  }

  void check_acc(const Operand& output) const {
    const Type type{output.shape, output.pairing};
    REQUIRE(ValueError, type == Type{Shape::Tile}, call_, "the cotangent of '", output.name,
            "' arrives as the accumulator, a tile, but the output is a ", type_text(type), ": load it");
    REQUIRE(ValueError, !options_.recompute_acc, call_, "the cotangent of '", output.name,
            "' arrives as the accumulator, which recompute_acc makes the forward's own: load it");
  }

  void check_computed(const Program& program, const Operand& output) const {
    const std::string of = concat(call_, "the program that computes the cotangent of '", output.name, "' ");
    int stores = 0;
    for (const Node& node : program.nodes()) {
      stores += node.kind == NodeKind::Store;
      REQUIRE(ValueError, node.kind != NodeKind::Acc, of, "reads an accumulator, expected loads alone");
      if (node.kind != NodeKind::Store) continue;
      const Type expected{output.shape, output.pairing};
      REQUIRE(ValueError, node.type == expected, of, "stores a ", type_text(node.type), ", expected a ",
              type_text(expected));
    }
    REQUIRE(ValueError, stores == 1, of, "stores ", stores, " values, expected 1");
    for (const Operand& operand : program.operands()) {
      const int same = forward_.find_operand(operand.name);
      REQUIRE(ValueError, operand.role != Role::Input || same < 0 || forward_.operand(same).role != Role::Input, of,
              "reads '", operand.name, "', also the name of an input of the forward program: rename one");
    }
  }

  const Program& forward_;
  const DifferentiateOptions& options_;
  std::string call_;
};

}  // namespace

std::string call_of(const Program& forward) { return concat("differentiate: program '", forward.name(), "': "); }

void check_request(const Program& forward, const std::vector<std::string>& wrt,
                   const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options) {
  const Checker checker(forward, options);
  checker.check_wrt(wrt);
  checker.check_cotangents(cotangents);
  checker.check_options();
}

std::vector<bool> nodes_of(const Program& forward, const std::string& name) {
  std::vector<bool> found;
  for (const Node& node : forward.nodes())
    found.push_back((node.kind == NodeKind::Acc && acc_name(node.index) == name) ||
                    (node.kind == NodeKind::Load && forward.operand(node.index).name == name));
  return found;
}

}  // namespace coda
