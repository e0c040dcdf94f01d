// A program made flat: the steps of its nodes, in the order a tile runs them, with a slot for every value.
//
// Values live in four spaces by shape: a Scalar is one number, a Row a line as wide as the panel, a Col a line as long
// as the block of rows, a Tile a few rows of the panel at a time (Tile slots are reused as values die). A value that
// repeats every `period` columns is kept for one period and spread out where a step needs it whole.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "coda/program.h"

namespace coda::cpu {

enum class Space : std::uint8_t { Scalar, Row, Col, Tile, Acc };

struct ValueRef {
  Space space = Space::Scalar;
  int slot = 0;             ///< number of the accumulator in Space::Acc
  std::int64_t period = 0;  ///< columns kept; 0: all
  Pairing domain;           ///< whose columns it has
};

enum class StepKind : std::uint8_t {
  Constant,
  Load,
  Finish,  ///< a partials operand
  Index,
  Map,
  Split,
  Join,
  SpanSum,
  Round,
  Repeat,  ///< a periodic value, whole
  Reduce,
  Store,
  Select,  ///< store of a SelectCol
};

struct Step {
  StepKind kind = StepKind::Constant;
  Node node{};  ///< the attributes
  std::array<ValueRef, 3> args{};
  int arity = 0;
  ValueRef out{};
  int operand = -1;  ///< Load, Finish, Store, Select, and Reduce along columns, which stores its own results
};

struct Lowered {
  std::vector<Step> scalar_steps;
  std::vector<Step> row_steps;
  std::vector<Step> col_steps;
  std::vector<Step> tile_steps;
  int scalar_slots = 0;
  int row_slots = 0;
  int col_slots = 0;
  int tile_slots = 0;
  int accumulators = 0;
  std::int64_t col_unit = 1;  ///< columns a panel is a multiple of, unless it is the last
  std::int64_t row_unit = 1;  ///< rows a task is a multiple of, unless it is the last
};

/// The least common multiple; beyond 2^40, 2^40: a unit longer than any output asks for one panel or block.
std::int64_t common_unit(std::int64_t a, std::int64_t b);

Lowered lower(const Program& program);

/// Columns of a domain for `cols` columns of the output.
inline std::int64_t columns_in(const Pairing& domain, std::int64_t cols) {
  return domain.is_none() ? cols : cols / domain.head * (domain.width / 2);
}

}  // namespace coda::cpu
