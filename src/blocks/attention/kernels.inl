// Bodies of kernels.h, compiled once for each instruction set, after the vectors and functions of cpu/fast.

/// Lane i of the result is lane i ^ kStep.
template <int kStep, int... kLane>
inline Vector swapped(Vector v, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(v, v, (kLane ^ kStep)...);
}

template <int kStep = kLanes / 2>
inline float largest_of(Vector v) {
  const Vector other = swapped<kStep>(v, std::make_integer_sequence<int, kLanes>{});
  v = pick(v > other, v, other);
  if constexpr (kStep == 1)
    return v[0];
  else
    return largest_of<kStep / 2>(v);
}

template <int kStep = kLanes / 2>
inline float sum_of(Vector v) {
  v += swapped<kStep>(v, std::make_integer_sequence<int, kLanes>{});
  if constexpr (kStep == 1)
    return v[0];
  else
    return sum_of<kStep / 2>(v);
}

/// Keys of the block that a row sees, and the lanes that hold them.
struct Seen {
  std::int64_t keys, lanes;
};
template <class Block>
inline Seen seen_by(const Block& block, std::int64_t row) {
  const std::int64_t reach = block.visible + row * block.visible_step;
  const std::int64_t keys = reach < 0 ? 0 : reach < block.cols ? reach : block.cols;
  return {keys, (keys + kLanes - 1) / kLanes * kLanes};
}

/// Largest scaled score of the row; hides what it does not see.
inline float row_maximum(const SoftmaxBlock& block, std::int64_t row) {
  float* scores = block.scores + row * block.pitch;
  const Seen seen = seen_by(block, row);
  for (std::int64_t j = seen.keys; j < seen.lanes; ++j) scores[j] = -kInfinity;
  Vector largest = splat(-kInfinity);
  for (std::int64_t j = 0; j < seen.lanes; j += kLanes) {
    const Vector z = load(scores + j) * block.factor;
    largest = pick(z > largest, z, largest);
  }
  return largest_of(largest);
}

/// Takes the maxima of this block into the state of `count` ≤ kLanes rows.
inline void move_maxima(const SoftmaxBlock& block, const float* found, std::int64_t row, std::int64_t count) {
  const Vector before = get_some<DType::F32>(block.maximum + row, count);
  const Vector in_block = get_some<DType::F32>(found, count);
  const Vector maximum = pick(in_block > before, in_block, before);
  const Vector rescale = exp2_lanes(before - pick(maximum == -kInfinity, Vector{}, maximum));
  put_some<DType::F32>(block.maximum + row, maximum, count);
  put_some<DType::F32>(block.rescale + row, rescale, count);
  put_some<DType::F32>(block.sum + row, get_some<DType::F32>(block.sum + row, count) * rescale, count);
}

/// Writes the row's probabilities and adds them to its sum.
template <DType kType>
void add_row(const SoftmaxBlock& block, std::int64_t row) {
  using Probability = typename Stored<kType>::Element;
  const float* scores = block.scores + row * block.pitch;
  auto* probabilities = static_cast<Probability*>(block.probabilities) + row * block.pitch;
  const Seen seen = seen_by(block, row);
  // A row of −inf alone must not become −inf + inf here: its sum stays 0 and its result 0/0.
  const float shift = block.maximum[row] == -kInfinity ? 0.0f : block.maximum[row];
  Vector sum = {};
  for (std::int64_t j = 0; j < seen.lanes; j += kLanes) {
    const Vector p = exp2_lanes(load(scores + j) * block.factor - shift);
    sum += p;
    Stored<kType>::put(probabilities + j, p);
  }
  for (std::int64_t j = seen.lanes; j < block.pitch; j += kLanes) Stored<kType>::put(probabilities + j, Vector{});
  block.sum[row] += sum_of(sum);
}

template <DType kType>
void softmax_typed(const SoftmaxBlock& block) {
  for (std::int64_t first = 0; first < block.rows; first += kLanes) {
    const std::int64_t count = block.rows - first < kLanes ? block.rows - first : kLanes;
    float found[kLanes];
    for (std::int64_t i = 0; i < count; ++i) found[i] = row_maximum(block, first + i);
    move_maxima(block, found, first, count);
    for (std::int64_t i = 0; i < count; ++i) add_row<kType>(block, first + i);
  }
}

void softmax(const SoftmaxBlock& block) {
  if (block.dtype == DType::F32) return softmax_typed<DType::F32>(block);
  if (block.dtype == DType::BF16) return softmax_typed<DType::BF16>(block);
  softmax_typed<DType::F16>(block);
}

constexpr float kLog2e = 1.44269504088896341f;

