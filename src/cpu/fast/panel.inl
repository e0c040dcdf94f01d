// fp32 panel kernels: a micro-tile of CODA_ROWS rows and CODA_VECTORS vectors of columns stays in registers. bf16 and
// fp16 factors are widened while they are packed.

constexpr int kRows = CODA_ROWS;
constexpr int kVectors = CODA_VECTORS;
constexpr int kCols = kVectors * kLanes;
// Distance of packed rows of A: fixed, so that the rows of a micro-tile are reached by constant offsets, and an odd
// number of cache lines, so that they do not compete for one cache set.
constexpr int kRowBlock = 60 / kRows * kRows;
constexpr int kRowPitch = kPanelDepth + 16;

template <DType kType>
using ElementOf = typename Stored<kType>::Element;

template <DType kType>
inline float widened(ElementOf<kType> x) {
  if constexpr (kType == DType::F32) return x;
  if constexpr (kType == DType::BF16) return to_float(BFloat16{x});
  if constexpr (kType == DType::F16) return to_float(Float16{x});
}

// `count` ≤ kLanes lines of `length` entries at p, `pitch` apart, become columns 0 … kLanes − 1 of `out`, whose rows
// are `out_pitch` apart; missing lines become 0. The lines are contiguous.
template <DType kType>
void transpose_lines(const ElementOf<kType>* p, std::int64_t pitch, std::int64_t count, std::int64_t length, float* out,
                     std::int64_t out_pitch) {
  std::int64_t k = 0;
  for (; count == kLanes && k + kLanes <= length; k += kLanes) {
    Vector block[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) block[i] = Stored<kType>::get(p + i * pitch + k);
    transpose(block);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) store(out + (k + i) * out_pitch, block[i]);
  }
  for (; k < length; ++k) {
    for (std::int64_t i = 0; i < kLanes; ++i) out[k * out_pitch + i] = i < count ? widened<kType>(p[i * pitch + k]) : 0;
  }
}

// One contiguous line of `count` entries, filled with 0 up to `padded`, a multiple of kLanes.
template <DType kType>
void copy_line(const ElementOf<kType>* p, std::int64_t count, std::int64_t padded, float* out) {
  std::int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) store(out + c, Stored<kType>::get(p + c));
  for (; c < padded; c += kLanes) store(out + c, c < count ? get_some<kType>(p + c, count - c) : Vector{});
}

template <DType kType>
void gather_line(const ElementOf<kType>* p, std::int64_t stride, std::int64_t count, std::int64_t padded, float* out) {
  for (std::int64_t c = 0; c < count; ++c) out[c] = widened<kType>(p[c * stride]);
  for (std::int64_t c = count; c < padded; ++c) out[c] = 0;
}

// Row r of A lies at packed + r·kRowPitch.
template <DType kType>
void pack_a_typed(const MatrixRef& a, std::int64_t rows, std::int64_t depth, float* packed) {
  const auto* data = static_cast<const ElementOf<kType>*>(a.data);
  const std::int64_t padded = (depth + kLanes - 1) / kLanes * kLanes;
  std::int64_t row = 0;
  if (a.row_stride == 1 && a.col_stride != 1) {
    for (; row + kLanes <= rows; row += kLanes) {
      for (std::int64_t k = 0; k < depth; k += kLanes) {
        const std::int64_t count = depth - k < kLanes ? depth - k : kLanes;
        transpose_lines<kType>(data + row + k * a.col_stride, a.col_stride, count, kLanes, packed + row * kRowPitch + k,
                               kRowPitch);
      }
    }
  }
  for (; row < rows; ++row) {
    const auto* line = data + row * a.row_stride;
    if (a.col_stride == 1) {
      copy_line<kType>(line, depth, padded, packed + row * kRowPitch);
    } else {
      gather_line<kType>(line, a.col_stride, depth, padded, packed + row * kRowPitch);
    }
  }
}

// Strip s of B holds, for each k, the kCols entries of its columns.
template <DType kType>
void pack_b_typed(const MatrixRef& b, std::int64_t depth, std::int64_t cols, float* packed) {
  const auto* data = static_cast<const ElementOf<kType>*>(b.data);
  for (std::int64_t first = 0; first < cols; first += kCols, packed += kCols * depth) {
    const auto* strip = data + first * b.col_stride;
    const std::int64_t count = cols - first < kCols ? cols - first : kCols;
    if (b.row_stride == 1 && b.col_stride != 1) {
      for (std::int64_t c = 0; c < kCols; c += kLanes) {
        const std::int64_t lines = count - c < 0 ? 0 : count - c < kLanes ? count - c : kLanes;
        transpose_lines<kType>(strip + c * b.col_stride, b.col_stride, lines, depth, packed + c, kCols);
      }
      continue;
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      const auto* line = strip + k * b.row_stride;
      if (b.col_stride == 1) {
        copy_line<kType>(line, count, kCols, packed + k * kCols);
      } else {
        gather_line<kType>(line, b.col_stride, count, kCols, packed + k * kCols);
      }
    }
  }
}

