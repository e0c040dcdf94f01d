// What src/cuda/device/ptx.cuh gives the text of an epilogue, in plain C++: kernels then run on the CPU. Stands in its
// place when a kernel is compiled for the emulated GPU.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fibers.cuh"

#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

using std::max;
using std::min;

inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __int_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __frcp_rn(float a) { return 1.f / a; }
inline float rsqrtf(float a) { return 1.f / std::sqrt(a); }

namespace coda {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

struct alignas(64) TensorMap {
  char opaque[128];
};

inline u32 lane_id() { return fibers::thread.x % 32; }
inline float settled(float value) { return value; }

inline float min_keeping_nan(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b); }
inline float max_keeping_nan(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b); }

inline float exp2_approx(float a) { return std::exp2(a); }
inline float reciprocal_approx(float a) { return 1.f / a; }
inline float sin_approx(float a) { return std::sin(a); }
inline float cos_approx(float a) { return std::cos(a); }

inline u32 rounded_bf16(float value) {
  const u32 bits = std::bit_cast<u32>(value);
  if (std::isnan(value)) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline u32 pack_bf16(float low, float high) { return rounded_bf16(low) | rounded_bf16(high) << 16; }
inline u32 pack_f16(float low, float high) {
  return std::bit_cast<u16>(static_cast<_Float16>(low)) |
         static_cast<u32>(std::bit_cast<u16>(static_cast<_Float16>(high))) << 16;
}
inline float low_bf16(u32 packed) { return __uint_as_float(packed << 16); }
inline float high_bf16(u32 packed) { return __uint_as_float(packed & 0xffff0000u); }
inline float low_f16(u32 packed) { return static_cast<float>(std::bit_cast<_Float16>(static_cast<u16>(packed))); }
inline float high_f16(u32 packed) { return low_f16(packed >> 16); }

}  // namespace coda
