#include "cpu/fast/lower.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace coda::cpu {
namespace {

Space space_of(Shape shape) {
  switch (shape) {
    case Shape::Scalar: return Space::Scalar;
    case Shape::Row: return Space::Row;
    case Shape::Col: return Space::Col;
    case Shape::Tile: return Space::Tile;
  }
  INVARIANT(false, "shape ", static_cast<int>(shape));
}

bool has_columns(const ValueRef& value) { return value.space != Space::Scalar && value.space != Space::Col; }

// True for steps that write an entry from the same entry of their arguments, so that an argument's slot may be reused.
bool is_entrywise(StepKind kind) { return kind == StepKind::Map || kind == StepKind::Round; }

class Lowering {
 public:
  explicit Lowering(const Program& program) : program_(program), values_(program.nodes().size()) {
    result_.accumulators = program.accumulators();
    find_units();
  }

  Lowered run() {
    for (std::size_t i = 0; i < values_.size(); ++i) add(static_cast<NodeId>(i));
    delay_tile_stores();
    assign_tile_slots();
    return std::move(result_);
  }

 private:
  void find_units() {
    result_.col_unit = program_.column_granule();
    for (const Node& node : program_.nodes()) {
      if (node.kind != NodeKind::Reduce) continue;
      std::int64_t& unit = node.axis == Axis::Row ? result_.col_unit : result_.row_unit;
      unit = common_unit(unit, node.period);
    }
  }

  void add(NodeId id) {
    const Node& node = program_.node(id);
    switch (node.kind) {
      case NodeKind::Acc: values_[id] = {Space::Acc, node.index, 0, {}}; return;
      case NodeKind::Const: return add_value(id, StepKind::Constant);
      case NodeKind::Load: return add_load(id);
      case NodeKind::Index: return add_index(id);
      case NodeKind::Map: return add_entrywise(id, StepKind::Map);
      case NodeKind::Round: return add_entrywise(id, StepKind::Round);
      case NodeKind::Split: return add_value(id, StepKind::Split);
      case NodeKind::Join: return add_value(id, StepKind::Join);
      case NodeKind::SpanReduce: return add_value(id, StepKind::SpanSum);
      case NodeKind::Reduce: return add_reduce(id);
      case NodeKind::SelectCol: return;  // its Store does it
      case NodeKind::Store: return add_store(id);
    }
  }

  void add_value(NodeId id, StepKind kind, std::int64_t period = 0, int operand = -1) {
    const Node& node = program_.node(id);
    Step step{.kind = kind, .node = node, .operand = operand};
    for (const NodeId arg : node.args) step.args[step.arity++] = period == 0 ? whole(arg) : values_[arg];
    step.out = fresh(space_of(node.type.shape), period, node.type.pairing);
    values_[id] = step.out;
    emit(std::move(step));
  }

  void add_load(NodeId id) {
    const Node& node = program_.node(id);
    const Operand& operand = program_.operand(node.index);
    add_value(id, operand.partials ? StepKind::Finish : StepKind::Load, operand.period, node.index);
    // Finishing a column reduction keeps its sums in a second slot, behind the first.
    if (operand.partials && operand.partials->axis == Axis::Col) ++result_.row_slots;
  }

  // Numbers that repeat are kept for one period where every panel begins with it.
  void add_index(NodeId id) {
    const Node& node = program_.node(id);
    const bool aligned = node.period > 0 && columns_in(node.pairing, result_.col_unit) % node.period == 0;
    add_value(id, StepKind::Index, aligned ? node.period : 0);
  }

  // Of arguments that repeat alike, only one period is computed.
  void add_entrywise(NodeId id, StepKind kind) {
    std::int64_t period = -1;
    for (const NodeId arg : program_.node(id).args) {
      if (!has_columns(values_[arg])) continue;
      period = period == -1 || period == values_[arg].period ? values_[arg].period : 0;
    }
    add_value(id, kind, std::max<std::int64_t>(period, 0));
  }

  // A row reduction gives a Tile slot whose few columns are the partials; a column reduction keeps its running state in
  // two Row slots and writes its own results.
  void add_reduce(NodeId id) {
    const Node& node = program_.node(id);
    Step step{.kind = StepKind::Reduce, .node = node, .arity = 1};
    step.args[0] = whole(node.args[0]);
    step.out = fresh(node.axis == Axis::Row ? Space::Tile : Space::Row, 0, {});
    if (node.axis == Axis::Col) {
      ++result_.row_slots;
      step.operand = store_of(id);
      if (step.operand < 0) return;
    }
    values_[id] = step.out;
    result_.tile_steps.push_back(std::move(step));
  }

