#include "blocks/llama/rope_frequencies.h"

#include <cmath>
#include <numbers>

#include "cpu/threads.h"

namespace coda {

std::vector<float> base_frequencies(double base, std::int64_t width) {
  std::vector<float> frequencies(static_cast<std::size_t>(width / 2));
  for (std::size_t p = 0; p < frequencies.size(); ++p) {
    const float exponent = static_cast<float>(2 * p) / static_cast<float>(width);
    frequencies[p] = 1.0f / static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return frequencies;
}

std::vector<float> llama3_frequencies(std::vector<float> frequencies, const Llama3Rope& rope) {
  const auto factor = static_cast<float>(rope.factor);
  const auto low = static_cast<float>(rope.low_freq_factor);
  const auto length = static_cast<float>(rope.original_length);
  const auto longest = static_cast<float>(rope.original_length / rope.low_freq_factor);
  const auto shortest = static_cast<float>(rope.original_length / rope.high_freq_factor);
  const auto range = static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  for (float& frequency : frequencies) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wavelength > longest) {
      frequency = frequency / factor;
    } else if (wavelength >= shortest) {
      const float smooth = (length / wavelength - low) / range;
      frequency = (1.0f - smooth) * frequency / factor + smooth * frequency;
    }
  }
  return frequencies;
}

RopeTables rope_tables(std::span<const float> frequencies, std::int64_t first, std::int64_t count,
                       std::int64_t sequences) {
  const auto width = static_cast<std::int64_t>(frequencies.size());
  const std::int64_t rows = sequences * count;
  RopeTables tables{Tensor::empty({rows, width}, DType::F32), Tensor::empty({rows, width}, DType::F32)};
  cpu::parallel_for(rows, [&](int, std::int64_t row) {
    for (std::int64_t p = 0; p < width; ++p) {
      const float angle = static_cast<float>(first + row % count) * frequencies[static_cast<std::size_t>(p)];
      tables.cos.data<float>()[row * width + p] = static_cast<float>(std::cos(static_cast<double>(angle)));
      tables.sin.data<float>()[row * width + p] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  });
  return tables;
}

}  // namespace coda
