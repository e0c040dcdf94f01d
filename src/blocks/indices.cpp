#include "blocks/indices.h"

#include <cstdlib>

#include "core/check.h"

namespace coda {
namespace {

/// The memory from the first to the last of the indices in the order of addresses, as one contiguous vector.
TensorView stretch_of(const TensorView& indices) {
  const std::int64_t step = indices.stride(0), last = indices.shape(0) - 1;
  auto* data = static_cast<char*>(indices.data());
  if (step < 0) data += last * step * static_cast<std::int64_t>(size_of(indices.dtype()));
  return {data, indices.dtype(), {last * std::abs(step) + 1}, indices.device()};
}

std::int64_t index_at(const TensorView& stretch, std::int64_t at) {
  return stretch.dtype() == DType::I32 ? static_cast<const std::int32_t*>(stretch.data())[at]
                                       : static_cast<const std::int64_t*>(stretch.data())[at];
}

}  // namespace

void require_indices(const Caller& caller, std::string_view name, const TensorView& indices) {
  const Home &home = caller.home, own{indices.device(), std::string(name)};
  require_shape({caller.name, own}, name, indices, {{-1, "T"}});
  REQUIRE(ValueError, indices.device().kind == DeviceKind::Cpu || indices.device() == home.device, caller.name, ": ",
          name, " is on ", device_text(indices.device()), ", expected cpu",
          home.device.kind == DeviceKind::Cpu ? "" : concat(" or ", device_text(home.device)), ", the device of ",
          home.owner, ": copy it there");
  REQUIRE(TypeError, is_integer(indices.dtype()), caller.name, ": ", name, " has dtype ", name_of(indices.dtype()),
          ", expected i32 or i64: it holds token numbers");
}

std::vector<std::int64_t> read_indices(const Caller& caller, std::string_view name, const TensorView& indices,
                                       const Execution& where) {
  require_indices(caller, name, indices);
  std::vector<std::int64_t> numbers;
  if (indices.size() == 0) return numbers;
  const TensorView given = stretch_of(indices);
  Tensor fetched;
  if (given.device().kind != DeviceKind::Cpu) fetched = Tensor::copy_to(given, {}, where.stream);
  const TensorView& stretch = given.device().kind == DeviceKind::Cpu ? given : fetched.view();
  const std::int64_t step = indices.stride(0);
  std::int64_t at = step < 0 ? stretch.shape(0) - 1 : 0;
  for (std::int64_t row = 0; row < indices.shape(0); ++row, at += step) numbers.push_back(index_at(stretch, at));
  return numbers;
}

Tensor indices_on(Device device, std::span<const std::int64_t> indices, const Execution& where) {
  const TensorView view(const_cast<std::int64_t*>(indices.data()), DType::I64,
                        {static_cast<std::int64_t>(indices.size())});
  return Tensor::copy_to(view, device, where.stream);
}

std::vector<std::int64_t> read_targets(const Caller& caller, const TensorView& targets, std::int64_t rows,
                                       std::int64_t vocabulary, std::int64_t ignore_index, const Execution& where) {
  require_indices(caller, "targets", targets);
  require_shape({caller.name, {targets.device(), "targets"}}, "targets", targets, {{rows, "T"}});
  std::vector<std::int64_t> numbers = read_indices(caller, "targets", targets, where);
  for (std::size_t row = 0; row < numbers.size(); ++row)
    REQUIRE(IndexError, numbers[row] == ignore_index || (0 <= numbers[row] && numbers[row] < vocabulary), caller.name,
            ": target ", numbers[row], " in row ", row, " is outside the vocabulary, expected 0 to ", vocabulary - 1,
            " or ignore_index ", ignore_index);
  return numbers;
}

}  // namespace coda
