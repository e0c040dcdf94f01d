#include "support/random_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "coda/build.h"

namespace coda::testing_support {
namespace {

// Grows one program step by step from draws of RapidCheck.
class ProgramGrower {
 public:
  explicit ProgramGrower(const RandomProgramOptions& options) : options_(options), builder_("random") {}

  Program grow() {
    add(builder_.acc(0), 2);
    const int steps = *rc::gen::inRange(0, options_.max_steps);
    for (int i = 0; i < steps; ++i) step();
    const int stores = *rc::gen::inRange(1, 4);
    for (int i = 0; i < stores; ++i) store();
    return builder_.build();
  }

 private:
  struct Known {
    Value value;
    double bound = 0;       ///< of its magnitude
    bool loaded = false;    ///< no rewrite can change its bits
    bool positive = false;  ///< at least 1/4
  };

  template <class T>
  static T one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(choices.size())))];
  }
  static bool flip() { return *rc::gen::inRange(0, 2) == 1; }
  std::string fresh(const char* prefix) { return prefix + std::to_string(++names_); }

  Known add(const Value& value, double bound, bool loaded = false, bool positive = false) {
    if (*rc::gen::inRange(0, 4) == 0) value.named(one_of<std::string>({"x", "y", "gate", "r", "halves", "nan"}));
    pool_.push_back({value, bound, loaded, positive});
    if (options_.tame && bound > 100) return add(tanh(value), 1);
    return pool_.back();
  }

  // A known value `fits` accepts; there is always the accumulator for those that accept a tile.
  template <class Fits>
  Known pick(Fits fits) {
    std::vector<Known> fitting;
    for (const Known& known : pool_)
      if (fits(known)) fitting.push_back(known);
    return fitting.empty() ? Known{} : one_of(fitting);
  }
  Known any() {
    return pick([](const Known&) { return true; });
  }
  Known tile() {
    return pick([](const Known& k) { return k.value.type() == Type{Shape::Tile}; });
  }
  Known spanning() {
    return pick([](const Known& k) {
      const Type& type = k.value.type();
      return type.pairing.is_none() && (type.shape == Shape::Tile || type.shape == Shape::Row);
    });
  }
  // One that broadcasts with `other`.
  Known mate(const Known& other) {
    return pick([&](const Known& k) { return broadcasts(k.value.type(), other.value.type()); });
  }
  static bool broadcasts(const Type& a, const Type& b) {
    const auto columns = [](const Type& t) { return t.shape == Shape::Tile || t.shape == Shape::Row; };
    return !columns(a) || !columns(b) || a.pairing == b.pairing;
  }

  static Pairing pairing() {
    using Kind = Pairing::Kind;
    return one_of<Pairing>({{Kind::Halves, 8, 8},
                            {Kind::Interleaved, 8, 8},
                            {Kind::Halves, 16, 8},
                            {Kind::Interleaved, 16, 12},
                            {Kind::Halves, 4, 4},
                            {Kind::Interleaved, 2, 2}});
  }

  void step() {
    switch (*rc::gen::inRange(0, 16)) {
      case 0: return constant();
      case 1: return load();
      case 2: return index();
      case 3: return split_and_keep();
      case 4: return join_members();
      case 5: return span();
      case 6: return round();
      case 7: return divide();
      case 8: return compare();
      default: return apply();
    }
  }

  void constant() {
    std::vector<double> values{0, 1, -1, 2, 0.5, -4, 3, 0.1};
    if (!options_.tame)
      for (const double value : {1e-6, -0.0, 1e300, 5e-324, std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(), std::nan("")})
        values.push_back(value);
    const double value = one_of(values);
    add(builder_.constant(value), std::abs(value), true, value >= 0.25);
  }

  void load() {
    LoadOptions options;
    if (flip()) options.dtype = one_of<DType>({DType::F32, DType::BF16, DType::F16, DType::F64});
    const int shape = *rc::gen::inRange(0, 5);
    if (shape < 2 && flip()) options.pairing = pairing();
    if (shape < 2 && flip()) options.period = options.pairing.is_none() ? 8 : options.pairing.width / 2;
    const std::string name = fresh("in");
    switch (shape) {
      case 0: add(builder_.load_tile(name, options), 2, true); return;
      case 1: add(builder_.load_row(name, options), 2, true); return;
      case 2: add(builder_.load_col(name, options), 2, true); return;
      case 3: add(builder_.load_scalar(name, options), 2, true); return;
      default: {
        const auto op = one_of<Reduction>({Reduction::Sum, Reduction::Max, Reduction::LogSumExp});
        add(builder_.load_partials(name, op, flip() ? Axis::Row : Axis::Col), 2, true);
      }
    }
  }

  void index() {
    if (flip()) {
      add(builder_.row_index(), 16, true);
      return;
    }
    add(builder_.col_index(flip() ? 4 : 0, flip() ? pairing() : Pairing{}), 256, true);
  }

  void split_and_keep() {
    const Known from = spanning();
    const auto [first, second] = split(from.value, pairing());
    add(first, from.bound, from.loaded, from.positive);
    add(second, from.bound, from.loaded, from.positive);
  }

  void join_members() {
    const Known first = pick([](const Known& k) { return !k.value.type().pairing.is_none(); });
    if (!first.value) return split_and_keep();
    const Pairing& pairing = first.value.type().pairing;
    const Known second = pick([&](const Known& k) { return k.value.type().pairing == pairing; });
    const Known rest = pairing.has_rest() ? spanning() : Known{};
    add(join(first.value, second.value, rest.value), std::max({first.bound, second.bound, rest.bound}));
  }

  void span() {
    const Known from = spanning();
    add(span_sum(from.value, one_of<std::int64_t>({4, 8, 16})), 16 * from.bound);
  }

  void round() {
    const Known from = pick([&](const Known& k) { return k.loaded || !options_.tame; });
    if (!from.value) return load();
    const DType dtype = one_of<DType>({DType::BF16, DType::F16, DType::F32, DType::F64});
    add(round_to(from.value, dtype), from.bound, from.loaded, from.positive);
  }

  void divide() {
    const Known over = any();
    Known under = pick([&](const Known& k) { return k.positive && broadcasts(k.value.type(), over.value.type()); });
    if (!under.value) {
      const Known from = mate(over);
      under = add(abs(from.value) + 0.5, from.bound + 0.5, false, true);
    }
    if (flip()) add(over.value * under.value, over.bound * under.bound);
    add(over.value / under.value, over.bound * 4);
  }

  void compare() {
    const auto comparable = [&](const Known& k) { return k.loaded || !options_.tame; };
    const Known left = pick(comparable);
    if (!left.value) return load();
    const Known right =
        pick([&](const Known& k) { return comparable(k) && broadcasts(k.value.type(), left.value.type()); });
    const Known condition = add(map(one_of<Op>({Op::Eq, Op::Lt, Op::Le}), {left.value, right.value}), 1, true);
    const Known taken = mate(condition);
    const Known other = pick([&](const Known& k) {
      return broadcasts(k.value.type(), condition.value.type()) && broadcasts(k.value.type(), taken.value.type());
    });
    add(select(condition.value, taken.value, other.value), std::max(taken.bound, other.bound));
  }

  void apply() {
    const Known a = any();
    const OpRow& row = op_row(static_cast<Op>(*rc::gen::inRange(0, kOpCount)));
    if (row.arity == 1) return unary(row.op, a);
    const Known b = mate(a);
    if (row.arity == 2) return binary(row.op, a, b);
    if (options_.tame) return binary(Op::Mul, a, b);
    const Known c = pick([&](const Known& k) {
      return broadcasts(k.value.type(), a.value.type()) && broadcasts(k.value.type(), b.value.type());
    });
    add(map(row.op, {a.value, b.value, c.value}), a.bound);
  }

  void unary(Op op, const Known& a) {
    if (!options_.tame) {
      add(map(op, {a.value}), a.bound);
      return;
    }
    const bool needs_positive = op == Op::Log || op == Op::Rcp || op == Op::Sqrt || op == Op::Rsqrt;
    const bool grows = op == Op::Exp || op == Op::Exp2;
    const Value x = needs_positive && !a.positive ? abs(a.value) + 0.5 : grows ? tanh(a.value) : a.value;
    const bool to_positive = grows || op == Op::Sigmoid;
    const double bound = op == Op::Square ? a.bound * a.bound : std::max(a.bound, 4.0);
    add(map(op, {x}), bound, false, to_positive && !(op == Op::Sigmoid));
  }

  void binary(Op op, const Known& a, const Known& b) {
    if (options_.tame && (op == Op::Div || op == Op::Eq || op == Op::Lt || op == Op::Le)) op = Op::Sub;
    add(map(op, {a.value, b.value}), op == Op::Mul ? a.bound * b.bound : a.bound + b.bound);
  }

  void store() {
    const std::string name = fresh("out");
    StoreOptions options;
    if (flip()) options.dtype = one_of<DType>({DType::F32, DType::BF16, DType::F16});
    switch (*rc::gen::inRange(0, 5)) {
      case 0: return builder_.store(name, reduced(reduce_row), {.dtype = DType::F32});
      case 1: return builder_.store(name, reduced(reduce_col), {.dtype = DType::F32});
      case 2: return store_selected(name);
      default: options.accumulate = flip(); return builder_.store(name, any().value, options);
    }
  }

  Value reduced(Value (*reduce)(const Value&, Reduction, std::int64_t)) {
    const auto op = one_of<Reduction>({Reduction::Sum, Reduction::Max, Reduction::LogSumExp});
    return reduce(tile().value, op, one_of<std::int64_t>({64, 128}));
  }

  void store_selected(const std::string& name) {
    const Value column = builder_.load_col(fresh("index"), {.dtype = DType::I32});
    std::optional<std::int64_t> ignored;
    if (flip()) ignored = one_of<std::int64_t>({-100, 3});
    builder_.store(name, select_col(tile().value, column, ignored));
  }

  RandomProgramOptions options_;
  Builder builder_;
  std::vector<Known> pool_;
  int names_ = 0;
};

}  // namespace

rc::Gen<Program> random_programs(RandomProgramOptions options) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::exec([options] { return ProgramGrower(options).grow(); }));
}

}  // namespace coda::testing_support

namespace coda {

void showValue(const Program& program, std::ostream& out) { out << '\n' << to_text(program); }

}  // namespace coda
