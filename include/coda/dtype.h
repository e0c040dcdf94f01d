// Element types and their exact conversions. Host arithmetic is float or double; bf16 and fp16 are storage only.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coda {

/// Element type of a tensor. F64 is for the reference backend; I32 and I64 hold indices (positions, targets, tokens).
enum class DType : std::uint8_t { F64, F32, BF16, F16, I32, I64 };

/// Bytes of one element.
std::size_t size_of(DType dtype);

/// Short name: "f64", "f32", "bf16", "f16", "i32", "i64".
std::string_view name_of(DType dtype);

/// The dtype with that short name, or nothing.
std::optional<DType> dtype_from_name(std::string_view name);

/// True for I32 and I64.
bool is_integer(DType dtype);

/// `value` rounded to the nearest value of `dtype`, ties to even, in one rounding; overflow gives infinity, NaN stays
/// NaN. Integers round to nearest and saturate.
double round_to(DType dtype, double value);

/// Storage of a bf16: the upper half of a float.
struct BFloat16 {
  std::uint16_t bits;
};

/// Storage of an IEEE binary16.
struct Float16 {
  std::uint16_t bits;
};

inline float to_float(BFloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

/// Nearest bf16, ties to even; every NaN becomes a quiet NaN.
inline BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

float to_float(Float16 value);

/// Nearest fp16, ties to even; values beyond 65504 become infinity.
Float16 to_float16(float value);

/// Reads element `index` of a buffer of `dtype` as a double (exact).
double load_element(DType dtype, const void* data, std::int64_t index);

/// Rounds `value` once to `dtype` and writes it as element `index`.
void store_element(DType dtype, void* data, std::int64_t index, double value);

}  // namespace coda
