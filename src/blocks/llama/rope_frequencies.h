// Inverse frequencies of rotary embeddings, to the bit as transformers computes them in fp32 (a frequency off by one
// unit in its last place turns into 1e-4 of angle at position 1000).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coda/tensor.h"

namespace coda {

/// base^(−2p/width) for p < width/2.
std::vector<float> base_frequencies(double base, std::int64_t width);

/// Llama 3.1's stretching of long wavelengths.
struct Llama3Rope {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_length = 8192;
};
std::vector<float> llama3_frequencies(std::vector<float> frequencies, const Llama3Rope& rope);

/// cos and sin of position·frequency, each (sequences·count, frequencies) f32, for positions first … first + count − 1
/// of each sequence.
struct RopeTables {
  Tensor cos, sin;
};
RopeTables rope_tables(std::span<const float> frequencies, std::int64_t first, std::int64_t count,
                       std::int64_t sequences = 1);

}  // namespace coda
