#include "blocks/indices.h"

#include "blocks/arguments.h"
#include "core/check.h"

namespace coda {

void require_indices(std::string_view call, std::string_view name, const TensorView& indices) {
  require_shape(call, name, indices, {{-1, "T"}});
  REQUIRE(TypeError, is_integer(indices.dtype()), call, ": ", name, " has dtype ", name_of(indices.dtype()),
          ", expected i32 or i64: it holds token numbers");
}

std::int64_t index_at(const TensorView& indices, std::int64_t row) {
  const std::int64_t at = row * indices.stride(0);
  return indices.dtype() == DType::I32 ? static_cast<const std::int32_t*>(indices.data())[at]
                                       : static_cast<const std::int64_t*>(indices.data())[at];
}

void check_targets(std::string_view call, const TensorView& targets, std::int64_t rows, std::int64_t vocabulary,
                   std::int64_t ignore_index) {
  require_indices(call, "targets", targets);
  require_shape(call, "targets", targets, {{rows, "T"}});
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t target = index_at(targets, row);
    REQUIRE(IndexError, target == ignore_index || (0 <= target && target < vocabulary), call, ": target ", target,
            " in row ", row, " is outside the vocabulary, expected 0 to ", vocabulary - 1, " or ignore_index ",
            ignore_index);
  }
}

}  // namespace coda
