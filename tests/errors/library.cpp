// Mistakes in the options of activations and library programs, and the sentence each gets.
#include <limits>

#include "coda/epilogues.h"
#include "support/error_row.h"

namespace coda::epilogues {
namespace {

using testing_support::expect_errors;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DelayedRms kNorm{.count = 576, .eps = 1e-5};
constexpr Rope kRope{.head = 64};

TEST(LibraryErrors, Names) {
  expect_errors({
      {typeid(ValueError),
       "activation: 'swish' is not known, expected one of silu, gelu, gelu_tanh, quick_gelu, relu, relu_squared, "
       "sigmoid",
       [] { bias("swish"); }},
      {typeid(ValueError),
       "gate: 'silu' is not known, expected one of swiglu, geglu, geglu_tanh, reglu, glu, clamped_swiglu",
       [] { gated({.gate = "silu"}); }},
      {typeid(ValueError),
       "gate: '' is not known, expected one of swiglu, geglu, geglu_tanh, reglu, glu, clamped_swiglu",
       [] { rms_gated({kNorm, {.gate = ""}}); }},
  });
}

TEST(LibraryErrors, ClampedSwiglu) {
  expect_errors({
      {typeid(ValueError), "clamped_swiglu: limit is 0, expected a number above 0, or inf for no clamping",
       [] { gated({.clamped = ClampedSwiglu{.limit = 0}}); }},
      {typeid(ValueError), "clamped_swiglu: limit is nan, expected a number above 0, or inf for no clamping",
       [] { gated({.clamped = ClampedSwiglu{.limit = kNaN}}); }},
      {typeid(ValueError), "clamped_swiglu: alpha is nan, expected a finite number",
       [] { gated({.clamped = ClampedSwiglu{.alpha = kNaN}}); }},
      {typeid(ValueError), "clamped_swiglu: beta is inf, expected a finite number",
       [] { rms_gated({kNorm, {.clamped = ClampedSwiglu{.beta = kInf}}}); }},
  });
}

TEST(LibraryErrors, Norms) {
  expect_errors({
      {typeid(ValueError),
       "rms: norm.count is 0, expected the width of the norm, above 0: the sum of squares is divided by it",
       [] { rms({}); }},
      {typeid(ValueError),
       "rms_gated: norm.count is -576, expected the width of the norm, above 0: the sum of squares is divided by it",
       [] { rms_gated({{.count = -576}, {}}); }},
      {typeid(ValueError),
       "rms_rope: norm.eps is -1e-06, expected a finite number, 0 or above: it is added to a mean square",
       [] { rms_rope({{.count = 576, .eps = -1e-6}, kRope}); }},
      {typeid(ValueError),
       "rms_lse: norm.eps is nan, expected a finite number, 0 or above: it is added to a mean square",
       [] { rms_lse({{.count = 576, .eps = kNaN}, {}}); }},
      {typeid(ValueError),
       "qk_norm_rope: norm.count is 0, expected the width of the norm, above 0: the sum of squares is divided by it",
       [] { qk_norm_rope({.norm = DelayedRms{}, .rope = kRope}); }},
      {typeid(ValueError),
       "qk_norm_rope: eps is inf, expected a finite number, 0 or above: it is added to a mean square",
       [] { qk_norm_rope({.rope = kRope, .eps = kInf}); }},
  });
}

TEST(LibraryErrors, PartialWidths) {
  expect_errors({
      {typeid(ValueError),
       "residual_rms: partial_width is 63, expected a multiple of 64 columns, above 0: a partial result covers whole "
       "tiles",
       [] { residual_rms({.partial_width = 63}); }},
      {typeid(ValueError),
       "rms_entry: partial_width is 0, expected a multiple of 64 columns, above 0: a partial result covers whole tiles",
       [] { rms_entry({.partial_width = 0}); }},
      {typeid(ValueError),
       "lse: partial_width is -64, expected a multiple of 64 columns, above 0: a partial result covers whole tiles",
       [] { lse({.partial_width = -64}); }},
      {typeid(ValueError),
       "rms_lse: lse.partial_width is 100, expected a multiple of 64 columns, above 0: a partial result covers whole "
       "tiles",
       [] { rms_lse({kNorm, {.partial_width = 100}}); }},
  });
}

TEST(LibraryErrors, RopeWidths) {
  expect_errors({
      {typeid(ValueError), "rope: rope.head is 0, expected the width of one head in columns, above 0",
       [] { rope({}); }},
      {typeid(ValueError), "rms_rope: rope.head is -64, expected the width of one head in columns, above 0",
       [] { rms_rope({kNorm, {.head = -64}}); }},
      {typeid(ValueError), "qk_norm_rope: rope.head is 0, expected the width of one head in columns, above 0",
       [] { qk_norm_rope({}); }},
      {typeid(ValueError),
       "rope: rope.width is 31, expected an even number: columns rotate in pairs; choose an even rope.width below "
       "rope.head (64) to leave columns unrotated",
       [] { rope({{.head = 64, .width = 31}}); }},
      {typeid(ValueError),
       "rope: rope.width is 31, expected an even number: columns rotate in pairs; choose an even rope.width below "
       "rope.head (64) to leave columns unrotated",
       [] { rope({{.head = 64, .width = 31, .interleaved = true}}); }},
      {typeid(ValueError),
       "rms_rope: rope.width is 63, expected an even number: columns rotate in pairs; choose an even rope.width below "
       "rope.head (63) to leave columns unrotated",
       [] { rms_rope({kNorm, {.head = 63}}); }},
      {typeid(ValueError),
       "rope: rope.width is 66, expected 0 (the whole head) to 64 (rope.head): only columns of the head rotate",
       [] { rope({{.head = 64, .width = 66}}); }},
      {typeid(ValueError),
       "rope: rope.width is -2, expected 0 (the whole head) to 64 (rope.head): only columns of the head rotate",
       [] { rope({{.head = 64, .width = -2}}); }},
  });
}

TEST(LibraryErrors, RopeAngles) {
  expect_errors({
      {typeid(ValueError), "rope: rope.base is 0, expected a finite number above 0, such as 10000",
       [] { rope({{.head = 64, .base = 0}}); }},
      {typeid(ValueError), "rope: rope.base is nan, expected a finite number above 0, such as 10000",
       [] { rope({{.head = 64, .base = kNaN}}); }},
      {typeid(ValueError), "qk_norm_rope: rope.scale is inf, expected a finite number",
       [] { qk_norm_rope({.rope = {.head = 64, .scale = kInf}}); }},
  });
}

}  // namespace
}  // namespace coda::epilogues
