#include "library/pieces.h"

namespace coda::epilogues {

Program qk_norm_rope(const QkNormRope& options) {
  const std::string_view call = "qk_norm_rope";
  Builder b(options.norm ? "rms_qk_norm_rope" : "qk_norm_rope");
  require_head(call, options.rope);
  const Value acc = b.acc();
  const Value scaled = options.norm ? acc * row_factor(b, call, *options.norm) : acc;
  const Value z = biased(b, scaled, options.bias).named("z");
  if (options.save_inputs) b.store("z", z);
  const Value normed = head_normed(call, z, options.rope.head, options.eps);
  const Value weighted_head = weighted(b, normed, options.weight, options.rope.head);
  b.store("out", rotated(b, call, weighted_head, options.rope).named("out"));
  return b.build();
}

}  // namespace coda::epilogues
