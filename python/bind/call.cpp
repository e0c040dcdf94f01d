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
    const auto data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(tensor.attr("data_ptr")()));
    ready.operands.push_back({operand.name, TensorView(data, dtype, shape, target.device)});
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

}  // namespace

Given read_operands(std::string_view call, const Program& program, const nb::dict& operands) {
  const std::size_t count = program.operands().size();
  Given given{program, std::vector<nb::object>(count), std::vector<std::optional<Array>>(count), {}};
  for (const auto& [key, object] : operands) {
    if (object.is_none()) continue;
    const auto name = nb::cast<std::string>(key);
    const int index = program.find_operand(name);
    if (index < 0) {
      given.unknown.push_back(name);
      continue;
    }
    const Operand& operand = program.operand(index);
    const auto at = static_cast<std::size_t>(index);
    given.objects[at] = nb::borrow(object);
    if (operand.shape == Shape::Scalar && operand.role == Role::Input && is_number(object)) continue;
    const Access access = operand.role == Role::Input ? Access::Read : Access::Write;
    given.arrays[at] = import_array(object, {call, operand_name(operand)}, access);
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