template <DType kType>
void gradient_row(const GradientBlock& block, std::int64_t row) {
  using Element = typename Stored<kType>::Element;
  const float* scores = block.scores + row * block.pitch;
  const float* gradients = block.d_probabilities + row * block.pitch;
  auto* probabilities = static_cast<Element*>(block.probabilities) + row * block.pitch;
  auto* d_scores = static_cast<Element*>(block.d_scores) + row * block.pitch;
  const Seen seen = seen_by(block, row);
  const float factor = block.scale * kLog2e, shift = block.lse[row] * kLog2e;
  for (std::int64_t j = 0; j < seen.lanes; j += kLanes) {
    const Vector p = exp2_lanes(load(scores + j) * factor - shift);
    Stored<kType>::put(probabilities + j, p);
    Stored<kType>::put(d_scores + j, p * (load(gradients + j) - block.mean[row]) * block.scale);
  }
  // The row's lse and mean may be NaN: what is not seen is 0 whatever they are.
  for (std::int64_t j = seen.keys; j < seen.lanes; ++j) probabilities[j] = d_scores[j] = Element{};
  for (std::int64_t j = seen.lanes; j < block.pitch; j += kLanes) {
    Stored<kType>::put(probabilities + j, Vector{});
    Stored<kType>::put(d_scores + j, Vector{});
  }
}

void gradient(const GradientBlock& block) {
  const auto run = block.dtype == DType::F32    ? gradient_row<DType::F32>
                   : block.dtype == DType::BF16 ? gradient_row<DType::BF16>
                                                : gradient_row<DType::F16>;
  for (std::int64_t row = 0; row < block.rows; ++row) run(block, row);
}

template <DType kType>
float row_dot(const void* a, const void* b, std::int64_t cols) {
  using Element = typename Stored<kType>::Element;
  const auto *left = static_cast<const Element*>(a), *right = static_cast<const Element*>(b);
  Vector sum = {};
  std::int64_t j = 0;
  for (; j + kLanes <= cols; j += kLanes) sum += Stored<kType>::get(left + j) * Stored<kType>::get(right + j);
  if (j < cols) sum += get_some<kType>(left + j, cols - j) * get_some<kType>(right + j, cols - j);
  return sum_of(sum);
}

void row_dots(DType dtype, const void* a, std::int64_t a_pitch, const void* b, std::int64_t b_pitch, std::int64_t rows,
              std::int64_t cols, float* out) {
  const auto run = dtype == DType::F32    ? row_dot<DType::F32>
                   : dtype == DType::BF16 ? row_dot<DType::BF16>
                                          : row_dot<DType::F16>;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  for (std::int64_t row = 0; row < rows; ++row)
    out[row] = run(static_cast<const char*>(a) + row * a_pitch * size,
                   static_cast<const char*>(b) + row * b_pitch * size, cols);
}

template <DType kType>
bool finite_typed(const void* values, std::int64_t pitch, std::int64_t rows, std::int64_t cols) {
  const auto* line = static_cast<const typename Stored<kType>::Element*>(values);
  Vector sum = {};  // of x·0, which is 0 for numbers and NaN for others
  for (std::int64_t row = 0; row < rows; ++row, line += pitch) {
    std::int64_t j = 0;
    for (; j + kLanes <= cols; j += kLanes) sum += Stored<kType>::get(line + j) * 0.0f;
    if (j < cols) sum += get_some<kType>(line + j, cols - j) * 0.0f;
  }
  return sum_of(sum) == 0;
}

bool all_finite(DType dtype, const void* values, std::int64_t pitch, std::int64_t rows, std::int64_t cols) {
  if (dtype == DType::F32) return finite_typed<DType::F32>(values, pitch, rows, cols);
  if (dtype == DType::BF16) return finite_typed<DType::BF16>(values, pitch, rows, cols);
  return finite_typed<DType::F16>(values, pitch, rows, cols);
}

void scale_rows(float* out, std::int64_t pitch, std::int64_t rows, std::int64_t cols, const float* factors) {
  for (std::int64_t row = 0; row < rows; ++row, out += pitch) {
    const float factor = factors[row];
    if (factor == 1.0f) continue;
    std::int64_t j = 0;
    for (; j + kLanes <= cols; j += kLanes) store(out + j, load(out + j) * splat(factor));
    for (; j < cols; ++j) out[j] *= factor;
  }
}

template <DType kType>
void divide_rows_typed(const float* out, std::int64_t pitch, std::int64_t rows, std::int64_t cols, const float* sums,
                       typename Stored<kType>::Element* result, std::int64_t result_pitch) {
  for (std::int64_t row = 0; row < rows; ++row, out += pitch, result += result_pitch) {
    const Vector sum = splat(sums[row]);
    std::int64_t j = 0;
    for (; j + kLanes <= cols; j += kLanes) Stored<kType>::put(result + j, load(out + j) / sum);
    if (j < cols) put_some<kType>(result + j, get_some<DType::F32>(out + j, cols - j) / sum, cols - j);
  }
}

