// Cross entropy of the head: the product leaves log-sum-exp partials and the target's logit of each token; passes over
// them finish the loss of each. In parts, for all tokens at once or for some of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "blocks/arguments.h"

namespace coda {

struct Head {
  const NormedStream& stream;
  const RmsNorm& norm;
  const TensorView& weight;
  std::int64_t ignore_index;
};

/// The targets, read by the host and where the head runs. Errors: ValueError, TypeError, IndexError, those of the
/// head's arguments too.
class HeadTargets {
 public:
  HeadTargets(const Caller& caller, const Head& head, const TensorView& targets, const Execution& where);

  std::vector<std::int64_t> numbers;
  TensorView view;

 private:
  Tensor moved_;
};

/// Some of the tokens, by the targets and results of all of them.
struct HeadRows {
  std::int64_t start, stop;
  TensorView targets;                ///< (T,)
  TensorView per_token;              ///< (T,) f32, written
  std::optional<TensorView> logits;  ///< of these tokens alone, written

  TensorView of(const TensorView& all) const { return all.slice(0, start, stop); }
};

/// Program of the product.
Program head_program(const Head& head, bool store_logits);

/// The product and the loss of each token; gives as many log-sum-exp partials as a load finishes.
Tensor run_head(const Head& head, const HeadRows& rows, const Execution& where);

/// The loss of all tokens, with 0 for those that are ignored.
Loss reduced_loss(const Tensor& per_token, std::span<const std::int64_t> targets, LossReduction reduction,
                  std::int64_t ignore_index, const Execution& where);

}  // namespace coda