  int store_of(NodeId id) const {
    for (const Node& node : program_.nodes())
      if (node.kind == NodeKind::Store && node.args[0] == id) return node.index;
    return -1;
  }

  void add_store(NodeId id) {
    const Node& node = program_.node(id);
    const Node& source = program_.node(node.args[0]);
    if (source.kind == NodeKind::Reduce && source.axis == Axis::Col) return;
    Step step{.kind = StepKind::Store, .node = node, .arity = 1, .operand = node.index};
    if (source.kind == NodeKind::SelectCol) {
      step.kind = StepKind::Select;
      step.node = source;
      step.args[0] = whole(source.args[0]);
      step.args[1] = values_[source.args[1]];
      step.arity = 2;
      result_.tile_steps.push_back(std::move(step));
      return;
    }
    step.args[0] = whole(node.args[0]);
    const bool partial = source.kind == NodeKind::Reduce;
    if (partial) step.node = source;
    (partial ? result_.tile_steps : steps_of(space_of(node.type.shape))).push_back(std::move(step));
  }

  // The value with all its columns.
  ValueRef whole(NodeId id) {
    ValueRef& value = values_[id];
    if (value.period == 0) return value;
    Step step{.kind = StepKind::Repeat, .arity = 1};
    step.args[0] = value;
    step.out = fresh(value.space, 0, value.domain);
    value = step.out;
    emit(std::move(step));
    return value;
  }

  ValueRef fresh(Space space, std::int64_t period, const Pairing& domain) {
    int& slots = space == Space::Scalar ? result_.scalar_slots
                 : space == Space::Row  ? result_.row_slots
                 : space == Space::Col  ? result_.col_slots
                                        : result_.tile_slots;
    return {space, slots++, period, domain};
  }

  std::vector<Step>& steps_of(Space space) {
    if (space == Space::Scalar) return result_.scalar_steps;
    if (space == Space::Row) return result_.row_steps;
    return space == Space::Col ? result_.col_steps : result_.tile_steps;
  }

  void emit(Step step) { steps_of(step.out.space).push_back(std::move(step)); }

  // An output may be the very tensor of a tile the program reads: no store comes before the last load.
  void delay_tile_stores() {
    auto& steps = result_.tile_steps;
    const auto is_load = [](const Step& s) { return s.kind == StepKind::Load; };
    const auto last = std::find_if(steps.rbegin(), steps.rend(), is_load).base();
    std::stable_partition(steps.begin(), last, [](const Step& s) { return s.kind != StepKind::Store; });
  }

  // Each value has had a slot of its own; now slots are shared by values that do not live at the same time.
  void assign_tile_slots() {
    auto& steps = result_.tile_steps;
    std::vector<std::size_t> last_use(static_cast<std::size_t>(result_.tile_slots), 0);
    const auto is_tile = [](const ValueRef& v) { return v.space == Space::Tile; };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (int a = 0; a < steps[i].arity; ++a)
        if (is_tile(steps[i].args[a])) last_use[steps[i].args[a].slot] = i;
      if (is_tile(steps[i].out)) last_use[steps[i].out.slot] = i;
    }
    std::vector<int> place(last_use.size(), -1);
    std::vector<int> unused;
    int count = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      Step& step = steps[i];
      std::vector<int> dying;
      for (int a = 0; a < step.arity; ++a) {
        ValueRef& arg = step.args[a];
        if (!is_tile(arg)) continue;
        const auto value = static_cast<std::size_t>(arg.slot);
        arg.slot = place[value];
        if (last_use[value] == i && std::ranges::find(dying, arg.slot) == dying.end()) dying.push_back(arg.slot);
      }
      const auto release = [&] { unused.insert(unused.end(), dying.begin(), dying.end()); };
      if (is_entrywise(step.kind)) release();
      if (is_tile(step.out)) {
        const auto value = static_cast<std::size_t>(step.out.slot);
        if (unused.empty()) unused.push_back(count++);
        place[value] = step.out.slot = unused.back();
        unused.pop_back();
        if (last_use[value] == i) dying.push_back(step.out.slot);
      }
      if (!is_entrywise(step.kind)) release();
    }
    result_.tile_slots = count;
  }

  const Program& program_;
  std::vector<ValueRef> values_;
  Lowered result_;
};

}  // namespace

std::int64_t common_unit(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kEverything = std::int64_t{1} << 40;
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a / std::gcd(a, b), b, &product)) return kEverything;
  return std::min(product, kEverything);
}

Lowered lower(const Program& program) { return Lowering(program).run(); }

}  // namespace coda::cpu
