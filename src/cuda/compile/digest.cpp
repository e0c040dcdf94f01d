#include "cuda/compile/digest.h"

#include <blake3.h>

#include <cstdint>

namespace coda::cuda {
namespace {

class Hasher {
 public:
  Hasher() {
    // BLAKE3 looks at the processor at its first compression and keeps the answer in a plain variable: let that happen
    // in one thread.
    [[maybe_unused]] static const bool looked = [] {
      blake3_hasher first;
      blake3_hasher_init(&first);
      std::uint8_t bytes[1];
      blake3_hasher_finalize(&first, bytes, sizeof bytes);
      return true;
    }();
    blake3_hasher_init(&state_);
  }

  void add(std::string_view bytes) { blake3_hasher_update(&state_, bytes.data(), bytes.size()); }

  std::string hex() const {
    std::uint8_t bytes[BLAKE3_OUT_LEN];
    blake3_hasher_finalize(&state_, bytes, sizeof bytes);
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
      text += digits[byte >> 4];
      text += digits[byte & 15];
    }
    return text;
  }

 private:
  blake3_hasher state_;
};

}  // namespace

std::string digest(const std::vector<std::string_view>& fields) {
  Hasher hasher;
  for (const std::string_view field : fields) {
    char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(std::uint64_t{field.size()} >> (8 * i) & 0xff);
    hasher.add({length, sizeof length});
    hasher.add(field);
  }
  return hasher.hex();
}

std::string checksum(std::string_view bytes) {
  Hasher hasher;
  hasher.add(bytes);
  return hasher.hex();
}

}  // namespace coda::cuda
