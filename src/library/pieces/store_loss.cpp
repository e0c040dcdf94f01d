#include "library/pieces.h"

namespace coda::epilogues {

void store_loss(Builder& b, std::string_view call, const Value& z, const Lse& options) {
  require_partial_width(call, call == "lse" ? "partial_width" : "lse.partial_width", options.partial_width);
  const Value logits = z.named("logits");
  if (options.store_logits) b.store("logits", logits);
  b.store("lse", reduce_row(logits, Reduction::LogSumExp, options.partial_width).named("lse"));
  const Value targets = b.load_col("targets").named("targets");
  const Value target = select_col(logits, targets, options.ignore_index).named("target");
  b.store("target", target, {.dtype = DType::F32});
}

}  // namespace coda::epilogues
