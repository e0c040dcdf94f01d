// The pointwise ops that CUDA has no one word for; src/ir/op_table.cpp defines what each means. min, max, clamp and
// relu keep NaN.
#pragma once

#include "ptx.cuh"

namespace coda {

__device__ __forceinline__ float square(float a) { return a * a; }
__device__ __forceinline__ float relu(float a) { return max_keeping_nan(a, 0.f); }
__device__ __forceinline__ float clamp(float a, float low, float high) {
  return min_keeping_nan(max_keeping_nan(a, low), high);
}

// 1 / (1 + 2^(−a·log2 e)): the exponential overflows to infinity for a < −128·ln 2, whose reciprocal is 0.
__device__ __forceinline__ float sigmoid(float a) { return __fdividef(1.f, 1.f + exp2f(-1.4426950408889634f * a)); }

// sin and cos of radians of any size a position makes: the angle is brought into ±π/4 in double, which multiplies at
// half the rate of float here, and needs no table in memory as the library's functions do.
struct Turn {
  float angle;   // the rest, in ±π/4
  int quarters;  // of a turn taken off
};
__device__ __forceinline__ Turn turn_of(float radians) {
  const double quarters = rint(static_cast<double>(radians) * 0.63661977236758134);
  return {static_cast<float>(fma(quarters, -1.5707963267948966, static_cast<double>(radians))),
          static_cast<int>(static_cast<i64>(quarters) & 3)};
}

__device__ __forceinline__ float small_sin(float x) {
  const float y = x * x;
  return x + x * y * (-1.6666654611e-1f + y * (8.3321608736e-3f + y * -1.9515295891e-4f));
}
__device__ __forceinline__ float small_cos(float x) {
  const float y = x * x;
  return 1.f - 0.5f * y + y * y * (4.166664568298827e-2f + y * (-1.388731625493765e-3f + y * 2.443315711809948e-5f));
}

__device__ __forceinline__ float sin_of(float radians) {
  const Turn turn = turn_of(radians);
  const float value = turn.quarters & 1 ? small_cos(turn.angle) : small_sin(turn.angle);
  return turn.quarters & 2 ? -value : value;
}

__device__ __forceinline__ float cos_of(float radians) {
  const Turn turn = turn_of(radians);
  const float value = turn.quarters & 1 ? small_sin(turn.angle) : small_cos(turn.angle);
  return (turn.quarters + 1) & 2 ? -value : value;
}

__device__ __forceinline__ float equal(float a, float b) { return a == b ? 1.f : 0.f; }
__device__ __forceinline__ float less(float a, float b) { return a < b ? 1.f : 0.f; }
__device__ __forceinline__ float less_equal(float a, float b) { return a <= b ? 1.f : 0.f; }

// A NaN condition counts as true.
__device__ __forceinline__ float select(float condition, float then, float otherwise) {
  return condition != 0.f ? then : otherwise;
}

}  // namespace coda
