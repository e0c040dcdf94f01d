// Map: one loop for each op and each way its arguments broadcast.

struct Add {
  static Vector apply(Vector a, Vector b) { return a + b; }
};
struct Sub {
  static Vector apply(Vector a, Vector b) { return a - b; }
};
struct Mul {
  static Vector apply(Vector a, Vector b) { return a * b; }
};
struct Div {
  static Vector apply(Vector a, Vector b) { return a / b; }
};
struct Min {
  static Vector apply(Vector a, Vector b) { return smaller(a, b); }
};
struct Max {
  static Vector apply(Vector a, Vector b) { return larger(a, b); }
};
struct Eq {
  static Vector apply(Vector a, Vector b) { return pick(a == b, splat(1), Vector{}); }
};
struct Lt {
  static Vector apply(Vector a, Vector b) { return pick(a < b, splat(1), Vector{}); }
};
struct Le {
  static Vector apply(Vector a, Vector b) { return pick(a <= b, splat(1), Vector{}); }
};
struct Neg {
  static Vector apply(Vector a) { return -a; }
};
struct Abs {
  static Vector apply(Vector a) { return magnitude(a); }
};
struct Exp {
  static Vector apply(Vector a) { return exp_lanes(a); }
};
struct Exp2 {
  static Vector apply(Vector a) { return exp2_lanes(a); }
};
struct Log {
  static Vector apply(Vector a) { return log_lanes(a); }
};
struct Rcp {
  static Vector apply(Vector a) { return 1.0f / a; }
};
struct Sqrt {
  static Vector apply(Vector a) { return sqrt_lanes(a); }
};
struct Rsqrt {
  static Vector apply(Vector a) { return 1.0f / sqrt_lanes(a); }
};
struct Square {
  static Vector apply(Vector a) { return a * a; }
};
struct Sigmoid {
  static Vector apply(Vector a) { return sigmoid_lanes(a); }
};
struct Tanh {
  static Vector apply(Vector a) { return tanh_lanes(a); }
};
struct Erf {
  static Vector apply(Vector a) { return erf_lanes(a); }
};
struct Sin {
  static Vector apply(Vector a) { return sine_lanes(a, 0); }
};
struct Cos {
  static Vector apply(Vector a) { return sine_lanes(a, 1); }
};
struct Relu {
  static Vector apply(Vector a) { return pick(a < 0.0f, Vector{}, a); }
};
struct Select {
  static Vector apply(Vector a, Vector b, Vector c) { return pick(a != 0.0f, b, c); }
};
struct Clamp {
  static Vector apply(Vector a, Vector b, Vector c) { return smaller(larger(a, b), c); }
};

// Bit i of kSpread: argument i is one number a row.
template <class F, int kSpread, int... kArg>
void map_rows(Extent extent, const Arg* args, Out out, std::integer_sequence<int, kArg...>) {
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    const float* const in[] = {args[kArg].data + r * args[kArg].row_step...};
    const Vector same[] = {((kSpread >> kArg) & 1) != 0 ? splat(*in[kArg]) : Vector{}...};
    float* to = out.data + r * out.row_step;
    for (std::int64_t c = 0; c < extent.cols; c += kLanes) {
      store(to + c, F::apply((((kSpread >> kArg) & 1) != 0 ? same[kArg] : load(in[kArg] + c))...));
    }
  }
}

template <class F, int kArity, int... kSpread>
void map_any(Extent extent, const Arg* args, Out out, std::integer_sequence<int, kSpread...>) {
  using Loop = void (*)(Extent, const Arg*, Out, std::make_integer_sequence<int, kArity>);
  static constexpr Loop kLoops[] = {map_rows<F, kSpread>...};
  int spread = 0;
  for (int i = 0; i < kArity; ++i) spread |= (args[i].spread ? 1 : 0) << i;
  kLoops[spread](extent, args, out, {});
}

template <class F, int kArity>
void map_op(Extent extent, const Arg* args, Out out) {
  map_any<F, kArity>(extent, args, out, std::make_integer_sequence<int, (1 << kArity)>{});
}

