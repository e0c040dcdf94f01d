// bf16 kernels on AMX tiles: products of bf16 pairs summed in fp32, 32×32 entries of C at a time.
#include <cstring>

#include "cpu/panel_kernels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")

namespace coda::cpu {
namespace {

constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileDepth = 32;  // bf16 entries of a tile row of A
constexpr std::int64_t kTileElements = kTileRows * kTileDepth;
constexpr std::int64_t kCols = 32;  // columns of a strip of B: two tiles
// An odd number of cache lines, so that packed rows do not compete for one cache set.
constexpr std::int64_t kRowPitch = kPanelDepth + 32;

std::int64_t padded_depth(std::int64_t depth) { return (depth + kTileDepth - 1) / kTileDepth * kTileDepth; }
std::int64_t padded_rows(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; }

// The first `count` of 16 pairs, the others 0.
inline __m512i load_pairs(const std::uint16_t* p, std::int64_t count) {
  const auto mask = static_cast<__mmask32>(count >= 32 ? 0xffffffffu : (1u << count) - 1);
  return _mm512_maskz_loadu_epi16(mask, p);
}

void pack_a(const MatrixRef& a, std::int64_t rows, std::int64_t depth, void* packed) {
  const auto* data = static_cast<const std::uint16_t*>(a.data);
  auto* out = static_cast<std::uint16_t*>(packed);
  const std::int64_t padded = padded_depth(depth);
  for (std::int64_t row = 0; row < padded_rows(rows); ++row, out += kRowPitch) {
    const auto* line = data + row * a.row_stride;
    if (row >= rows) {
      std::memset(out, 0, static_cast<std::size_t>(padded) * 2);
    } else if (a.col_stride == 1) {
      for (std::int64_t k = 0; k < padded; k += 32) {
        _mm512_storeu_si512(out + k, load_pairs(line + k, depth - k));
      }
    } else {
      for (std::int64_t k = 0; k < depth; ++k) out[k] = line[k * a.col_stride];
      std::memset(out + depth, 0, static_cast<std::size_t>(padded - depth) * 2);
    }
  }
}

inline void exchange(__m512i& a, __m512i& b, __m512i low, __m512i high) {
  const __m512i first = _mm512_permutex2var_epi32(a, low, b);
  b = _mm512_permutex2var_epi32(a, high, b);
  a = first;
}

// Transposes 16 vectors of 16 pairs: blocks of `step` lanes change places, for step 8, 4, 2, 1.
template <int kStep>
inline void transpose(__m512i* rows) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i step = _mm512_set1_epi32(kStep);
  const __m512i other = _mm512_sub_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), step);
  const __mmask16 upper = _mm512_test_epi32_mask(lane, step);
  const __m512i low = _mm512_mask_mov_epi32(lane, upper, other);
  const __m512i high = _mm512_mask_add_epi32(_mm512_add_epi32(lane, step), upper, lane, _mm512_set1_epi32(16));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if ((i & kStep) == 0) exchange(rows[i], rows[i + kStep], low, high);
  }
  if constexpr (kStep > 1) transpose<kStep / 2>(rows);
}

// One tile of B whose columns are contiguous (weights as the checkpoint has them).
void pack_tile_of_columns(const std::uint16_t* data, std::int64_t pitch, std::int64_t depth, std::int64_t cols,
                          std::uint16_t* out) {
  __m512i block[16];
#pragma GCC unroll 16
  for (int c = 0; c < 16; ++c) block[c] = c < cols ? load_pairs(data + c * pitch, depth) : _mm512_setzero_si512();
  transpose<8>(block);
#pragma GCC unroll 16
  for (int p = 0; p < 16; ++p) _mm512_storeu_si512(out + p * 32, block[p]);
}

// One tile of B whose rows are contiguous.
void pack_tile_of_rows(const std::uint16_t* data, std::int64_t pitch, std::int64_t depth, std::int64_t cols,
                       std::uint16_t* out) {
  const auto mask = static_cast<__mmask16>(cols >= 16 ? 0xffffu : (1u << cols) - 1);
  for (std::int64_t p = 0; p < 16; ++p) {
    const auto line = [&](std::int64_t k) {
      return k < depth ? _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, data + k * pitch))
                       : _mm512_setzero_si512();
    };
    _mm512_storeu_si512(out + p * 32,
                        _mm512_or_si512(line(2 * p), _mm512_maskz_slli_epi32(0xffff, line(2 * p + 1), 16)));
  }
}

void pack_tile(const MatrixRef& b, std::int64_t depth, std::int64_t cols, std::uint16_t* out) {
  const auto* data = static_cast<const std::uint16_t*>(b.data);
  if (b.row_stride == 1) return pack_tile_of_columns(data, b.col_stride, depth, cols, out);
  if (b.col_stride == 1) return pack_tile_of_rows(data, b.row_stride, depth, cols, out);
  for (std::int64_t i = 0; i < kTileElements; ++i) {
    const std::int64_t k = i / 32 * 2 + i % 2;
    const std::int64_t c = i / 2 % 16;
    out[i] = k < depth && c < cols ? data[k * b.row_stride + c * b.col_stride] : 0;
  }
}

