// Elementary functions of vectors, branch-free, within about 2 ulp of fp32 over their whole range (sin and cos up to
// |x| = kMaxReduced). NaN, infinities and denormal results are as in the C library.
// CODA_HAS_FMA tells that a·b + c rounds once.

constexpr float kInfinity = __builtin_inff();
// Adding it rounds a float below 2^22 to an integer, which the low mantissa bits then hold.
constexpr float kRounder = 0x1.8p23f;

inline Ints rounded_bits(Vector shifted) { return reinterpret_cast<Ints>(bits_of(shifted) - 0x4b400000u); }
inline Vector power_of_two(Ints exponent) { return from_bits((reinterpret_cast<Bits>(exponent) + 127u) << 23); }
inline Vector magnitude(Vector x) { return from_bits(bits_of(x) & 0x7fffffffu); }
inline Vector with_sign_of(Vector x, Vector sign) {
  return from_bits((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}
inline Vector at_most(Vector x, float limit) { return pick(x > limit, splat(limit), x); }  // keeps NaN

inline Vector smaller(Vector a, Vector b) { return pick(a != a, a, pick(a < b, a, b)); }
inline Vector larger(Vector a, Vector b) { return pick(a != a, a, pick(a > b, a, b)); }

// Results that round to 0 are set, not computed: arithmetic on denormals is many times slower.
//
// 2^n · e^r for |r| ≤ ln 2 / 2; in two factors, so that denormal results round once.
inline Vector scaled_exponential(Vector r, Ints n) {
  Vector p = splat(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const Ints half = n >> 1;
  return p * power_of_two(half) * power_of_two(n - half);
}

inline Vector exp_lanes(Vector x) {
  const Ints vanishes = x < -104.0f;
  x = pick(vanishes, Vector{}, at_most(x, 89.0f));
  const Vector shifted = x * 0x1.715476p0f + kRounder;
  const Vector n = shifted - kRounder;
  const Vector r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
  return pick(vanishes, Vector{}, scaled_exponential(r, rounded_bits(shifted)));
}

inline Vector exp2_lanes(Vector x) {
  const Ints vanishes = x < -151.0f;
  x = pick(vanishes, Vector{}, at_most(x, 129.0f));
  const Vector shifted = x + kRounder;
  const Vector r = (x - (shifted - kRounder)) * 0x1.62e43p-1f;
  return pick(vanishes, Vector{}, scaled_exponential(r, rounded_bits(shifted)));
}

// log(1 + f) for √½ ≤ 1 + f < √2 by the series in s = f / (2 + f) (FreeBSD's coefficients).
inline Vector log_lanes(Vector x) {
  const Ints tiny = x < 0x1p-126f;
  const Vector scaled = pick(tiny, x * 0x1p25f, x);
  const Bits bits = bits_of(scaled) - 0x3f3504f3u;
  const Vector e =
      __builtin_convertvector(reinterpret_cast<Ints>(bits) >> 23, Vector) - pick(tiny, splat(25.0f), Vector{});
  const Vector f = from_bits((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  const Vector s = f / (2.0f + f);
  const Vector z = s * s;
  Vector p = splat(0xf89e26.0p-26f);
  p = p * z + 0x91e9ee.0p-25f;
  p = p * z + 0xccce13.0p-25f;
  p = p * z + 0xaaaaaa.0p-24f;
  const Vector half_square = 0.5f * f * f;
  const Vector result = s * (half_square + p * z) + e * 0x1.7f7d1cp-20f - half_square + f + e * 0x1.62e4p-1f;
  const Vector special = pick(x == 0.0f, splat(-kInfinity), pick(x < 0.0f, splat(__builtin_nanf("")), x));
  return pick((x > 0.0f) & (x < kInfinity), result, special);
}

inline Vector sigmoid_lanes(Vector x) {
  const Vector e = exp_lanes(-magnitude(x));
  return pick(x < 0.0f, e, splat(1.0f)) / (1.0f + e);
}

inline Vector tanh_lanes(Vector x) {
  const Vector z = x * x;
  Vector p = splat(-5.70498872745e-3f);
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const Vector small = p * z * x + x;
  const Vector size = magnitude(x);
  const Vector large = 1.0f - 2.0f / (exp_lanes(2.0f * size) + 1.0f);
  return pick(size > 0.625f, with_sign_of(large, x), small);
}

// Two minimax polynomials: erf itself near 0, the exponent of 1 − erf beyond.
inline Vector erf_lanes(Vector x) {
  const Vector t = at_most(magnitude(x), 4.0f);
  const Vector s = t * t;
  Vector q = -1.72853470e-5f * t + 3.83197126e-4f;
  const Vector u = -3.88396438e-3f * t + 2.42546219e-2f;
  q = q * s + u;
  q = q * t - 1.06777877e-1f;
  q = q * t - 6.34846687e-1f;
  q = q * t - 1.28717512e-1f;
  q = q * t - t;
  const Vector large = with_sign_of(1.0f - exp_lanes(q), x);
  Vector p = splat(-5.96761703e-4f);
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  return pick(t > 0.927734375f, large, p * x + x);
}

constexpr float kMaxReduced = 1e6f;

// x − n·π/2 in three steps for |x| ≤ kMaxReduced; n's low bits tell the quadrant. Without fused products the steps are
// taken in double.
inline Vector reduce_angle(Vector x, Vector n) {
#if CODA_HAS_FMA
  Vector r = x - n * 0x1.921fb0p0f;
  r = r - n * 0x1.5110b4p-22f;
  return r - n * 0x1.846988p-48f;
#else
  Vector r;
  for (int i = 0; i < kLanes; ++i) {
    const double whole = static_cast<double>(n[i]);
    r[i] = static_cast<float>(static_cast<double>(x[i]) - whole * 0x1.921fb544p0 - whole * 0x1.0b4611a6p-34);
  }
  return r;
#endif
}

// sin for quarter = 0, cos for quarter = 1.
inline Vector sine_lanes(Vector x, int quarter) {
  const Vector shifted = x * 0x1.45f306p-1f + kRounder;
  const Bits quadrant = reinterpret_cast<Bits>(rounded_bits(shifted)) + static_cast<std::uint32_t>(quarter);
  const Vector r = reduce_angle(x, shifted - kRounder);
  const Vector z = r * r;
  const Vector sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
  const Vector cosine =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const Vector value = pick((quadrant & 1u) != 0u, cosine, sine);
  return from_bits(bits_of(value) ^ (quadrant & 2u) << 30);
}