void divide_rows(const float* out, std::int64_t pitch, std::int64_t rows, std::int64_t cols, const float* sums,
                 DType dtype, void* result, std::int64_t result_pitch) {
  if (dtype == DType::F32)
    return divide_rows_typed<DType::F32>(out, pitch, rows, cols, sums, static_cast<float*>(result), result_pitch);
  auto* halfs = static_cast<std::uint16_t*>(result);
  if (dtype == DType::BF16) return divide_rows_typed<DType::BF16>(out, pitch, rows, cols, sums, halfs, result_pitch);
  divide_rows_typed<DType::F16>(out, pitch, rows, cols, sums, halfs, result_pitch);
}

template <DType kType>
float dot_of(const float* query, const typename Stored<kType>::Element* key, std::int64_t width) {
  Vector sum[2] = {};
  std::int64_t d = 0;
  for (; d + 2 * kLanes <= width; d += 2 * kLanes) {
    sum[0] += load(query + d) * Stored<kType>::get(key + d);
    sum[1] += load(query + d + kLanes) * Stored<kType>::get(key + d + kLanes);
  }
  for (; d + kLanes <= width; d += kLanes) sum[0] += load(query + d) * Stored<kType>::get(key + d);
  if (d < width) sum[1] += get_some<DType::F32>(query + d, width - d) * get_some<kType>(key + d, width - d);
  return sum_of(sum[0] + sum[1]);
}

template <DType kType>
void dot_typed(const float* queries, std::int64_t rows, const void* keys, std::int64_t key_pitch, std::int64_t count,
               std::int64_t width, float* scores, std::int64_t pitch) {
  const auto* key = static_cast<const typename Stored<kType>::Element*>(keys);
  for (std::int64_t j = 0; j < count; ++j, key += key_pitch)
    for (std::int64_t row = 0; row < rows; ++row)
      scores[row * pitch + j] = dot_of<kType>(queries + row * width, key, width);
}

void dot(const float* queries, std::int64_t rows, DType dtype, const void* keys, std::int64_t key_pitch,
         std::int64_t count, std::int64_t width, float* scores, std::int64_t pitch) {
  const auto run = dtype == DType::F32    ? dot_typed<DType::F32>
                   : dtype == DType::BF16 ? dot_typed<DType::BF16>
                                          : dot_typed<DType::F16>;
  run(queries, rows, keys, key_pitch, count, width, scores, pitch);
}

/// kCount vectors of columns from `values` on, summed over all values in registers.
template <DType kType, int kCount>
void combine_columns(const float* weights, const typename Stored<kType>::Element* values, std::int64_t value_pitch,
                     std::int64_t count, float* out) {
  Vector sum[kCount] = {};
  for (std::int64_t j = 0; j < count; ++j, values += value_pitch) {
    const Vector weight = splat(weights[j]);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) sum[i] += weight * Stored<kType>::get(values + i * kLanes);
  }
  for (int i = 0; i < kCount; ++i) store(out + i * kLanes, sum[i]);
}

template <DType kType>
void combine_typed(const float* weights, std::int64_t pitch, std::int64_t rows, const void* values,
                   std::int64_t value_pitch, std::int64_t count, std::int64_t width, float* out) {
  const auto* value = static_cast<const typename Stored<kType>::Element*>(values);
  for (std::int64_t row = 0; row < rows; ++row, weights += pitch, out += width) {
    std::int64_t d = 0;
    for (; d + 4 * kLanes <= width; d += 4 * kLanes)
      combine_columns<kType, 4>(weights, value + d, value_pitch, count, out + d);
    for (; d + kLanes <= width; d += kLanes) combine_columns<kType, 1>(weights, value + d, value_pitch, count, out + d);
    if (d == width) continue;
    Vector sum = {};
    for (std::int64_t j = 0; j < count; ++j)
      sum += splat(weights[j]) * get_some<kType>(value + j * value_pitch + d, width - d);
    put_some<DType::F32>(out + d, sum, width - d);
  }
}

void combine(const float* weights, std::int64_t pitch, std::int64_t rows, DType dtype, const void* values,
             std::int64_t value_pitch, std::int64_t count, std::int64_t width, float* out) {
  const auto run = dtype == DType::F32    ? combine_typed<DType::F32>
                   : dtype == DType::BF16 ? combine_typed<DType::BF16>
                                          : combine_typed<DType::F16>;
  run(weights, pitch, rows, values, value_pitch, count, width, out);
}

constexpr Kernels kKernels = {softmax, gradient, row_dots, all_finite, scale_rows, divide_rows, dot, combine};