// Strip by strip, for each 32 of depth two tiles of 16 columns: 16 rows of 16 pairs (k, k + 1).
void pack_b(const MatrixRef& b, std::int64_t depth, std::int64_t cols, void* packed) {
  auto* out = static_cast<std::uint16_t*>(packed);
  for (std::int64_t col = 0; col < cols; col += kCols) {
    for (std::int64_t k = 0; k < depth; k += kTileDepth) {
      for (std::int64_t half = 0; half < kCols; half += 16, out += kTileElements) {
        const std::int64_t width = cols - col - half;
        if (width > 0) {
          pack_tile(b.at(k, col + half), depth - k, width, out);
        } else {
          std::memset(out, 0, kTileElements * 2);
        }
      }
    }
  }
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// 16·kHigh rows × 32 columns of C. Tiles 0-3: C; 4, 5: A; 6, 7: B.
template <int kHigh>
inline void micro_tile(const std::uint16_t* a, std::int64_t a_pitch, const std::uint16_t* b, std::int64_t steps,
                       float* c, std::int64_t ldc, bool accumulate) {
  const std::int64_t c_pitch = ldc * 4;
  float* c_lower = c + kTileRows * ldc;
  if (accumulate) {
    _tile_loadd(0, c, c_pitch);
    _tile_loadd(1, c + 16, c_pitch);
    if constexpr (kHigh == 2) {
      _tile_loadd(2, c_lower, c_pitch);
      _tile_loadd(3, c_lower + 16, c_pitch);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const std::uint16_t* a_lower = a + kTileRows * a_pitch;
  for (std::int64_t s = 0; s < steps; ++s, a += kTileDepth, a_lower += kTileDepth, b += 2 * kTileElements) {
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + kTileElements, 64);
    _tile_loadd(4, a, a_pitch * 2);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kHigh == 2) {
      _tile_loadd(5, a_lower, a_pitch * 2);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_pitch);
  _tile_stored(1, c + 16, c_pitch);
  if constexpr (kHigh == 2) {
    _tile_stored(2, c_lower, c_pitch);
    _tile_stored(3, c_lower + 16, c_pitch);
  }
}

// A micro-tile that overhangs C is computed aside.
template <int kHigh>
void edge_tile(const std::uint16_t* a, std::int64_t a_pitch, const std::uint16_t* b, std::int64_t steps, float* c,
               std::int64_t ldc, bool accumulate, std::int64_t rows, std::int64_t cols) {
  alignas(64) float aside[2 * kTileRows * kCols] = {};
  const std::size_t bytes = static_cast<std::size_t>(cols) * sizeof(float);
  for (std::int64_t r = 0; accumulate && r < rows; ++r) std::memcpy(aside + r * kCols, c + r * ldc, bytes);
  micro_tile<kHigh>(a, a_pitch, b, steps, aside, kCols, accumulate);
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(c + r * ldc, aside + r * kCols, bytes);
}

template <int kHigh>
inline void any_tile(const std::uint16_t* a, std::int64_t a_pitch, const std::uint16_t* b, std::int64_t steps, float* c,
                     std::int64_t ldc, bool accumulate, std::int64_t rows, std::int64_t cols) {
  if (rows == kHigh * kTileRows && cols == kCols) {
    micro_tile<kHigh>(a, a_pitch, b, steps, c, ldc, accumulate);
  } else {
    edge_tile<kHigh>(a, a_pitch, b, steps, c, ldc, accumulate, rows, cols);
  }
}

void multiply(const void* a, std::int64_t a_pitch, const void* b, std::int64_t rows, std::int64_t cols,
              std::int64_t depth, float* c, std::int64_t ldc, bool accumulate) {
  // The tile configuration belongs to the thread, and other libraries in the process set it too.
  const TileConfig config;
  _tile_loadconfig(&config);
  const std::int64_t steps = padded_depth(depth) / kTileDepth;
  const auto* strip = static_cast<const std::uint16_t*>(b);
  for (std::int64_t col = 0; col < cols; col += kCols, strip += steps * 2 * kTileElements) {
    const std::int64_t width = cols - col < kCols ? cols - col : kCols;
    for (std::int64_t row = 0; row < rows; row += 2 * kTileRows) {
      const std::int64_t height = rows - row < 2 * kTileRows ? rows - row : 2 * kTileRows;
      const auto* a_rows = static_cast<const std::uint16_t*>(a) + row * a_pitch;
      float* target = c + row * ldc + col;
      if (height > kTileRows) {
        any_tile<2>(a_rows, a_pitch, strip, steps, target, ldc, accumulate, height, width);
      } else {
        any_tile<1>(a_rows, a_pitch, strip, steps, target, ldc, accumulate, height, width);
      }
    }
  }
  _tile_release();
}

std::size_t a_bytes(std::int64_t rows) { return static_cast<std::size_t>(padded_rows(rows) * kRowPitch) * 2; }

std::size_t b_bytes(std::int64_t depth, std::int64_t cols) {
  return static_cast<std::size_t>((cols + kCols - 1) / kCols * kCols * padded_depth(depth)) * 2;
}

bool reads_in_place(const MatrixRef& a, std::int64_t rows, std::int64_t depth) {
  return a.col_stride == 1 && rows % kTileRows == 0 && depth % kTileDepth == 0;
}

// The kernel hands out the tile registers only to processes that ask.
bool tiles_granted() {
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

constexpr PanelKernels kKernels = {"amx",  4 * 2 * kTileRows, kRowPitch, a_bytes, b_bytes, pack_a,
                                   pack_b, reads_in_place,    multiply};

bool cpu_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx512bw") != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & (1u << 22)) != 0 && (d & (1u << 24)) != 0;
}

}  // namespace

const PanelKernels* amx_panel_kernels() {
  static const bool usable = cpu_has_amx() && tiles_granted();
  return usable ? &kKernels : nullptr;
}

}  // namespace coda::cpu

#else

namespace coda::cpu {
const PanelKernels* amx_panel_kernels() { return nullptr; }
}  // namespace coda::cpu

#endif