void pack_a(const MatrixRef& a, std::int64_t rows, std::int64_t depth, void* packed) {
  auto* out = static_cast<float*>(packed);
  if (a.dtype == DType::F32) return pack_a_typed<DType::F32>(a, rows, depth, out);
  if (a.dtype == DType::BF16) return pack_a_typed<DType::BF16>(a, rows, depth, out);
  pack_a_typed<DType::F16>(a, rows, depth, out);
}

void pack_b(const MatrixRef& b, std::int64_t depth, std::int64_t cols, void* packed) {
  auto* out = static_cast<float*>(packed);
  if (b.dtype == DType::F32) return pack_b_typed<DType::F32>(b, depth, cols, out);
  if (b.dtype == DType::BF16) return pack_b_typed<DType::BF16>(b, depth, cols, out);
  pack_b_typed<DType::F16>(b, depth, cols, out);
}

// Products summed before the sum meets C: a long fp32 sum loses digits with its length, short sums of sums do not.
constexpr std::int64_t kSumDepth = 192;

// kCount × kCols entries of C, their sums kept in registers.
template <int kCount>
void micro_tile(const float* a, const float* b, std::int64_t depth, float* c, std::int64_t ldc, bool accumulate) {
  do {
    const std::int64_t count = depth < kSumDepth ? depth : kSumDepth;
    Vector sum[kCount][kVectors] = {};
    for (std::int64_t k = 0; k < count; ++k, ++a, b += kCols) {
      Vector line[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) line[v] = load(b + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r * kRowPitch] * line[v];
    }
#pragma GCC unroll 16
    for (int r = 0; r < kCount; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        float* entries = c + r * ldc + v * kLanes;
        store(entries, accumulate ? load(entries) + sum[r][v] : sum[r][v]);
      }
    accumulate = true;
    depth -= count;
  } while (depth > 0);
}

using MicroTile = void (*)(const float*, const float*, std::int64_t, float*, std::int64_t, bool);

template <int... kLess>
MicroTile micro_tile_of(std::int64_t rows, std::integer_sequence<int, kLess...>) {
  static constexpr MicroTile kTable[] = {micro_tile<kLess + 1>...};
  return kTable[rows - 1];
}

// A micro-tile that overhangs C on the right is computed aside.
void edge_tile(MicroTile tile, const float* a, const float* b, std::int64_t depth, float* c, std::int64_t ldc,
               bool accumulate, std::int64_t rows, std::int64_t cols) {
  alignas(64) float aside[kRows * kCols] = {};
  const std::size_t bytes = static_cast<std::size_t>(cols) * sizeof(float);
  for (std::int64_t r = 0; accumulate && r < rows; ++r) std::memcpy(aside + r * kCols, c + r * ldc, bytes);
  tile(a, b, depth, aside, kCols, accumulate);
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(c + r * ldc, aside + r * kCols, bytes);
}

void multiply(const void* a, std::int64_t, const void* b, std::int64_t rows, std::int64_t cols, std::int64_t depth,
              float* c, std::int64_t ldc, bool accumulate) {
  const auto* strip = static_cast<const float*>(b);
  for (std::int64_t col = 0; col < cols; col += kCols, strip += kCols * depth) {
    const std::int64_t width = cols - col < kCols ? cols - col : kCols;
    for (std::int64_t row = 0; row < rows; row += kRows) {
      const std::int64_t height = rows - row < kRows ? rows - row : kRows;
      const MicroTile tile = micro_tile_of(height, std::make_integer_sequence<int, kRows>{});
      const float* a_rows = static_cast<const float*>(a) + row * kRowPitch;
      float* target = c + row * ldc + col;
      if (width == kCols) {
        tile(a_rows, strip, depth, target, ldc, accumulate);
      } else {
        edge_tile(tile, a_rows, strip, depth, target, ldc, accumulate, height, width);
      }
    }
  }
}

std::size_t a_bytes(std::int64_t rows) { return static_cast<std::size_t>(rows * kRowPitch) * sizeof(float); }

std::size_t b_bytes(std::int64_t depth, std::int64_t cols) {
  return static_cast<std::size_t>((cols + kCols - 1) / kCols * kCols * depth) * sizeof(float);
}

bool reads_in_place(const MatrixRef&, std::int64_t, std::int64_t) { return false; }
