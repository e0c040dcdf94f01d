// Builder and Value: the way to write a Program in C++.
//
//   Builder b("bias_gelu");
//   Value z = b.acc() + b.load_row("bias");
//   b.store("out", gelu(z));
//   Program program = b.build();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coda/ops.h"
#include "coda/program.h"

namespace coda {

/// A value of a program under construction. Cheap to copy; usable only with values of the same Builder.
class Value {
 public:
  Value() = default;

  /// True unless default-constructed.
  explicit operator bool() const { return graph_ != nullptr; }

  const Type& type() const;
  NodeId id() const { return id_; }

  /// Gives the value the author's name, which text and generated code keep. Errors: ValueError for a name that is no
  /// identifier; a name already taken gets a number appended.
  Value named(const std::string& name) const;

 private:
  friend class Builder;
  friend struct BuilderAccess;
  Value(std::shared_ptr<Program::Data> graph, NodeId id) : graph_(std::move(graph)), id_(id) {}
  std::shared_ptr<Program::Data> graph_;
  NodeId id_ = -1;
};

struct LoadOptions {
  std::int64_t period = 0;       ///< Tile and Row: column c reads entry c % period
  Pairing pairing{};             ///< Tile and Row: one entry a column pair instead of one a column
  std::optional<DType> dtype{};  ///< refuse any other; nothing: take what is bound
};

struct StoreOptions {
  std::optional<DType> dtype{};
  bool accumulate = false;  ///< add to what the operand holds
};

class Builder {
 public:
  /// Errors: ValueError unless `name` is an identifier.
  explicit Builder(std::string name);

  /// Accumulator of the product; `which` is 1 for the second matrix of a Pair factor.
  Value acc(int which = 0);
  Value constant(double value);

  Value load_tile(const std::string& operand, LoadOptions options = {});
  Value load_row(const std::string& operand, LoadOptions options = {});
  Value load_col(const std::string& operand, LoadOptions options = {});
  Value load_scalar(const std::string& operand, LoadOptions options = {});

  /// A reduction another program left as partials, finished in fixed order. axis Row gives a Col, axis Col a Row.
  Value load_partials(const std::string& operand, Reduction op = Reduction::Sum, Axis axis = Axis::Row);

  /// Row number of each row (a Col).
  Value row_index();
  /// Column number of each column (a Row), modulo `period` unless 0; with a pairing, the number of the pair.
  Value col_index(std::int64_t period = 0, Pairing pairing = {});

  /// Writes a Tile, Row, Col, Scalar, or partial value to an output operand, which it declares. A Row or Col is
  /// written once for the whole output. Errors: ValueError for a name already used.
  void store(const std::string& operand, const Value& value, StoreOptions options = {});

  /// The finished program, its nodes in the order its stores need them, so that the text does not depend on the order
  /// C++ evaluates arguments in. Errors: ValueError when nothing is stored.
  Program build() const;

 private:
  friend struct BuilderAccess;
  std::shared_ptr<Program::Data> graph_;
};

/// The op applied with broadcasting: Tile over Row, Col and Scalar; Row with Col gives a Tile. Errors: ValueError for
/// a wrong number of arguments, values of two builders, a partial value, or two different pairings.
Value map(Op op, const std::vector<Value>& args);

/// Member 0 or 1 of every pair of columns: a value of half the width. Errors: ValueError.
std::pair<Value, Value> split(const Value& value, const Pairing& pairing);

/// The inverse of split. `rest` gives the columns that belong to no pair and is required when there are any.
Value join(const Value& first, const Value& second, const Value& rest = {});

/// Sum over each head of `head` columns, the same for all columns of the head.
Value span_sum(const Value& value, std::int64_t head);

/// Partial reductions of a Tile over each `width` columns of a row, to be stored. width: a multiple of 64.
Value reduce_row(const Value& value, Reduction op, std::int64_t width);
/// Partial reductions of a Tile over each `width` rows of a column, to be stored. width: a multiple of 64.
Value reduce_col(const Value& value, Reduction op, std::int64_t width);

/// Rounded to `dtype` (a floating type) and widened again.
Value round_to(const Value& value, DType dtype);

/// For each row the entry of `tile` at column `index` (a Col), to be stored. Rows whose index is `ignored` get 0.
Value select_col(const Value& tile, const Value& index, std::optional<std::int64_t> ignored = {});

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& a);
Value operator+(const Value& a, double b);
Value operator-(const Value& a, double b);
Value operator*(const Value& a, double b);
Value operator/(const Value& a, double b);
Value operator+(double a, const Value& b);
Value operator-(double a, const Value& b);
Value operator*(double a, const Value& b);
Value operator/(double a, const Value& b);

Value abs(const Value& a);
/// min, max, clamp and relu keep NaN.
Value min(const Value& a, const Value& b);
Value max(const Value& a, const Value& b);
Value clamp(const Value& a, const Value& low, const Value& high);
Value clamp(const Value& a, double low, double high);
Value exp(const Value& a);
Value exp2(const Value& a);
Value log(const Value& a);
Value rcp(const Value& a);
Value sqrt(const Value& a);
Value rsqrt(const Value& a);
Value square(const Value& a);
Value tanh(const Value& a);
Value erf(const Value& a);
Value sin(const Value& a);
Value cos(const Value& a);

/// Comparisons give 1 or 0, and 0 where either side is NaN (except not_equal: 1).
Value equal(const Value& a, const Value& b);
Value not_equal(const Value& a, const Value& b);
Value less(const Value& a, const Value& b);
Value less_equal(const Value& a, const Value& b);
Value greater(const Value& a, const Value& b);
Value greater_equal(const Value& a, const Value& b);

/// a where condition is not 0, else b. The branch not taken does not matter, NaN included.
Value select(const Value& condition, const Value& a, const Value& b);

/// The constant in the builder of `like`.
Value constant_like(const Value& like, double value);

}  // namespace coda
