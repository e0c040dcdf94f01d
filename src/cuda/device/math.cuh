// The pointwise ops that CUDA has no one word for; src/ir/op_table.cpp defines what each means. min, max, clamp and
// relu keep NaN.
#pragma once

namespace coda {

// The hardware's NaN-keeping minimum and maximum: one instruction each.
__device__ __forceinline__ float min_keeping_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ float max_keeping_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ float square(float a) { return a * a; }
__device__ __forceinline__ float relu(float a) { return max_keeping_nan(a, 0.f); }
__device__ __forceinline__ float clamp(float a, float low, float high) {
  return min_keeping_nan(max_keeping_nan(a, low), high);
}

// 1 / (1 + 2^(−a·log2 e)): the exponential overflows to infinity for a < −128·ln 2, whose reciprocal is 0.
__device__ __forceinline__ float sigmoid(float a) { return __fdividef(1.f, 1.f + exp2f(-1.4426950408889634f * a)); }

__device__ __forceinline__ float equal(float a, float b) { return a == b ? 1.f : 0.f; }
__device__ __forceinline__ float less(float a, float b) { return a < b ? 1.f : 0.f; }
__device__ __forceinline__ float less_equal(float a, float b) { return a <= b ? 1.f : 0.f; }

// A NaN condition counts as true.
__device__ __forceinline__ float select(float condition, float then, float otherwise) {
  return condition != 0.f ? then : otherwise;
}

}  // namespace coda
