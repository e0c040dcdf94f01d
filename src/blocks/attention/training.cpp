// Attention that leaves its log-sum-exp, and its backward: checks, then one sequence after the other.
#include "coda/training.h"

#include "blocks/attention/attention.h"
#include "core/check.h"

namespace coda {
namespace {

Caller check(std::string_view call, const TensorView& q, const TensorView& k, const TensorView& v,
             const AttentionShape& shape) {
  const Caller caller = attention::check(call, q, k, v, shape.heads, shape.kv_heads, shape.scale);
  REQUIRE(ValueError, k.shape(0) == q.shape(0), call, ": k has ", k.shape(0), " rows, expected ", q.shape(0),
          ", those of q: training has no cache");
  REQUIRE(ValueError, shape.sequences > 0 && q.shape(0) % shape.sequences == 0, call, ": q has ", q.shape(0),
          " rows, expected a multiple of ", shape.sequences, " sequences, at least 1, of equal length");
  REQUIRE(NotImplementedError, q.device().kind == DeviceKind::Cpu, call, ": q is on ", device_text(q.device()),
          ", expected cpu: there is no attention for training on a GPU yet");
  return caller;
}

/// Rows of one sequence.
TensorView part(const TensorView& view, std::int64_t sequence, std::int64_t tokens) {
  return view.slice(0, sequence * tokens, (sequence + 1) * tokens);
}

/// The call on all rows, and copies that keep its views alive.
struct Whole {
  attention::Call call;
  Tensor copies[4];

  Whole(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionShape& shape) {
    call.q = attention::with_contiguous_columns(q, copies[0]);
    call.k = attention::with_contiguous_columns(k, copies[1]);
    call.v = attention::with_contiguous_columns(v, copies[2]);
    call.heads = shape.heads;
    call.kv_heads = shape.kv_heads;
    call.head = q.shape(1) / shape.heads;
    call.scale = attention::scale_of(shape.scale, call.head);
  }

  attention::Call sequence(std::int64_t index, std::int64_t tokens) const {
    attention::Call one = call;
    for (TensorView* view : {&one.q, &one.k, &one.v, &one.out, &one.lse}) *view = part(*view, index, tokens);
    return one;
  }
};

}  // namespace

SavedAttention causal_attention_saved(const TensorView& q, const TensorView& k, const TensorView& v,
                                      const AttentionShape& shape, const Execution& where) {
  check("causal_attention_saved", q, k, v, shape);
  const SavedAttention saved{Tensor::empty(q.shape(), q.dtype(), q.device(), where.stream),
                             Tensor::empty({q.shape(0), shape.heads}, DType::F32, q.device(), where.stream)};
  Whole whole(q, k, v, shape);
  whole.call.out = saved.out;
  whole.call.lse = saved.lse;
  const std::int64_t tokens = q.shape(0) / shape.sequences;
  for (std::int64_t i = 0; i < shape.sequences && tokens > 0; ++i) attention::run_blocked(whole.sequence(i, tokens));
  return saved;
}

Qkv causal_attention_backward(const TensorView& d_out, const TensorView& q, const TensorView& k, const TensorView& v,
                              const SavedAttention& saved, const AttentionShape& shape, const Execution& where) {
  constexpr std::string_view kCall = "causal_attention_backward";
  const Caller caller = check(kCall, q, k, v, shape);
  const Extent rows{q.shape(0), "T"}, cols{q.shape(1), "heads·head"};
  require_shape(caller, "d_out", d_out, {rows, cols});
  require_shape(caller, "saved.out", saved.out, {rows, cols});
  require_shape(caller, "saved.lse", saved.lse, {rows, {shape.heads, "heads"}});
  REQUIRE(TypeError, d_out.dtype() == q.dtype(), kCall, ": d_out has dtype ", name_of(d_out.dtype()), ", expected ",
          name_of(q.dtype()), ", that of q");
  const auto result = [&](const TensorView& like) {
    return Tensor::empty(like.shape(), like.dtype(), like.device(), where.stream);
  };
  Qkv d{result(q), result(k), result(v)};
  Whole whole(q, k, v, shape);
  whole.call.out = saved.out;
  whole.call.lse = saved.lse;
  const TensorView d_contiguous = attention::with_contiguous_columns(d_out, whole.copies[3]);
  const std::int64_t tokens = q.shape(0) / shape.sequences;
  for (std::int64_t i = 0; i < shape.sequences && tokens > 0; ++i)
    attention::run_backward({whole.sequence(i, tokens), part(d_contiguous, i, tokens), part(d.q, i, tokens),
                             part(d.k, i, tokens), part(d.v, i, tokens)});
  return d;
}

}  // namespace coda
