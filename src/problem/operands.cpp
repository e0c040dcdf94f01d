#include "problem/operands.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "ir/validate.h"
#include "problem/factors.h"

namespace coda {
namespace {

constexpr std::int64_t kMaxPartials = 64;  // a load finishes this many; more are finished by a pass of their own

std::int64_t count_of(std::int64_t extent, std::int64_t width) { return (extent + width - 1) / width; }

// Columns of an operand's domain: those of the output, or the pairs of its pairing.
std::int64_t domain_columns(const Operand& operand, std::int64_t cols) {
  return operand.pairing.is_none() ? cols : cols / operand.pairing.head * (operand.pairing.width / 2);
}

// Entries of a Tile or Row along the columns.
std::int64_t columns_of(const Operand& operand, std::int64_t cols) {
  return operand.period > 0 ? operand.period : domain_columns(operand, cols);
}

// What the extents of an operand are, and why: the end of a message about its shape.
std::string shape_reason(const Operand& operand) {
  if (operand.partials) {
    const bool by_row = operand.partials->axis == Axis::Row;
    const std::string extents = by_row ? " (M, partials): " : " (partials, N): ";
    if (operand.partials->width == 0)
      return extents + (by_row ? "one line of partials for each row of the output"
                               : "one column of partials for each column of the output");
    return concat(extents, "one partial for every ", operand.partials->width, by_row ? " columns" : " rows");
  }
  const std::string pairs = concat("one entry for each pair of ", pairing_text(operand.pairing));
  switch (operand.shape) {
    case Shape::Tile:
      if (operand.period > 0) return " (M, period): the tile's columns repeat";
      if (!operand.pairing.is_none()) return " (M, pairs): a split tile has " + pairs;
      return " (M, N): a tile covers the whole output";
    case Shape::Row:
      if (operand.period > 0) return " (period): the row vector repeats along the columns";
      if (!operand.pairing.is_none()) return " (pairs): a split row vector has " + pairs;
      return " (N): a row vector spans the columns of the output";
    case Shape::Col: return " (M): a column vector spans the rows of the output";
    case Shape::Scalar: return " or [1]: a scalar is one element";
  }
  INVARIANT(false, "shape ", static_cast<int>(operand.shape));
}

// "[16, 4]"; an open extent of partials is "1 to 64".
std::string expected_text(const Operand& operand, std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += concat(i > 0 ? ", " : "", shape[i] < 0 ? concat("1 to ", kMaxPartials) : std::to_string(shape[i]));
  return text + "]" + shape_reason(operand);
}

bool extent_fits(std::int64_t got, std::int64_t expected) { return expected < 0 ? got >= 1 : got == expected; }

// A vector may come with the other extent spelled out as 1; nothing else is taken for another shape.
bool shape_fits(const Operand& operand, const TensorView& tensor, std::span<const std::int64_t> expected) {
  const auto got = tensor.shape();
  if (std::equal(got.begin(), got.end(), expected.begin(), expected.end(), extent_fits)) return true;
  if (operand.partials) return false;
  if (operand.shape == Shape::Row) return got.size() == 2 && got[0] == 1 && got[1] == expected[0];
  if (operand.shape == Shape::Col) return got.size() == 2 && got[0] == expected[0] && got[1] == 1;
  return operand.shape == Shape::Scalar && got.size() == 1 && got[0] == 1;
}

void check_shape(const Place& place, const Operand& operand, const TensorView& tensor) {
  const std::vector<std::int64_t> expected = operand_shape(operand, place.rows, place.cols);
  REQUIRE(ValueError, shape_fits(operand, tensor, expected), place.call, ": ", operand_text(place, operand.name),
          " has shape ", shape_text(tensor.shape()), ", expected ", expected_text(operand, expected));
  if (!operand.partials || operand.role != Role::Input) return;
  const std::int64_t count = tensor.shape(operand.partials->axis == Axis::Row ? 1 : 0);
  REQUIRE(ValueError, count <= kMaxPartials, place.call, ": ", operand_text(place, operand.name), " has shape ",
          shape_text(tensor.shape()), ", expected at most ", kMaxPartials,
          " partials to finish: finish them first or use a wider partial_width");
}

bool is_index(const Program& program, int operand) {
  return std::any_of(program.nodes().begin(), program.nodes().end(), [&](const Node& node) {
    if (node.kind != NodeKind::SelectCol) return false;
    const Node& index = program.node(node.args[1]);
    return index.kind == NodeKind::Load && index.index == operand;
  });
}

void check_dtype(const Place& place, const Program& program, int index, const TensorView& tensor) {
  const Operand& operand = program.operand(index);
  const auto got = [&] {
    return concat(place.call, ": ", operand_text(place, operand.name), " has dtype ", name_of(tensor.dtype()),
                  ", expected ");
  };
  REQUIRE(TypeError, !operand.dtype || *operand.dtype == tensor.dtype(), got(), name_of(*operand.dtype),
          ", as program '", program.name(), "' declares: convert it");
  if (operand.partials)
    REQUIRE(TypeError, tensor.dtype() == DType::F32 || tensor.dtype() == DType::F64, got(),
            "f32: partials are kept in full precision");
  if (is_index(program, index))
    REQUIRE(TypeError, is_integer(tensor.dtype()), got(), "i32 or i64: it holds column numbers");
  if (operand.role != Role::Input)
    REQUIRE(TypeError, !is_integer(tensor.dtype()), got(), "f32, bf16, f16 or f64: no output holds integers");
  if (operand.shape == Shape::Tile)
    REQUIRE(TypeError, !is_integer(tensor.dtype()), got(), "f32, bf16, f16 or f64: no tile holds integers");
}

// Rank 2, with stride 0 along an extent of 1.
TensorView normalized(const Operand& operand, const TensorView& tensor) {
  std::int64_t shape[2] = {1, 1};
  std::int64_t strides[2] = {0, 0};
  if (tensor.rank() == 2) {
    for (int axis = 0; axis < 2; ++axis) {
      shape[axis] = tensor.shape(axis);
      strides[axis] = tensor.stride(axis);
    }
  } else if (tensor.rank() == 1) {
    const int axis = operand.shape == Shape::Col ? 0 : 1;
    shape[axis] = tensor.shape(0);
    strides[axis] = tensor.stride(0);
  }
  for (int axis = 0; axis < 2; ++axis)
    if (shape[axis] == 1) strides[axis] = 0;
  return {tensor.data(), tensor.dtype(), shape, strides, tensor.device()};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> line(b.size() + 1);
  std::iota(line.begin(), line.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = i;
    line[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = line[j + 1];
      line[j + 1] = std::min({replaced, line[j] + 1, line[j + 1] + 1});
    }
  }
  return line.back();
}

// Position of a given operand in the program. Errors: ValueError with the names it has and the nearest of them.
int position_of(const Place& place, const Program& program, const std::string& name) {
  const int position = program.find_operand(name);
  if (position >= 0) return position;
  std::string known;
  std::string_view nearest;
  std::size_t least = 1 + name.size() / 3;  // letters that may differ before a suggestion only confuses
  for (const Operand& operand : program.operands()) {
    known += concat(known.empty() ? "'" : ", '", operand.name, "'");
    const std::size_t distance = edit_distance(name, operand.name);
    if (distance > least) continue;
    least = distance;
    nearest = operand.name;
  }
  throw ValueError(concat(place.call, ": ", operand_text(place, name), " is none of program '", program.name(),
                          "', expected ", known,
                          nearest.empty() ? ": leave it out" : concat(": did you mean '", nearest, "'?")));
}

}  // namespace

std::vector<std::int64_t> operand_shape(const Operand& operand, std::int64_t rows, std::int64_t cols) {
  if (operand.partials) {
    const std::int64_t width = operand.partials->width;
    if (operand.partials->axis == Axis::Row) return {rows, width > 0 ? count_of(cols, width) : -1};
    return {width > 0 ? count_of(rows, width) : -1, cols};
  }
  switch (operand.shape) {
    case Shape::Tile: return {rows, columns_of(operand, cols)};
    case Shape::Row: return {columns_of(operand, cols)};
    case Shape::Col: return {rows};
    case Shape::Scalar: return {};
  }
  INVARIANT(false, "shape ", static_cast<int>(operand.shape));
}

std::string operand_text(const Place& place, std::string_view name) {
  return concat("operand '", name, "'", place.segment < 0 ? "" : concat(" of segment ", place.segment));
}

void check_columns(const Place& place, const Program& program) {
  const auto check = [&](std::string_view what, std::int64_t width, std::int64_t cols, std::string_view extent) {
    REQUIRE(ValueError, width <= 0 || cols % width == 0, place.call, ": ", what, " ", width, " of program '",
            program.name(), "' does not divide ", extent, " = ", cols, place.segment < 0 ? "" : " of segment ",
            place.segment < 0 ? "" : std::to_string(place.segment), ", expected a multiple: every head is whole");
  };
  for (const Node& node : program.nodes()) {
    check("head", node.pairing.head, place.cols, "N");
    if (node.kind == NodeKind::SpanReduce) check("head", node.period, place.cols, "N");
  }
  for (const Operand& operand : program.operands()) {
    check("head", operand.pairing.head, place.cols, "N");
    check("period", operand.period, domain_columns(operand, place.cols),
          operand.pairing.is_none() ? "N" : "the number of pairs");
  }
}

std::vector<TensorView> bind_operands(const Place& place, const Program& program, const Operands& given) {
  const std::size_t count = program.operands().size();
  std::vector<const TensorView*> tensors(count, nullptr);
  for (const NamedTensor& operand : given) {
    const auto position = static_cast<std::size_t>(position_of(place, program, operand.name));
    REQUIRE(ValueError, tensors[position] == nullptr, place.call, ": ", operand_text(place, operand.name),
            " is given twice, expected each name once: leave one out");
    tensors[position] = &operand.tensor;
  }
  std::vector<TensorView> bound;
  for (std::size_t i = 0; i < count; ++i) {
    const Operand& operand = program.operand(static_cast<int>(i));
    const std::string name = operand_text(place, operand.name);
    REQUIRE(ValueError, tensors[i] != nullptr, place.call, ": ", name, " is missing, expected a tensor of shape ",
            expected_text(operand, operand_shape(operand, place.rows, place.cols)));
    check_shape(place, operand, *tensors[i]);
    check_dtype(place, program, static_cast<int>(i), *tensors[i]);
    require_memory(place.call, name, *tensors[i], place.home);
    bound.push_back(normalized(operand, *tensors[i]));
  }
  return bound;
}

}  // namespace coda
