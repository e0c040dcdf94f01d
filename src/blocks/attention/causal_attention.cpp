// Checks, then one of the two ways to run on the CPU, or the kernel of a GPU.
#include <cmath>

#include "blocks/arguments.h"
#include "blocks/attention/attention.h"
#include "coda/blocks.h"
#include "core/check.h"
#include "cuda/launch/blocks.h"

namespace coda {
namespace attention {

Caller check(std::string_view call, const TensorView& q, const TensorView& k, const TensorView& v, std::int64_t heads,
             std::int64_t kv_heads, double scale) {
  REQUIRE(ValueError, heads > 0 && kv_heads > 0 && heads % kv_heads == 0, call, ": got ", heads, " heads and ",
          kv_heads, " kv_heads, expected heads to be a multiple of kv_heads, both above 0");
  const Caller caller{call, {q.device(), "q"}};
  require_shape(caller, "q", q, {{-1, "T"}, {-1, "heads·head"}});
  REQUIRE(ValueError, q.shape(1) > 0 && q.shape(1) % heads == 0, call, ": q has shape ", shape_text(q.shape()),
          ", expected columns that are a multiple of heads = ", heads, ": every head is whole");
  const Extent columns{q.shape(1) / heads * kv_heads, "kv_heads·head"};
  require_shape(caller, "k", k, {{-1, "S"}, columns});
  require_shape(caller, "v", v, {{k.shape(0), "S, the rows of k"}, columns});
  REQUIRE(ValueError, k.shape(0) >= q.shape(0), call, ": k has ", k.shape(0), " rows and q has ", q.shape(0),
          ", expected at least as many keys as queries: the last query sees the last key");
  REQUIRE(TypeError, q.dtype() == DType::F32 || q.dtype() == DType::BF16 || q.dtype() == DType::F16, call,
          ": q has dtype ", name_of(q.dtype()), ", expected f32, bf16 or f16");
  REQUIRE(TypeError, k.dtype() == q.dtype() && v.dtype() == q.dtype(), call, ": q, k and v have dtypes ",
          name_of(q.dtype()), ", ", name_of(k.dtype()), " and ", name_of(v.dtype()), ", expected one for all");
  REQUIRE(ValueError, scale == 0 || (1e-30 <= scale && scale <= 1e30), call, ": scale is ", scale,
          ", expected a number from 1e-30 to 1e30, or 0 for 1/√head");
  return caller;
}

TensorView with_contiguous_columns(const TensorView& view, Tensor& copy) {
  if (view.shape(1) == 1 || view.stride(1) == 1) return view;
  copy = Tensor::copy(view, view.dtype());
  return copy;
}

double scale_of(double scale, std::int64_t head) {
  return scale == 0 ? 1 / std::sqrt(static_cast<double>(head)) : scale;
}

}  // namespace attention

Tensor causal_attention(const TensorView& q, const TensorView& k, const TensorView& v, std::int64_t heads,
                        std::int64_t kv_heads, double scale, const Execution& where) {
  constexpr std::string_view kCall = "causal_attention";
  attention::check(kCall, q, k, v, heads, kv_heads, scale);
  scale = attention::scale_of(scale, q.shape(1) / heads);
  Tensor out = Tensor::empty({q.shape(0), q.shape(1)}, q.dtype(), q.device(), where.stream);
  if (q.device().kind == DeviceKind::Cuda) {
    cuda::launch_attention(kCall, {q, k, v, out, heads, kv_heads, scale}, where.stream);
    return out;
  }
  Tensor copies[3];
  attention::Call call;
  call.q = attention::with_contiguous_columns(q, copies[0]);
  call.k = attention::with_contiguous_columns(k, copies[1]);
  call.v = attention::with_contiguous_columns(v, copies[2]);
  call.heads = heads;
  call.kv_heads = kv_heads;
  call.head = q.shape(1) / heads;
  call.scale = scale;
  call.out = out;
  if (call.tokens() == 1)
    attention::run_single(call);
  else
    attention::run_blocked(call);
  return out;
}

}  // namespace coda
