// What the backwards of the blocks share: checks, column sums, products that add to main gradients.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "blocks/arguments.h"
#include "coda/differentiate.h"
#include "coda/problem.h"
#include "coda/training.h"

namespace coda {

/// Errors: ValueError, TypeError unless a main gradient has the shape of the parameter and f32 or its dtype. `what`
/// names it; require_main names "into.<name>".
void require_gradient(const Caller& caller, std::string_view what, const TensorView& gradient,
                      const TensorView& parameter);
void require_main(const Caller& caller, std::string_view name, const MainGradient& into, const TensorView& parameter);

/// Errors: ValueError unless x and sum_sq fit together; gives the caller at home where x is.
Caller require_saved(std::string_view call, const SavedStream& stream);

/// The operands that the program has: what a derived program reads depends on what was asked of it.
Operands used(const Program& program, const Operands& all);

/// What a backward is asked for: `always`, and the names whose gradient is wanted.
struct Wish {
  std::string_view name;
  const MainGradient& into;
};
std::vector<std::string> wrt_of(std::vector<std::string> always, std::initializer_list<Wish> wishes);

/// The gradients by rows: the program leaves partial sums of each column over kColPartialWidth rows, add() sums all of
/// them up in one launch.
class ColGradients {
 public:
  ColGradients(std::int64_t rows, Device device, const Execution& where)
      : rows_(rows), device_(device), where_(where) {}

  /// Binds output "d_<name>" of a program `cols` wide, if it is wanted. A shorter gradient is that of a row which
  /// repeats.
  void bind(Operands& operands, const std::string& name, std::int64_t cols, const MainGradient& into);
  void add() const;

 private:
  std::int64_t rows_;
  Device device_;
  const Execution& where_;
  std::vector<Tensor> made_;
  std::vector<ColSum> sums_;
};

/// What makes the gradient by sum_sq of the row sums the backward of a stream's reader leaves.
const Program& finish_of(const Backward& reader);

/// into += dzᵀ·norm(x) of each projection, but for the rows' factor, which dz has already: one product, γ in its
/// epilogue. Those without a main gradient are left out.
struct NormedWeight {
  TensorView dz;  ///< (T,n)
  const MainGradient& into;
};
void add_normed_weight_gradients(std::initializer_list<NormedWeight> weights, const TensorView& x, const RmsNorm& norm,
                                 const Execution& where);

}  // namespace coda
