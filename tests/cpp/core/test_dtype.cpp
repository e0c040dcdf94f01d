// Conversions of every 16-bit code, and rounding of random doubles against the definition of round-to-nearest-even.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "coda/dtype.h"

namespace coda {
namespace {

// All finite values of a 16-bit format, ascending, from its codes.
std::vector<double> finite_values(DType dtype) {
  std::vector<double> values;
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const double value = load_element(dtype, &bits, 0);
    if (std::isfinite(value)) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

class SixteenBit : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, SixteenBit, testing::Values(DType::BF16, DType::F16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(SixteenBit, EveryCodeSurvivesARoundTrip) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const double value = load_element(GetParam(), &bits, 0);
    std::uint16_t back = 0;
    store_element(GetParam(), &back, 0, value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(load_element(GetParam(), &back, 0))) << code;
    } else {
      EXPECT_EQ(back, bits);
    }
  }
}

TEST_P(SixteenBit, RoundsEveryMidpointToEvenAndItsNeighboursToTheNearer) {
  const std::vector<double> values = finite_values(GetParam());
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const double low = values[i], high = values[i + 1];
    if (low == high) continue;  // the two zeros
    const double middle = low / 2 + high / 2;
    EXPECT_EQ(round_to(GetParam(), std::nextafter(middle, low)), low);
    EXPECT_EQ(round_to(GetParam(), std::nextafter(middle, high)), high);
    std::uint16_t bits = 0;
    store_element(GetParam(), &bits, 0, middle);
    EXPECT_EQ(bits & 1, 0) << "midpoint of " << low << " and " << high;
  }
}

TEST_P(SixteenBit, FloatConversionsAgreeWithTheRoundingFromDouble) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    const float converted = GetParam() == DType::BF16 ? to_float(to_bfloat16(value)) : to_float(to_float16(value));
    ASSERT_EQ(converted, round_to(GetParam(), value)) << value;
  }
}

TEST_P(SixteenBit, KeepsNaNAndOverflowsToInfinity) {
  EXPECT_TRUE(std::isnan(round_to(GetParam(), std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(round_to(GetParam(), 1e300), std::numeric_limits<double>::infinity());
  EXPECT_EQ(round_to(GetParam(), -1e300), -std::numeric_limits<double>::infinity());
}

TEST(DType, RoundsOnceFromDoubleNotThroughFloat) {
  // Just above a bf16 midpoint, by less than a float sees: through float it would tie and fall to even.
  const double value = 1.0 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(round_to(DType::BF16, value), 1.0 + 0x1p-7);
}

TEST(DType, IntegersSaturate) {
  EXPECT_EQ(round_to(DType::I32, 3e9), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(round_to(DType::I32, -3e9), std::numeric_limits<std::int32_t>::min());
  std::int64_t wide = 0;
  store_element(DType::I64, &wide, 0, 1e300);
  EXPECT_EQ(wide, std::numeric_limits<std::int64_t>::max());
}

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64})
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  EXPECT_FALSE(dtype_from_name("float32"));
}

}  // namespace
}  // namespace coda
