// Kernels that move or sum columns: pairs, periods, heads, partial reductions.

inline const float* row_of(Arg in, std::int64_t r) { return in.data + r * in.row_step; }

inline void copy_columns(const float* from, std::int64_t count, float* to) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

void split(Extent extent, const Pairing& pairing, int member, Arg in, Out out) {
  const std::int64_t pairs = pairing.width / 2;
  const bool halves = pairing.kind == Pairing::Kind::Halves;
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    const float* from = row_of(in, r);
    float* to = out.data + r * out.row_step;
    for (std::int64_t done = 0; done < extent.cols; done += pairs, from += pairing.head, to += pairs) {
      if (halves) {
        copy_columns(from + member * pairs, pairs, to);
      } else {
        for (std::int64_t p = 0; p < pairs; ++p) to[p] = from[2 * p + member];
      }
    }
  }
}

void join(Extent extent, const Pairing& pairing, Arg first, Arg second, Arg rest, Out out) {
  const std::int64_t pairs = pairing.width / 2;
  const bool halves = pairing.kind == Pairing::Kind::Halves;
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    const float* a = row_of(first, r);
    const float* b = row_of(second, r);
    float* to = out.data + r * out.row_step;
    for (std::int64_t col = 0; col < extent.cols; col += pairing.head, a += pairs, b += pairs, to += pairing.head) {
      if (halves) {
        copy_columns(a, pairs, to);
        copy_columns(b, pairs, to + pairs);
      } else {
        for (std::int64_t p = 0; p < pairs; ++p) to[2 * p] = a[p], to[2 * p + 1] = b[p];
      }
      if (pairing.has_rest())
        copy_columns(row_of(rest, r) + col + pairing.width, pairing.head - pairing.width, to + pairing.width);
    }
  }
}

void repeat(Extent extent, std::int64_t period, Arg in, Out out) {
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    for (std::int64_t c = 0; c < extent.cols; c += period) {
      const std::int64_t count = extent.cols - c < period ? extent.cols - c : period;
      copy_columns(row_of(in, r), count, out.data + r * out.row_step + c);
    }
  }
}

inline float lane_sum(Vector v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

inline float lane_max(Vector v) {
  float lanes[kLanes];
  store(lanes, v);
  float result = lanes[0];
  for (int i = 1; i < kLanes; ++i) result = result != result || result > lanes[i] ? result : lanes[i];
  return result;
}

// The first `count` lanes, the others `fill`.
inline Vector load_some(const float* p, std::int64_t count, float fill) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = i < count ? p[i] : fill;
  return load(lanes);
}

inline float sum_columns(const float* in, std::int64_t cols) {
  Vector sum = {};
  std::int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) sum += load(in + c);
  if (c < cols) sum += load_some(in + c, cols - c, 0);
  return lane_sum(sum);
}

inline float max_columns(const float* in, std::int64_t cols) {
  Vector largest = splat(-kInfinity);
  std::int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) largest = larger(largest, load(in + c));
  if (c < cols) largest = larger(largest, load_some(in + c, cols - c, -kInfinity));
  return lane_max(largest);
}

// An infinite or NaN maximum is the result: nothing finite changes it.
inline float log_sum_exp_columns(const float* in, std::int64_t cols) {
  const float largest = max_columns(in, cols);
  if (!(largest > -kInfinity && largest < kInfinity)) return largest;
  Vector sum = {};
  std::int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) sum += exp_lanes(load(in + c) - largest);
  if (c < cols) sum += exp_lanes(load_some(in + c, cols - c, -kInfinity) - largest);
  return largest + log_lanes(splat(lane_sum(sum)))[0];
}

void span_sum(Extent extent, std::int64_t span, Arg in, Out out) {
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    for (std::int64_t c = 0; c < extent.cols; c += span) {
      const float sum = sum_columns(row_of(in, r) + c, span);
      float* to = out.data + r * out.row_step + c;
      for (std::int64_t i = 0; i < span; ++i) to[i] = sum;
    }
  }
}

void reduce_row(Reduction op, Extent extent, std::int64_t width, Arg in, Out out) {
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    float* to = out.data + r * out.row_step;
    for (std::int64_t c = 0; c < extent.cols; c += width, ++to) {
      const float* from = row_of(in, r) + c;
      const std::int64_t count = extent.cols - c < width ? extent.cols - c : width;
      switch (op) {
        case Reduction::Sum: *to = sum_columns(from, count); break;
        case Reduction::Max: *to = max_columns(from, count); break;
        case Reduction::LogSumExp: *to = log_sum_exp_columns(from, count); break;
      }
    }
  }
}

// Running maximum m and s = Σ exp(x − m). While m is infinite or NaN, s does not matter.
inline void add_exponential(Vector x, float* largest, float* sum) {
  const Vector before = load(largest);
  const Vector after = larger(before, x);
  store(largest, after);
  const Vector rescaled = pick(before == after, load(sum), load(sum) * exp_lanes(before - after));
  const Vector added = pick(before == -kInfinity, splat(1), rescaled + exp_lanes(x - after));
  store(sum, added);
}

// Kahan's sum: `lost` is what rounding took from it so far, nothing once it is infinite or NaN.
inline void add_compensated(Vector x, float* sum, float* lost) {
  const Vector before = load(sum), added = x - load(lost), after = before + added;
  const Vector gone = (after - before) - added;
  store(sum, after);
  store(lost, pick(magnitude(gone) < kInfinity, gone, Vector{}));
}

// The state's second row: of a sum what it lost, of a logsumexp its sum.
void reduce_col(Reduction op, Extent extent, Arg in, Out state, bool begin) {
  float* second = state.data + state.row_step;
  const Vector start = op == Reduction::Sum ? Vector{} : splat(-kInfinity);
  for (std::int64_t c = 0; begin && c < extent.cols; c += kLanes) {
    store(state.data + c, start);
    if (op != Reduction::Max) store(second + c, Vector{});
  }
  for (std::int64_t r = 0; r < extent.rows; ++r) {
    const float* from = row_of(in, r);
    for (std::int64_t c = 0; c < extent.cols; c += kLanes) {
      switch (op) {
        case Reduction::Sum: add_compensated(load(from + c), state.data + c, second + c); break;
        case Reduction::Max: store(state.data + c, larger(load(state.data + c), load(from + c))); break;
        case Reduction::LogSumExp: add_exponential(load(from + c), state.data + c, second + c); break;
      }
    }
  }
}

void finish_col(Reduction op, std::int64_t cols, Out state) {
  if (op != Reduction::LogSumExp) return;
  for (std::int64_t c = 0; c < cols; c += kLanes) {
    const Vector largest = load(state.data + c);
    const Vector result = largest + log_lanes(load(state.data + state.row_step + c));
    store(state.data + c, pick(magnitude(largest) < kInfinity, result, largest));
  }
}
