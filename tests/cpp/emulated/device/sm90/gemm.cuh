// run_gemm on the CPU: the product is taken plainly, and the program runs on it chunk by chunk as the epilogue's frame
// runs it on a GPU, a consumer's four warps on 64 rows. Tiles come one after the other; what is exact here is the
// kernel's own text, its argument layout and the device functions it calls.
#pragma once

#include <vector>

#include "columns.cuh"
#include "heads.cuh"
#include "math.cuh"
#include "pairs.cuh"
#include "reduce.cuh"
#include "tile.cuh"

namespace coda {

constexpr int kThreads = 384;

// What the emulated driver writes into a tensor map. Types as the driver counts them: 6 f16, 7 f32, 9 bf16.
struct MapContent {
  char* data;
  u64 inner, outer, pitch;  // extents in elements, pitch in bytes
  int type;
};

inline MapContent content(const TensorMap& map) {
  MapContent content;
  std::memcpy(&content, map.opaque, sizeof content);
  return content;
}

inline bool is_inside(const MapContent& map, i64 inner, i64 outer) {
  return inner >= 0 && outer >= 0 && inner < static_cast<i64>(map.inner) && outer < static_cast<i64>(map.outer);
}

// Copied boxes are filled with zeros past the edges, and nothing past them is written.
inline float load_element(const MapContent& map, i64 inner, i64 outer) {
  if (!is_inside(map, inner, outer)) return 0;
  const char* at = map.data + outer * static_cast<i64>(map.pitch) + inner * (map.type == 7 ? 4 : 2);
  if (map.type == 7) return *reinterpret_cast<const float*>(at);
  const u16 bits = *reinterpret_cast<const u16*>(at);
  return map.type == 9 ? low_bf16(bits) : low_f16(bits);
}

inline void store_element(const MapContent& map, i64 inner, i64 outer, float value, bool adds) {
  if (!is_inside(map, inner, outer)) return;
  char* at = map.data + outer * static_cast<i64>(map.pitch) + inner * (map.type == 7 ? 4 : 2);
  if (map.type == 7) {
    float& to = *reinterpret_cast<float*>(at);
    to = adds ? to + value : value;
  } else {
    *reinterpret_cast<u16*>(at) = static_cast<u16>(map.type == 9 ? pack_bf16(value, 0) : pack_f16(value, 0));
  }
}

template <class C, class Program>
using EmulatedSums =
    float[Program::kSpans > 0 ? C::kOutputTileN / Program::kSpanHead : 1][kAtLeastOne<Program::kSpans>][2];

template <class C, class Program>
struct EmulatedVectors {
  const float (&cols)[kAtLeastOne<C::kCols>][2];
  const EmulatedSums<C, Program>& spans;
  const std::vector<std::vector<float>>& rows;  // of the tile's columns
  std::vector<float>& lines;
  int in_tile;

  float entry(int index, int c, int shift) const {
    const int first = in_tile + static_cast<int>(lane_id() % 4) * 2;
    return rows[static_cast<std::size_t>(index)][static_cast<std::size_t>(first + c % 2 + c / 2 * 8 + shift)];
  }
  template <int Index>
  void row(float (&values)[4]) const {
    for (int c = 0; c < 4; ++c) values[c] = entry(Index, c, 0);
  }
  template <int Index, class Pairs>
  void partner_row(const Position& at, float (&values)[4]) const {
    for (int c = 0; c < 4; ++c) values[c] = entry(Index, c, to_partner<Pairs>(at, c));
  }
  template <int Index, class Pairs>
  void pair_row(const Position& at, float (&values)[4]) const {
    for (int c = 0; c < 4; ++c) values[c] = entry(Index, c, to_first<Pairs>(at, c));
  }
  template <int Index>
  float span(const Position& at, int e) const {
    return of_head<Program::kSpanHead>(spans, Index, at, e);
  }
  template <int Index>
  float* line() const {
    const int warp = static_cast<int>(threadIdx.x / 32);
    return &lines[static_cast<std::size_t>((Index * kLines + warp) * C::kOutputTileN + in_tile)];
  }
};

template <class C>
class EmulatedTile {
 public:
  EmulatedTile(const typename C::Params& p, i32 segment, i32 row, i32 col)
      : p_(p), segment_(segment), row_(row), col_(col) {
    for (int which = 0; which < (C::kPair ? 2 : 1); ++which) multiply(which);
  }

