// Attention that leaves its log-sum-exp, and its backward: checks, then one sequence after the other.
#include "coda/training.h"

#include "blocks/attention/attention.h"
#include "core/check.h"
#include "cuda/launch/blocks.h"

namespace coda {
namespace {

Caller check(std::string_view call, const TensorView& q, const TensorView& k, const TensorView& v,
             const AttentionShape& shape) {
  const Caller caller = attention::check(call, q, k, v, shape.heads, shape.kv_heads, shape.scale);
  REQUIRE(ValueError, k.shape(0) == q.shape(0), call, ": k has ", k.shape(0), " rows, expected ", q.shape(0),
          ", those of q: training has no cache");
  REQUIRE(ValueError, shape.sequences > 0 && q.shape(0) % shape.sequences == 0, call, ": q has ", q.shape(0),
          " rows, expected a multiple of ", shape.sequences, " sequences, at least 1, of equal length");
  return caller;
}

/// Rows of one sequence.
TensorView part(const TensorView& view, std::int64_t sequence, std::int64_t tokens) {
  return view.slice(0, sequence * tokens, (sequence + 1) * tokens);
}

/// What the device's attention takes: the kernels of a GPU any strides.
TensorView taken(const TensorView& view, Tensor& copy) {
  return view.device().kind == DeviceKind::Cuda ? view : attention::with_contiguous_columns(view, copy);
}

/// The call on all rows, and copies that keep its views alive.
struct Whole {
  attention::Call call;
  Tensor copies[3];

  Whole(const TensorView& q, const TensorView& k, const TensorView& v, const SavedAttention& saved,
        const AttentionShape& shape) {
    call.q = taken(q, copies[0]);
    call.k = taken(k, copies[1]);
    call.v = taken(v, copies[2]);
    call.out = saved.out;
    call.heads = shape.heads;
    call.kv_heads = shape.kv_heads;
    call.head = q.shape(1) / shape.heads;
    call.scale = attention::scale_of(shape.scale, call.head);
    call.lse = saved.lse;
  }

  attention::Call sequence(std::int64_t index, std::int64_t tokens) const {
    attention::Call one = call;
    for (TensorView* view : {&one.q, &one.k, &one.v, &one.out, &one.lse}) *view = part(*view, index, tokens);
    return one;
  }
};

cuda::Attention on_gpu(const attention::Call& call) {
  return {call.q, call.k, call.v, call.out, call.heads, call.kv_heads, call.scale, call.lse};
}

}  // namespace

SavedAttention causal_attention_saved(const TensorView& q, const TensorView& k, const TensorView& v,
                                      const AttentionShape& shape, const Execution& where) {
  constexpr std::string_view kCall = "causal_attention_saved";
  check(kCall, q, k, v, shape);
  const SavedAttention saved{Tensor::empty(q.shape(), q.dtype(), q.device(), where.stream),
                             Tensor::empty({q.shape(0), shape.heads}, DType::F32, q.device(), where.stream)};
  const Whole whole(q, k, v, saved, shape);
  const std::int64_t tokens = q.shape(0) / shape.sequences;
  for (std::int64_t i = 0; i < shape.sequences && tokens > 0; ++i) {
    const attention::Call one = whole.sequence(i, tokens);
    if (q.device().kind == DeviceKind::Cuda)
      cuda::launch_attention(kCall, on_gpu(one), where.stream);
    else
      attention::run_blocked(one);
  }
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
  for (const auto& [name, view] : {std::pair("d_out", d_out), std::pair("saved.out", saved.out.view())})
    REQUIRE(TypeError, view.dtype() == q.dtype(), kCall, ": ", name, " has dtype ", name_of(view.dtype()),
            ", expected ", name_of(q.dtype()), ", that of q");
  REQUIRE(TypeError, saved.lse.view().dtype() == DType::F32, kCall, ": saved.lse has dtype ",
          name_of(saved.lse.view().dtype()), ", expected f32, as causal_attention_saved left it");
  const auto result = [&](const TensorView& like) {
    return Tensor::empty(like.shape(), like.dtype(), like.device(), where.stream);
  };
  Qkv d{result(q), result(k), result(v)};
  const bool is_on_gpu = q.device().kind == DeviceKind::Cuda;
  Tensor copy, means;
  if (is_on_gpu) means = Tensor::empty({q.shape(0), shape.heads}, DType::F32, q.device(), where.stream);
  const Whole whole(q, k, v, saved, shape);
  const TensorView d_taken = taken(d_out, copy);
  const std::int64_t tokens = q.shape(0) / shape.sequences;
  for (std::int64_t i = 0; i < shape.sequences && tokens > 0; ++i) {
    const attention::BackwardCall one{whole.sequence(i, tokens), part(d_taken, i, tokens), part(d.q, i, tokens),
                                      part(d.k, i, tokens), part(d.v, i, tokens)};
    if (is_on_gpu)
      cuda::launch_attention_backward(
          kCall, {on_gpu(one.forward), one.d_out, one.d_q, one.d_k, one.d_v, part(means, i, tokens)}, where.stream);
    else
      attention::run_backward(one);
  }
  return d;
}

}  // namespace coda
