// The column numbers SelectCol is given. They are Cols, which hang on loads, constants, row numbers and ops alone, so
// all of them are known before the product.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "coda/problem.h"
#include "core/check.h"
#include "problem/operands.h"
#include "problem/reducer.h"

namespace coda {
namespace {

double col_value(const BoundSegment& segment, NodeId id, std::int64_t row) {
  const Node& node = segment.program.node(id);
  switch (node.kind) {
    case NodeKind::Const: return node.value;
    case NodeKind::Load: {
      const auto& operand = segment.program.operand(node.index);
      const TensorView& tensor = segment.operands[static_cast<std::size_t>(node.index)];
      return operand.partials ? finish(tensor, *operand.partials, row) : entry(tensor, row, 0);
    }
    case NodeKind::Index: return static_cast<double>(row);
    case NodeKind::Map: {
      double args[3] = {};
      for (std::size_t i = 0; i < node.args.size(); ++i) args[i] = col_value(segment, node.args[i], row);
      return op_row(node.op).reference(args);
    }
    case NodeKind::Round: return round_to(node.dtype, col_value(segment, node.args[0], row));
    case NodeKind::Acc:
    case NodeKind::Split:
    case NodeKind::Join:
    case NodeKind::SpanReduce:
    case NodeKind::Reduce:
    case NodeKind::SelectCol:
    case NodeKind::Store: break;
  }
  INVARIANT(false, "check_indices: node ", id, " is no col\n", to_text(segment.program));
}

// What a message calls the index and its value at a row: "target 50000", or "the computed index 3.5".
std::string index_text(const BoundSegment& segment, const Node& index, double value, std::int64_t row) {
  if (index.kind != NodeKind::Load || segment.program.operand(index.index).partials)
    return concat("the computed index ", value);
  const TensorView& tensor = segment.operands[static_cast<std::size_t>(index.index)];
  const std::string name = segment.program.operand(index.index).name + " ";
  if (tensor.dtype() != DType::I64) return name + std::to_string(static_cast<std::int64_t>(value));
  std::int64_t exact = 0;  // a double holds no integer above 2^53
  std::memcpy(&exact, static_cast<const char*>(tensor.data()) + row * tensor.stride(0) * 8, sizeof exact);
  return name + std::to_string(exact);
}

void check_select(const Problem& problem, std::size_t number, const Node& select) {
  const BoundSegment& segment = problem.segments[number];
  const Node& index = segment.program.node(select.args[1]);
  for (std::int64_t row = 0; row < segment.rows; ++row) {
    const double value = col_value(segment, select.args[1], row);
    if (select.ignored && value == static_cast<double>(*select.ignored)) continue;
    const bool inside = value >= 0 && value < static_cast<double>(segment.cols) && value == std::floor(value);
    REQUIRE(IndexError, inside, problem.call, ": ", index_text(segment, index, value, row), " at row ", row,
            problem.segments.size() > 1 ? concat(" of segment ", number) : "", " is outside [0, ", segment.cols,
            "), expected a column of the output",
            select.ignored ? concat(", or ", *select.ignored, " to ignore the row") : "");
  }
}

}  // namespace

void check_indices(const Problem& problem) {
  if (problem.device.kind != DeviceKind::Cpu) return;  // device memory: reading it here would stall the stream
  for (std::size_t i = 0; i < problem.segments.size(); ++i)
    for (const Node& node : problem.segments[i].program.nodes())
      if (node.kind == NodeKind::SelectCol) check_select(problem, i, node);
}

}  // namespace coda