  template <class Program>
  void run(const typename Program::Arguments& a) {
    rows_.assign(kAtLeastOne<Program::kRows>, std::vector<float>(C::kOutputTileN));
    for (i32 col = 0; col < C::kOutputTileN; ++col) {
      if constexpr (Program::kRows > 0) {
        float kept[Program::kRows];
        Program::rows(a, col_ + col, kept);
        for (int i = 0; i < Program::kRows; ++i)
          rows_[static_cast<std::size_t>(i)][static_cast<std::size_t>(col)] = kept[i];
      }
    }
    lines_.resize(static_cast<std::size_t>(kAtLeastOne<Program::kColumns> * kLines) * C::kOutputTileN);
    for (i32 first = 0; first < C::kTileM; first += kPartialRows)
      fibers::run_blocks(1, 128, [&] { run_thread<Program>(a, row_ + first); });
  }

 private:
  static constexpr int kAccumulators = C::kOutputTileN / 2;

  void multiply(int which) {
    std::vector<float>& to = product_[which];
    to.assign(static_cast<std::size_t>(C::kTileM) * C::kOutputTileN, 0.f);
    for (int part = 0; part < C::kKParts; ++part) {
      const MapContent a = content(p_.a[C::kKParts > 1 ? part : C::kSegmentsAlongN ? 0 : segment_]);
      const MapContent b = content(p_.b[C::kKParts > 1 ? part : C::kPair ? which : C::kSegmentsAlongN ? segment_ : 0]);
      const i64 depth = p_.k_blocks[part] * 64;
      for (i64 m = 0; m < C::kTileM; ++m)
        for (i64 n = 0; n < C::kOutputTileN; ++n) {
          float& sum = to[static_cast<std::size_t>(m * C::kOutputTileN + n)];
          for (i64 k = 0; k < depth; ++k)
            sum += load_element(a, C::kAMajorK ? k : row_ + m, C::kAMajorK ? row_ + m : k) *
                   load_element(b, C::kBMajorK ? k : col_ + n, C::kBMajorK ? col_ + n : k);
        }
    }
  }

  // A thread's accumulators of two rows, in the order the tensor cores give them.
  void gather(int which, i32 row, float (&acc)[kAccumulators]) const {
    for (int i = 0; i < kAccumulators; ++i) {
      const i32 m = row + i / 2 % 2 * 8, n = i / 4 * 8 + static_cast<i32>(lane_id() % 4) * 2 + i % 2;
      acc[i] = C::kPair || which == 0 ? product_[which][static_cast<std::size_t>(m * C::kOutputTileN + n)] : 0;
    }
  }

  // The accumulators of a chunk and their partners.
  struct Chunk {
    float acc[2][8] = {}, partner[2][8] = {};
  };
  template <class Pairs>
  Chunk chunk_of(const float (&acc)[2][kAccumulators], const Position& at) const {
    Chunk chunk;
    for (int which = 0; which < (C::kPair ? 2 : 1); ++which)
      for (int e = 0; e < 8; ++e) {
        chunk.acc[which][e] = acc[which][at.in_tile / 2 + e];
        chunk.partner[which][e] = partner_of<Pairs, kAccumulators>(acc[which], 0, at, e);
      }
    return chunk;
  }