// Angles too large for reduce_angle go through the C library, a row at a time.
// The padding may hold anything: it only costs time.
bool has_large_angle(const float* in, std::int64_t cols) {
  Ints found = {};
  for (std::int64_t c = 0; c < cols; c += kLanes) found |= magnitude(load(in + c)) > kMaxReduced;
  bool any = false;
  for (int i = 0; i < kLanes; ++i) any = any || found[i] != 0;
  return any;
}

template <class F>
void map_angle(Extent extent, const Arg* args, Out out, double (*exact)(double)) {
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    const Arg in{args[0].data + r * args[0].row_step, 0, args[0].spread};
    const Out to{out.data + r * out.row_step, 0};
    if (in.spread ? std::abs(*in.data) > kMaxReduced : has_large_angle(in.data, extent.cols)) {
      for (std::int64_t c = 0; c < extent.cols; ++c) to.data[c] = static_cast<float>(exact(in.data[in.spread ? 0 : c]));
    } else {
      map_op<F, 1>({1, extent.cols}, &in, to);
    }
  }
}

void map(Op op, Extent extent, const Arg* args, Out out) {
  switch (op) {
    case Op::Add: return map_op<Add, 2>(extent, args, out);
    case Op::Sub: return map_op<Sub, 2>(extent, args, out);
    case Op::Mul: return map_op<Mul, 2>(extent, args, out);
    case Op::Div: return map_op<Div, 2>(extent, args, out);
    case Op::Neg: return map_op<Neg, 1>(extent, args, out);
    case Op::Abs: return map_op<Abs, 1>(extent, args, out);
    case Op::Min: return map_op<Min, 2>(extent, args, out);
    case Op::Max: return map_op<Max, 2>(extent, args, out);
    case Op::Exp: return map_op<Exp, 1>(extent, args, out);
    case Op::Exp2: return map_op<Exp2, 1>(extent, args, out);
    case Op::Log: return map_op<Log, 1>(extent, args, out);
    case Op::Rcp: return map_op<Rcp, 1>(extent, args, out);
    case Op::Sqrt: return map_op<Sqrt, 1>(extent, args, out);
    case Op::Rsqrt: return map_op<Rsqrt, 1>(extent, args, out);
    case Op::Square: return map_op<Square, 1>(extent, args, out);
    case Op::Sigmoid: return map_op<Sigmoid, 1>(extent, args, out);
    case Op::Tanh: return map_op<Tanh, 1>(extent, args, out);
    case Op::Erf: return map_op<Erf, 1>(extent, args, out);
    case Op::Sin: return map_angle<Sin>(extent, args, out, std::sin);
    case Op::Cos: return map_angle<Cos>(extent, args, out, std::cos);
    case Op::Relu: return map_op<Relu, 1>(extent, args, out);
    case Op::Eq: return map_op<Eq, 2>(extent, args, out);
    case Op::Lt: return map_op<Lt, 2>(extent, args, out);
    case Op::Le: return map_op<Le, 2>(extent, args, out);
    case Op::Select: return map_op<Select, 3>(extent, args, out);
    case Op::Clamp: return map_op<Clamp, 3>(extent, args, out);
  }
}

template <DType kType>
void round_rows(Extent extent, Arg in, Out out) {
  typename Stored<kType>::Element lanes[kLanes];
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    const float* from = in.data + r * in.row_step;
    float* to = out.data + r * out.row_step;
    for (std::int64_t c = 0; c < extent.cols; c += kLanes) {
      Stored<kType>::put(lanes, in.spread ? splat(*from) : load(from + c));
      store(to + c, Stored<kType>::get(lanes));
    }
  }
}

// Values are fp32 already: rounding to fp32 or wider copies.
void round(DType dtype, Extent extent, Arg in, Out out) {
  if (dtype == DType::BF16) return round_rows<DType::BF16>(extent, in, out);
  if (dtype == DType::F16) return round_rows<DType::F16>(extent, in, out);
  round_rows<DType::F32>(extent, in, out);
}
