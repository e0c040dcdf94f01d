// Partial reductions of rows and columns: how wide, and what makes fewer of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "coda/backend.h"
#include "coda/main_gradient.h"
#include "coda/program.h"
#include "coda/tensor.h"

namespace coda {

/// Partials a load finishes.
inline constexpr std::int64_t kMaxPartials = 64;

/// The partial width that leaves at most kMaxPartials for `columns`.
std::int64_t partial_width_for(std::int64_t columns);
std::int64_t partial_count_for(std::int64_t columns);

/// The same, or the widest that kernels of the device reduce: then `few_enough` must follow.
std::int64_t row_partial_width(std::int64_t columns, Device device);

/// Row partials (rows, count), each of `width` columns of the given ones.
Tensor fewer_partials(const TensorView& partials, Reduction op, std::int64_t width, const Execution& where);

/// The partials, or as few of them as a load finishes.
Tensor few_enough(const Tensor& partials, Reduction op, const Execution& where);

/// Partial row sums of several tiles side by side: a load of all of them finishes the sum over all tiles.
class RowSums {
 public:
  /// `cols`: the columns of each tile. `head`: what an entry covers whole heads of.
  RowSums(std::int64_t rows, const std::vector<std::int64_t>& cols, Device device, const Execution& where,
          std::int64_t head = 1);

  std::int64_t width() const { return width_; }
  /// Where tile `index` leaves its sums.
  TensorView part(std::size_t index) const;
  Tensor finished(const Execution& where) const { return few_enough(all_, Reduction::Sum, where); }

 private:
  std::int64_t width_;
  std::vector<std::int64_t> ends_;
  Tensor all_;
};

/// Rows an entry of the column partials of `rows` rows covers, and how many there are.
inline constexpr std::int64_t kColPartialWidth = 64;
std::int64_t col_partial_count(std::int64_t rows);

/// into (n,) += the sums over all rows of partials (count, n), in a fixed order; all in one launch, but for what makes
/// fewer partials where a load does not finish them.
struct ColSum {
  TensorView partials;
  MainGradient into;
};
void add_col_sums(const std::vector<ColSum>& sums, const Execution& where);

}  // namespace coda
