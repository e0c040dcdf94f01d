#include "coda/dtype.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/check.h"

namespace coda {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t size;
  bool integer;
};

constexpr std::array kRows{
    DTypeRow{DType::F64, "f64", 8, false},   DTypeRow{DType::F32, "f32", 4, false},
    DTypeRow{DType::BF16, "bf16", 2, false}, DTypeRow{DType::F16, "f16", 2, false},
    DTypeRow{DType::I32, "i32", 4, true},    DTypeRow{DType::I64, "i64", 8, true},
};

const DTypeRow& row_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

// Rounds to `precision` significant bits, ties to even, with the exponent range of a binary format whose smallest
// normal number is 2^min_exponent and whose largest finite number is `largest`.
double round_binary(double value, int precision, int min_exponent, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int lowest_bit = std::max(exponent - precision, min_exponent - (precision - 1));
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -lowest_bit)), lowest_bit);
  if (std::abs(rounded) > largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

template <class Integer>
Integer saturate(double value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  // The largest int64 is no double: compare with the power of two above it.
  constexpr double limit = std::numeric_limits<Integer>::max() / 2 + 1;
  if (rounded >= 2 * limit) return std::numeric_limits<Integer>::max();
  if (rounded < -2 * limit) return std::numeric_limits<Integer>::min();
  return static_cast<Integer>(rounded);
}

template <class T>
T read(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write(void* data, std::int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

std::size_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : kRows)
    if (row.name == name) return row.dtype;
  return {};
}

bool is_integer(DType dtype) { return row_of(dtype).integer; }

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::F64: return value;
    case DType::F32: return static_cast<float>(value);
    case DType::BF16: return round_binary(value, 8, -126, 0x1.fep127);
    case DType::F16: return round_binary(value, 11, -14, 65504.0);
    case DType::I32: return saturate<std::int32_t>(value);
    case DType::I64: return static_cast<double>(saturate<std::int64_t>(value));
  }
  INVARIANT(false, "round_to: dtype ", static_cast<int>(dtype));
}

float to_float(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x400u) {  // subnormal: magnitude · 2^-24
    const float tiny = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // 65520 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return {static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(scaled)))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
}

double load_element(DType dtype, const void* data, std::int64_t index) {
  switch (dtype) {
    case DType::F64: return read<double>(data, index);
    case DType::F32: return read<float>(data, index);
    case DType::BF16: return to_float(read<BFloat16>(data, index));
    case DType::F16: return to_float(read<Float16>(data, index));
    case DType::I32: return read<std::int32_t>(data, index);
    case DType::I64: return static_cast<double>(read<std::int64_t>(data, index));
  }
  INVARIANT(false, "load_element: dtype ", static_cast<int>(dtype));
}

void store_element(DType dtype, void* data, std::int64_t index, double value) {
  switch (dtype) {
    case DType::F64: return write(data, index, value);
    case DType::F32: return write(data, index, static_cast<float>(value));
    // Rounded in one step from double; the conversion that follows is exact.
    case DType::BF16: return write(data, index, to_bfloat16(static_cast<float>(round_to(dtype, value))));
    case DType::F16: return write(data, index, to_float16(static_cast<float>(round_to(dtype, value))));
    case DType::I32: return write(data, index, saturate<std::int32_t>(value));
    case DType::I64: return write(data, index, saturate<std::int64_t>(value));
  }
  INVARIANT(false, "store_element: dtype ", static_cast<int>(dtype));
}

}  // namespace coda
