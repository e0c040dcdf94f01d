// Program: what happens to the accumulator of one matrix product, tile by tile (or to loads alone, in an elementwise
// pass). Static single assignment over a few closed node kinds; every value is fp32 and has one of four shapes.
// A Program's meaning never depends on the tile size a schedule picks. docs/programs.md is the reader's guide.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coda/dtype.h"
#include "coda/ops.h"

namespace coda {

/// Extent of a value over an output of M rows and N columns.
enum class Shape : std::uint8_t {
  Tile,    ///< M×N
  Row,     ///< 1×N: one number a column
  Col,     ///< M×1: one number a row
  Scalar,  ///< 1×1
};

/// How columns pair up, inside the first `width` columns of every `head` columns.
struct Pairing {
  enum class Kind : std::uint8_t {
    None,         ///< all columns, unpaired
    Halves,       ///< column c with c + width/2 (Hugging Face LLaMA's rotary order)
    Interleaved,  ///< column 2c with 2c + 1 (GPT-J's and the original LLaMA's order)
  };
  Kind kind = Kind::None;
  std::int64_t head = 0;   ///< period in columns; divides N
  std::int64_t width = 0;  ///< paired columns at the start of each head; even, at most `head`

  bool operator==(const Pairing&) const = default;
  bool is_none() const { return kind == Kind::None; }
  /// Columns of the head that belong to no pair.
  bool has_rest() const { return width < head; }
};

/// Shape of a value; with a pairing, the value has one entry a pair of columns instead of one a column: the half-width
/// domain of Split, N / head · width / 2 columns wide.
struct Type {
  Shape shape = Shape::Scalar;
  Pairing pairing{};     ///< only for Tile and Row
  bool partial = false;  ///< the result of Reduce or SelectCol: only a Store may use it

  bool operator==(const Type&) const = default;
};

enum class Reduction : std::uint8_t { Sum, Max, LogSumExp };

/// Direction of a reduction or an index. Reducing along `Row` runs over the columns of a row and gives a Col.
enum class Axis : std::uint8_t { Row, Col };

/// How a Partials operand holds a reduction: one fp32 entry for every `width` columns (or rows) of the output.
struct Partials {
  Reduction op = Reduction::Sum;
  Axis axis = Axis::Row;
  /// Columns (axis Row) or rows (axis Col) an entry covers, a multiple of 64. 0 on an input: any width, entries are
  /// only finished, never made.
  std::int64_t width = 0;

  bool operator==(const Partials&) const = default;
};

enum class Role : std::uint8_t {
  Input,
  Output,      ///< written, never read
  Accumulate,  ///< read and written: the stored value is added to it
};

/// A tensor the program reads or writes, bound by name when it runs.
struct Operand {
  std::string name{};
  Role role = Role::Input;
  Shape shape = Shape::Tile;
  Pairing pairing{};             ///< columns of the half-width domain
  std::int64_t period = 0;       ///< Tile and Row inputs: column c reads entry c % period; 0: one entry a column
  std::optional<DType> dtype{};  ///< nothing: whatever the bound tensor has
  std::optional<Partials> partials{};

  bool operator==(const Operand&) const = default;
};

enum class NodeKind : std::uint8_t {
  Acc,         ///< accumulator `index` of the matrix product; 1 only with a Pair factor
  Const,       ///< `value`
  Load,        ///< operand `index`, widened; a Partials operand is finished, in fixed order
  Index,       ///< row number (axis Col: a Col) or column number (axis Row: a Row), modulo `period` unless 0
  Map,         ///< `op` of the arguments, broadcast
  Split,       ///< member `index` (0 or 1) of the column pairs of a Tile or Row
  Join,        ///< the two members put back; a third argument gives the columns that belong to no pair
  SpanReduce,  ///< sum over each `period` columns, broadcast back over them
  Reduce,      ///< `reduction` along `axis`, one partial for every `period` columns or rows
  Round,       ///< rounded to `dtype`
  SelectCol,   ///< entry of each row of the first argument at the column the second (a Col) names; `ignored` gives 0
  Store,       ///< the argument to operand `index`
};
inline constexpr int kNodeKindCount = static_cast<int>(NodeKind::Store) + 1;

using NodeId = std::int32_t;

/// One node. `args` name earlier nodes; of the attributes below them a kind uses those its comment above mentions.
struct Node {
  NodeKind kind = NodeKind::Const;
  Type type{};
  std::vector<NodeId> args{};

  Op op = Op::Add;
  Axis axis = Axis::Row;
  Reduction reduction = Reduction::Sum;
  DType dtype = DType::F32;
  int index = 0;
  std::int64_t period = 0;
  double value = 0;
  Pairing pairing{};                      ///< Split, Join: the pairs; Index: the domain whose columns are counted
  std::optional<std::int64_t> ignored{};  ///< SelectCol: the index that selects nothing

  /// The author's name for the value: kept in text and in generated code, no part of its meaning.
  std::string name{};
};

/// An immutable, validated program; a cheap handle to shared data. Made by Builder or by parse_program.
class Program {
 public:
  struct Data {
    std::string name;
    std::vector<Operand> operands;
    std::vector<Node> nodes;  ///< in order of definition
  };

  /// An empty program (no operands, no nodes). Only to be assigned to.
  Program();

  /// Validates `data` (see validate.h) and takes it. Errors: ValueError, TypeError.
  explicit Program(Data data);

  const std::string& name() const { return data_->name; }
  std::span<const Operand> operands() const { return data_->operands; }
  std::span<const Node> nodes() const { return data_->nodes; }
  const Operand& operand(int index) const { return data_->operands[static_cast<std::size_t>(index)]; }
  const Node& node(NodeId id) const { return data_->nodes[static_cast<std::size_t>(id)]; }
  const Data& data() const { return *data_; }

  /// Position of the operand with that name, or -1.
  int find_operand(std::string_view name) const;

  /// Accumulators it reads: 0 (elementwise), 1, or 2 (a Pair factor).
  int accumulators() const;

  /// Columns every tile and N must be a multiple of: least common multiple of all heads, periods and spans; 1 if none.
  std::int64_t column_granule() const;

 private:
  std::shared_ptr<const Data> data_;
};

/// Text of a program; parse_program(to_text(p)) is p again, exactly. The text is a program's identity.
std::string to_text(const Program& program);

/// Errors: ValueError with line and column, what was found and what was expected.
Program parse_program(std::string_view text);

/// An equal program with fewer nodes: constants folded, algebra applied, common subexpressions merged, dead nodes
/// dropped, and inner products moved across linear maps (docs/programs.md lists the rules).
Program simplify(const Program& program);

/// The program with the dtype of each named operand fixed; used before a program's text becomes a cache key.
Program with_operand_dtypes(const Program& program, std::span<const DType> dtypes);

}  // namespace coda
