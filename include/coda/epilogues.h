// The library of named programs. One file each in src/library/epilogues/; docs/epilogues.md tells the mathematics and
// where the roundings fall.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coda/activations.h"
#include "coda/program.h"

namespace coda::epilogues {

/// How a norm's weight γ enters: as it is, as 1 + γ (Gemma), or not at all.
enum class NormWeight : std::uint8_t { Gamma, OnePlusGamma, None };

/// The row factor r = rsqrt(Σ/count + eps) of an RMSNorm, from the partial sums `sum_sq` a residual_rms left.
/// The norm is delayed: r commutes with the matrix product, so it is applied to the accumulator.
struct DelayedRms {
  std::int64_t count = 0;  ///< width of the norm (d)
  double eps = 1e-6;
};

/// Rotary embedding: which columns pair up, and where the angles come from.
struct Rope {
  std::int64_t head = 0;   ///< head width in columns; divides N, so grouped-query widths all work
  std::int64_t width = 0;  ///< rotated columns at the start of each head; 0: the whole head
  bool interleaved = false;
  enum class Angles : std::uint8_t {
    Base,       ///< position · base^(−2p/width), position from operand `positions` (M,)
    Frequency,  ///< position · frequency[p], operands `positions` (M,) and `frequencies` (width/2,)
    Table,      ///< operands `cos` and `sin`, (M, width/2)
  } angles = Angles::Base;
  double base = 10000.0;
  double scale = 1.0;  ///< multiplies both cos and sin (YaRN's attention factor)
};

/// out = acc
Program identity();
/// out = activation(acc + bias); without an activation's name, acc + bias
Program bias(const std::string& activation = "");
/// out = alpha·acc, alpha a Scalar operand
Program scale();
/// out = acc + residual
Program residual();
/// out = σ(acc)
Program sigmoid();
/// x = acc (+ bias) + residual; h = x·γ; sum_sq = partial Σx² (of the unrounded x) over each `partial_width` columns.
/// Without a weight there is no h: x itself enters the next product.
struct ResidualRms {
  NormWeight weight = NormWeight::Gamma;
  std::int64_t partial_width = 64;
  bool bias = false;
};
Program residual_rms(const ResidualRms& options = {});
/// out = acc·r (+ bias)
struct Rms {
  DelayedRms norm{};
  bool bias = false;
};
Program rms(const Rms& options);
/// out = gate(acc0, acc1) of a Pair factor; stores gate and up too when `save_inputs`
struct Gated {
  std::string gate = "swiglu";
  std::optional<ClampedSwiglu> clamped{};  ///< instead of `gate`
  bool bias = false;                       ///< operands gate_bias and up_bias, added before the gate
  bool save_inputs = false;                ///< outputs gate and up
};
Program gated(const Gated& options = {});
/// gated with both accumulators multiplied by r first
struct RmsGated {
  DelayedRms norm{};
  Gated gated{};
};
Program rms_gated(const RmsGated& options);
/// out = rope(acc (+ bias))
struct RopeEpilogue {
  Rope rope{};
  bool bias = false;
};
Program rope(const RopeEpilogue& options);
/// out = rope(acc·r (+ bias))
struct RmsRope {
  DelayedRms norm{};
  Rope rope{};
  bool bias = false;
};
Program rms_rope(const RmsRope& options);
/// out = rope(head_norm(z)·γ) with z = acc (·r), head_norm over each head; stores z too when `save_inputs`
struct QkNormRope {
  std::optional<DelayedRms> norm{};  ///< the layer's delayed norm, before the heads' own
  Rope rope{};
  NormWeight weight = NormWeight::Gamma;  ///< γ has one entry a column of the head
  double eps = 1e-6;
  bool bias = false;
  bool save_inputs = false;
};
Program qk_norm_rope(const QkNormRope& options);
/// lse = partial log Σ exp over each `partial_width` columns (online maximum); target = the entry in fp32 of the column
/// that operand `targets` (M,) names, 0 where it is `ignore_index`. Stores the logits too when `store_logits`.
struct Lse {
  std::int64_t partial_width = 64;
  std::int64_t ignore_index = -100;
  bool store_logits = false;
};
Program lse(const Lse& options = {});
/// lse of acc·r
struct RmsLse {
  DelayedRms norm{};
  Lse lse{};
};
Program rms_lse(const RmsLse& options);

/// The elementwise start of a chain: x (M,d) → h = x·γ, sum_sq = partial Σx². No accumulator.
struct RmsEntry {
  NormWeight weight = NormWeight::Gamma;
  std::int64_t partial_width = 64;
};
Program rms_entry(const RmsEntry& options = {});

/// A program with representative options and the name of its golden text.
struct Entry {
  std::string name;
  Program program;
};
/// Every program of the library at representative options: what tests, goldens and kernel checks loop over.
const std::vector<Entry>& library();

}  // namespace coda::epilogues
