// Vectors of CODA_LANES floats as GCC vector extensions, and what the kernels need of them: loads that widen, stores
// that round, selection and transposition. Included by the per-instruction-set files after their target pragma and
// inside a namespace of their own, so that no code of one instruction set is shared with another.

constexpr int kLanes = CODA_LANES;

typedef float Vector __attribute__((vector_size(4 * CODA_LANES)));
typedef std::int32_t Ints __attribute__((vector_size(4 * CODA_LANES)));
typedef std::uint32_t Bits __attribute__((vector_size(4 * CODA_LANES)));
typedef std::uint16_t Halfs __attribute__((vector_size(2 * CODA_LANES)));
typedef float LooseVector __attribute__((vector_size(4 * CODA_LANES), aligned(4), may_alias));
typedef std::uint16_t LooseHalfs __attribute__((vector_size(2 * CODA_LANES), aligned(2), may_alias));

inline Vector load(const float* p) { return *reinterpret_cast<const LooseVector*>(p); }
inline void store(float* p, Vector v) { *reinterpret_cast<LooseVector*>(p) = v; }
inline Vector splat(float x) { return x - Vector{}; }
inline Bits bits_of(Vector v) { return reinterpret_cast<Bits>(v); }
inline Vector from_bits(Bits b) { return reinterpret_cast<Vector>(b); }
inline Vector pick(Ints condition, Vector a, Vector b) { return condition ? a : b; }

inline Vector widen_bf16(Halfs h) { return from_bits(__builtin_convertvector(h, Bits) << 16); }

// The exponent is moved by a product, which is exact for denormals too; infinities and NaN get theirs back.
inline Vector widen_f16(Halfs h) {
  const Bits bits = __builtin_convertvector(h, Bits);
  const Bits magnitude = bits_of(from_bits((bits & 0x7fffu) << 13) * 0x1p112f);
  const Bits special = (bits & 0x7c00u) == 0x7c00u ? Bits{} + 0x7f800000u : Bits{};
  return from_bits(magnitude | special | (bits & 0x8000u) << 16);
}

// Ties to even; NaN stays a quiet NaN.
inline Halfs narrow_bf16(Vector v) {
  const Bits bits = bits_of(v);
  const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const Bits nan = bits | 0x400000u;
  return __builtin_convertvector(((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded) >> 16, Halfs);
}

// Adding a power of two as large as the last kept bit makes the adder round; beyond 65504 the first product overflows.
inline Halfs narrow_f16(Vector v) {
  const Bits bits = bits_of(v);
  const Bits twice = bits << 1;
  const Bits bias_field = twice & 0xff000000u;
  const Bits bias = (bias_field < 0x71000000u ? Bits{} + 0x71000000u : bias_field) >> 1;
  const Vector magnitude = from_bits(bits & 0x7fffffffu) * 0x1p112f * 0x1p-110f;
  const Bits sum = bits_of(from_bits(bias + 0x07800000u) + magnitude);
  const Bits value = ((sum >> 13) & 0x7c00u) + (sum & 0xfffu);
  const Bits unsigned_half = twice > 0xff000000u ? Bits{} + 0x7e00u : value;
  return __builtin_convertvector(unsigned_half | ((bits >> 16) & 0x8000u), Halfs);
}

template <DType kType>
struct Stored {
  using Element = std::uint16_t;
  static Vector get(const Element* p) {
    const Halfs raw = *reinterpret_cast<const LooseHalfs*>(p);
    return kType == DType::BF16 ? widen_bf16(raw) : widen_f16(raw);
  }
  static void put(Element* p, Vector v) {
    *reinterpret_cast<LooseHalfs*>(p) = kType == DType::BF16 ? narrow_bf16(v) : narrow_f16(v);
  }
};

template <>
struct Stored<DType::F32> {
  using Element = float;
  static Vector get(const Element* p) { return load(p); }
  static void put(Element* p, Vector v) { store(p, v); }
};

// The first `count` lanes; the others are 0.
template <DType kType>
inline Vector get_some(const typename Stored<kType>::Element* p, std::int64_t count) {
  typename Stored<kType>::Element lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(lanes[0]));
  return Stored<kType>::get(lanes);
}

template <DType kType>
inline void put_some(typename Stored<kType>::Element* p, Vector v, std::int64_t count) {
  typename Stored<kType>::Element lanes[kLanes];
  Stored<kType>::put(lanes, v);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(lanes[0]));
}

// One round of a butterfly exchange: blocks of kStep lanes of a and b change places.
template <int kStep, class V, int... kLane>
inline void exchange(V& a, V& b, std::integer_sequence<int, kLane...>) {
  const V low = __builtin_shufflevector(a, b, ((kLane & kStep) != 0 ? kLane - kStep + kLanes : kLane)...);
  const V high = __builtin_shufflevector(a, b, ((kLane & kStep) != 0 ? kLane + kLanes : kLane + kStep)...);
  a = low;
  b = high;
}

template <int kStep, class V>
inline void transpose_rounds(V* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kStep) == 0) exchange<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, kLanes>{});
  }
  if constexpr (kStep > 1) transpose_rounds<kStep / 2>(rows);
}

/// Transposes kLanes vectors in place.
template <class V>
inline void transpose(V* rows) {
  transpose_rounds<kLanes / 2>(rows);
}
