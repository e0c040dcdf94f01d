// Reading safetensors files: values, alignment, shards, and that no damaged file does anything but raise coda::Error.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "coda/safetensors.h"
#include "support/temporary_folder.h"

namespace coda {
namespace {

using testing_support::safetensors_bytes;
using testing_support::TemporaryFolder;

const std::string kHeader = R"({"__metadata__":{"format":"pt"},)"
                            R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                            R"("h":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]},)"
                            R"("mask":{"dtype":"BOOL","shape":[2],"data_offsets":[30,32]},)"
                            R"("empty":{"dtype":"I64","shape":[0,4],"data_offsets":[32,32]},)"
                            R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[32,40]}})";

std::string data_bytes() {
  std::string data(40, '\0');
  const float w[6] = {1, -2, 3.5f, 4, 5, 6};
  const std::uint16_t h[3] = {to_bfloat16(0.5f).bits, to_bfloat16(-1).bits, to_bfloat16(3).bits};
  const double scalar = 0.1;
  std::memcpy(data.data(), w, 24);
  std::memcpy(data.data() + 24, h, 6);
  std::memcpy(data.data() + 32, &scalar, 8);
  return data;
}

void expect_values(const SafetensorsFile& file) {
  const TensorView w = file.view("w");
  EXPECT_EQ(w.dtype(), DType::F32);
  EXPECT_EQ(shape_text(w.shape()), "[2, 3]");
  EXPECT_EQ(w.at(0, 2), 3.5);
  EXPECT_EQ(w.at(1, 2), 6);
  EXPECT_EQ(load_element(DType::BF16, file.view("h").data(), 1), -1);
  EXPECT_EQ(load_element(DType::F64, file.view("scalar").data(), 0), 0.1);
  EXPECT_EQ(file.view("empty").size(), 0);
}

// The header's length decides where the data starts: every start relative to 8 bytes must give the same values.
TEST(Safetensors, ReadsAtEveryAlignment) {
  const TemporaryFolder folder;
  for (std::size_t padding = 0; padding < 9; ++padding) {
    const SafetensorsFile file(
        folder.write("a.safetensors", safetensors_bytes(kHeader + std::string(padding, ' '), data_bytes())));
    ASSERT_EQ(file.entries().size(), 5u);
    EXPECT_EQ(file.find("mask")->dtype_name, "BOOL");
    EXPECT_EQ(file.find("absent"), nullptr);
    expect_values(file);
    for (const auto& entry : file.entries()) {
      if (!entry.dtype) continue;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.view(entry.name).data()) % size_of(*entry.dtype), 0u);
    }
  }
}

TEST(Safetensors, CopiesShareTheMapping) {
  const TemporaryFolder folder;
  std::optional<SafetensorsFile> first(folder.write("a.safetensors", safetensors_bytes(kHeader, data_bytes())));
  const SafetensorsFile second = *first;
  first.reset();
  expect_values(second);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = safetensors_bytes(kHeader, data_bytes());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string path = folder.write("a.safetensors", whole.substr(0, length));
    EXPECT_THROW(SafetensorsFile{path}, ValueError) << length;
  }
  EXPECT_THROW(SafetensorsFile{folder.write("a.safetensors", whole + "x")}, ValueError);
}

// Flipped bytes give a file that reads, possibly with other values, or one of our errors: nothing else.
TEST(Safetensors, DamagedBytesRaiseOnlyOurErrors) {
  const TemporaryFolder folder;
  const std::string whole = safetensors_bytes(kHeader, data_bytes());
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
      damaged[random() % (8 + kHeader.size())] = static_cast<char>(random());
    try {
      const SafetensorsFile file(folder.write("a.safetensors", damaged));
      for (const auto& entry : file.entries())
        if (entry.dtype) {
          const TensorView view = file.view(entry.name);
          for (std::int64_t i = 0; i < view.size(); ++i) load_element(view.dtype(), view.data(), i);
        }
    } catch (const Error&) {
    }
  }
}

TEST(Checkpoint, SingleFile) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_bytes(kHeader, data_bytes()));
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"empty", "h", "mask", "scalar", "w"}));
  EXPECT_TRUE(checkpoint.contains("w"));
  EXPECT_EQ(checkpoint.view("w").at(0, 1), -2);
}

TEST(Checkpoint, Shards) {
  const TemporaryFolder folder;
  folder.write("model-00001-of-00002.safetensors", safetensors_bytes(kHeader, data_bytes()));
  folder.write(
      "model-00002-of-00002.safetensors",
      safetensors_bytes(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", data_bytes().substr(8, 4)));
  folder.write("model.safetensors.index.json", R"({"metadata":{},"weight_map":{"w":"model-00001-of-00002.safetensors",)"
                                               R"("x":"model-00002-of-00002.safetensors"}})");
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"w", "x"}));
  EXPECT_EQ(load_element(DType::F32, checkpoint.view("x").data(), 0), 3.5);
}

}  // namespace
}  // namespace coda
