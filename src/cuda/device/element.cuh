// The element types a kernel reads and writes: how each is stored, widened to float and rounded from it.
#pragma once

#include "ptx.cuh"

namespace coda {

// An array length that C++ allows where there is nothing.
template <int Count>
constexpr int kAtLeastOne = Count > 0 ? Count : 1;

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

struct F32 {
  using Storage = float;
  __device__ __forceinline__ static float widen(Storage value) { return value; }
  __device__ __forceinline__ static Storage narrow(float value) { return value; }
};

struct Bf16 {
  using Storage = u16;
  __device__ __forceinline__ static float widen(Storage value) { return low_bf16(value); }
  __device__ __forceinline__ static Storage narrow(float value) { return static_cast<u16>(pack_bf16(value, 0)); }
  // Two elements in a word, the first in its lower half.
  __device__ __forceinline__ static float low(u32 packed) { return low_bf16(packed); }
  __device__ __forceinline__ static float high(u32 packed) { return high_bf16(packed); }
  __device__ __forceinline__ static u32 pack(float low, float high) { return pack_bf16(low, high); }
};

struct F16 {
  using Storage = u16;
  __device__ __forceinline__ static float widen(Storage value) { return low_f16(value); }
  __device__ __forceinline__ static Storage narrow(float value) { return static_cast<u16>(pack_f16(value, 0)); }
  __device__ __forceinline__ static float low(u32 packed) { return low_f16(packed); }
  __device__ __forceinline__ static float high(u32 packed) { return high_f16(packed); }
  __device__ __forceinline__ static u32 pack(float low, float high) { return pack_f16(low, high); }
};

// Indices, as floats: exact to 2^24.
struct I32 {
  using Storage = int;
  __device__ __forceinline__ static float widen(Storage value) { return static_cast<float>(value); }
};

struct I64 {
  using Storage = i64;
  __device__ __forceinline__ static float widen(Storage value) { return static_cast<float>(value); }
};

// A staged output that the copy engine adds to memory. Each element is added to once, by one block, so the sum is that
// of a read, an addition and a write.
template <class Element>
struct Added : Element {};

template <class Element>
constexpr bool kAdds = false;
template <class Element>
constexpr bool kAdds<Added<Element>> = true;

// The element types of a program's staged inputs or outputs. A unit is the room of 16-bit elements: an F32 takes two.
template <class... E>
struct Elements {
  static constexpr int kCount = sizeof...(E);
  static constexpr int kUnits = (0 + ... + static_cast<int>(sizeof(typename E::Storage) / 2));
};

// The element type at position `Index`, and the units before it.
template <int Index, class List>
struct ElementAt;
template <class First, class... Rest>
struct ElementAt<0, Elements<First, Rest...>> {
  using Type = First;
  static constexpr int kUnit = 0;
};
template <int Index, class First, class... Rest>
struct ElementAt<Index, Elements<First, Rest...>> {
  using Later = ElementAt<Index - 1, Elements<Rest...>>;
  using Type = typename Later::Type;
  static constexpr int kUnit = static_cast<int>(sizeof(typename First::Storage) / 2) + Later::kUnit;
};

// Calls act with the constants 0 … Count − 1.
template <int Value>
struct Constant {
  static constexpr int value = Value;
};
template <int Count, int First = 0, class Act>
__device__ __forceinline__ void for_each_constant(Act&& act) {
  if constexpr (First < Count) {
    act(Constant<First>{});
    for_each_constant<Count, First + 1>(act);
  }
}

// A double, rounded once. On the way to 16 bits the float before must be odd where it is not exact (round to odd):
// the nearest may be a tie that the double is not.
template <class Element>
__device__ __forceinline__ typename Element::Storage narrow_once(double value) {
  float near = static_cast<float>(value);
  if constexpr (sizeof(typename Element::Storage) == 2) {
    const double rest = value - near;
    const i32 bits = __float_as_int(near), further = (rest > 0) == (value > 0) ? 1 : -1;
    if (rest != 0 && bits % 2 == 0) near = __int_as_float(bits + further);
  }
  return Element::narrow(near);
}

// `value` rounded to Element and widened again.
template <class Element>
__device__ __forceinline__ float rounded(float value) {
  return Element::widen(Element::narrow(value));
}

}  // namespace coda
