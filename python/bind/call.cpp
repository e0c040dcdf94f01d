#include "call.h"

#include <algorithm>

namespace coda::python {
namespace {

std::string operand_name(const Operand& operand) { return concat("operand '", operand.name, "'"); }

bool is_number(nb::handle object) { return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr()); }

// Leading dimensions of Tiles and Cols that equal the batch are taken as one: the rows.
Array without_batch(Array array, const Operand& operand, const Extents& batch, const Place& place, Access access) {
  const bool has_rows = operand.shape == Shape::Tile || operand.shape == Shape::Col;
  const bool batched = has_rows && batch.size() > 1 && array.shape.size() >= batch.size() &&
                       std::equal(batch.begin(), batch.end(), array.shape.begin());
  return batched ? join_leading(std::move(array), static_cast<int>(batch.size()), place, access) : array;
}

// A new output, bound to `ready` and appended to what is returned.
void make_output(const Operand& operand, const Target& target, Ready& ready) {
  const Extents shape = operand_shape(operand, target.rows, target.cols);
  const DType dtype = operand.partials ? DType::F32 : operand.dtype.value_or(target.dtype);
  const bool has_rows = operand.shape == Shape::Tile || operand.shape == Shape::Col;
  Extents outer = shape;
  if (has_rows && target.batch.size() > 1) {
    outer = target.batch;
    outer.insert(outer.end(), shape.begin() + 1, shape.end());
  }
  if (target.framework == Framework::Torch) {
    const nb::object tensor = empty_torch(outer, dtype, target.device);
    ready.outputs.append(tensor);
    ready.operands.push_back({operand.name, TensorView(data_of_torch(tensor), dtype, shape, target.device)});
    return;
  }
  const Tensor tensor = Tensor::empty(shape, dtype);
  ready.operands.push_back({operand.name, tensor.view()});
  ready.outputs.append(export_tensor(tensor, outer, target.framework));
}

// A number given for a Scalar operand, where the other operands are.
void bind_number(const Operand& operand, double number, const Target& target, Ready& ready) {
  const DType dtype = operand.dtype.value_or(DType::F32);
  if (target.device.kind == DeviceKind::Cuda) {
    const Place place{"gemm", operand_name(operand)};
    ready.held.push_back(import_array(scalar_on_gpu(number, dtype, target.device), place));
    ready.operands.push_back({operand.name, ready.held.back().view()});
    return;
  }
  const Tensor scalar = Tensor::from({}, {&number, 1}, dtype);
  ready.held.push_back({.owner = export_tensor(scalar, {}, Framework::Numpy)});
  ready.operands.push_back({operand.name, scalar.view()});
}

Given nothing_of(const Program& program) {
  const std::size_t count = program.operands().size();
  return {program, std::vector<nb::object>(count), std::vector<std::optional<Array>>(count), {}};
}

void read_operand(std::string_view call, std::size_t at, nb::handle object, Given& given) {
  const Operand& operand = given.program.operand(static_cast<int>(at));
  given.objects[at] = nb::borrow(object);
  if (operand.shape == Shape::Scalar && operand.role == Role::Input && is_number(object)) return;
  const Access access = operand.role == Role::Input ? Access::Read : Access::Write;
  given.arrays[at] = import_array(object, {call, operand_name(operand)}, access);
}

}  // namespace

Given read_operands(std::string_view call, const Program& program, const nb::dict& operands) {
  Given given = nothing_of(program);
  for (const auto& [key, object] : operands) {
    if (object.is_none()) continue;
    const auto name = nb::cast<std::string>(key);
    const int index = program.find_operand(name);
    if (index < 0)
      given.unknown.push_back(name);
    else
      read_operand(call, static_cast<std::size_t>(index), object, given);
  }
  return given;
}

Given read_inputs(std::string_view call, const Program& program, std::span<const nb::object>& next) {
  Given given = nothing_of(program);
  for (std::size_t i = 0; i < given.objects.size(); ++i) {
    const Operand& operand = program.operand(static_cast<int>(i));
    if (operand.role == Role::Output) continue;
    REQUIRE(ValueError, !next.empty(), call, ": ", operand_name(operand), " of program '", program.name(),
            "' is missing, expected a tensor for each operand that is no output, in the program's order");
    read_operand(call, i, next.front(), given);
    next = next.subspan(1);
  }
  return given;
}

Ready make_ready(std::string_view call, Given given, const Target& target) {
  Ready ready;
  for (const std::string& name : given.unknown) ready.operands.push_back({name, TensorView()});
  for (std::size_t i = 0; i < given.objects.size(); ++i) {
    const Operand& operand = given.program.operand(static_cast<int>(i));
    const nb::object& object = given.objects[i];
    if (given.arrays[i]) {
      const Access access = operand.role == Role::Input ? Access::Read : Access::Write;
      const Place place{call, operand_name(operand)};
      ready.held.push_back(without_batch(std::move(*given.arrays[i]), operand, target.batch, place, access));
      ready.operands.push_back({operand.name, ready.held.back().view()});
      if (operand.role != Role::Input) ready.outputs.append(object);
    } else if (object.is_valid()) {
      bind_number(operand, nb::cast<double>(object), target, ready);
    } else if (operand.role == Role::Output) {
      make_output(operand, target, ready);
    }
  }
  return ready;
}

}  // namespace coda::python
