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

constexpr float kLog2E = 1.4426950408889634f;

// 1 / (1 + 2^(−a·log2 e)): the exponential overflows to infinity for a < −128·ln 2, whose reciprocal is 0.
__device__ __forceinline__ float sigmoid(float a) { return reciprocal_approx(1.f + exp2_approx(-kLog2E * a)); }

// sin and cos of radians: whole turns are taken off in two steps, the second for the digits of 2π that the first has
// not, and the hardware's approximation sees what is left. Within 6e-7 up to 10⁷ radians, with no table in memory.
__device__ __forceinline__ float without_whole_turns(float radians) {
  constexpr float kTurn = 6.2831854820251465f, kTurnRest = -1.7484555314695172e-7f;
  constexpr float kRound = 12582912.f;  // 1.5·2²³: a sum with it has no room for a fraction
  const float whole = fmaf(radians, 0.15915494309189535f, kRound) - kRound;
  return fmaf(whole, -kTurnRest, fmaf(whole, -kTurn, radians));
}
__device__ __forceinline__ float sin_of(float radians) { return sin_approx(without_whole_turns(radians)); }
__device__ __forceinline__ float cos_of(float radians) { return cos_approx(without_whole_turns(radians)); }

__device__ __forceinline__ float equal(float a, float b) { return a == b ? 1.f : 0.f; }
__device__ __forceinline__ float less(float a, float b) { return a < b ? 1.f : 0.f; }
__device__ __forceinline__ float less_equal(float a, float b) { return a <= b ? 1.f : 0.f; }

// A NaN condition counts as true.
__device__ __forceinline__ float select(float condition, float then, float otherwise) {
  return condition != 0.f ? then : otherwise;
}

}  // namespace coda