  template <class Program>
  void run_thread(const typename Program::Arguments& a, i32 block_row) {
    const i32 row = block_row + static_cast<i32>(threadIdx.x / 32 * 16 + lane_id() / 4);
    float acc[2][kAccumulators];
    gather(0, row - row_, acc[0]);
    if constexpr (C::kPair) gather(1, row - row_, acc[1]);
    const auto at = [&](i32 in_tile) {
      const i32 col = col_ + in_tile;
      return Position{row,
                      col + static_cast<i32>(lane_id() % 4) * 2,
                      a.rows,
                      a.cols,
                      col,
                      in_tile,
                      in_tile + 16 == C::kOutputTileN,
                      col_ + C::kOutputTileN <= a.cols,
                      false,
                      false};
    };
    float cols[kAtLeastOne<C::kCols>][2] = {};
    if constexpr (Program::kCols > 0) Program::cols(a, at(0), cols);
    EmulatedSums<C, Program> spans = {};
    const auto vectors = [&](i32 in_tile) { return EmulatedVectors<C, Program>{cols, spans, rows_, lines_, in_tile}; };
    if constexpr (Program::kSpans > 0)
      for_each_constant<Program::kSpans>([&](auto span) {
        for (i32 in_tile = 0; in_tile < C::kOutputTileN; in_tile += 16) {
          const Chunk own = chunk_of<typename Program::TermPairs>(acc, at(in_tile));
          float terms[8];
          Program::terms(span, a, at(in_tile), vectors(in_tile), own.acc[0], own.acc[1], own.partner[0], own.partner[1],
                         terms);
          add_to_heads<Program::kSpanHead>(spans, span.value, at(in_tile), terms);
        }
        merge_heads(spans, span.value);
      });
    typename Program::Reductions reductions;
    for (i32 in_tile = 0; in_tile < C::kOutputTileN; in_tile += 16)
      run_chunk<Program>(a, at(in_tile), vectors(in_tile), acc, reductions);
    if constexpr (Program::kColumns > 0) store_columns<Program>(a, block_row);
  }

  template <class Program>
  void store_columns(const typename Program::Arguments& a, i32 row) const {
    __syncthreads();
    for (i32 col = static_cast<i32>(threadIdx.x); col < C::kOutputTileN; col += 128)
      if (row < a.rows && col_ + col < a.cols)
        Program::columns(a, row, col_ + col, &lines_[static_cast<std::size_t>(col)], C::kOutputTileN,
                         kLines * C::kOutputTileN);
    __syncthreads();
  }

  template <class Program, class Vectors>
  void run_chunk(const typename Program::Arguments& a, const Position& at, const Vectors& vectors,
                 const float (&acc)[2][kAccumulators], typename Program::Reductions& reductions) {
    using Inputs = typename Program::StagedInputs;
    using Outputs = typename Program::StagedOutputs;
    const Chunk own = chunk_of<typename Program::Pairs>(acc, at);
    float in[kAtLeastOne<Inputs::kCount>][8], out[kAtLeastOne<Outputs::kCount>][8];
    for (int e = 0; e < 8; ++e)
      for (int i = 0; i < Inputs::kCount; ++i)
        in[i][e] = load_element(content(p_.inputs[segment_ * C::kInputMaps + i]), global_col(at, col_of(e)),
                                global_row(at, row_of(e)));
    typename Program::Loads loads;
    Program::load(a, at, loads);
    Program::chunk(a, at, vectors, own.acc[0], own.acc[1], own.partner[0], own.partner[1], loads, in, out, reductions);
    for_each_constant<Outputs::kCount>([&](auto output) {
      using Element = typename ElementAt<decltype(output)::value, Outputs>::Type;
      for (int e = 0; e < 8; ++e)
        store_element(content(p_.outputs[segment_ * C::kOutputMaps + output.value]), global_col(at, col_of(e)),
                      global_row(at, row_of(e)), out[output.value][e], kAdds<Element>);
    });
  }

  const typename C::Params& p_;
  i32 segment_, row_, col_;
  std::vector<float> product_[2];
  std::vector<std::vector<float>> rows_;
  std::vector<float> lines_;
};

template <class C>
void run_gemm(const typename C::Params& p) {
  for (i32 m = 0; m < p.cluster_rows * C::kClusterM; ++m)
    for (i32 n = 0; n < p.cluster_cols * C::kClusterN; ++n) {
      i32 segment = 0, row = m, col = n;
      i32& along = C::kSegmentsAlongN ? col : row;
      const i32 cluster = C::kSegmentsAlongN ? C::kClusterN : C::kClusterM;
      while (segment + 1 < C::kSegments && along >= p.segment_tiles[segment] * cluster)
        along -= p.segment_tiles[segment++] * cluster;
      EmulatedTile<C> tile(p, segment, row * C::kTileM, col * C::kOutputTileN);
      C::visit(p, segment,
               [&](auto program, const auto& arguments) { tile.template run<decltype(program)>(arguments); });
    }
}

}  // namespace coda
