// Every mistake src/io refuses, and its text.
#include <gtest/gtest.h>

#include "coda/safetensors.h"
#include "support/error_row.h"
#include "support/temporary_folder.h"

namespace coda {
namespace {

using testing_support::expect_errors;
using testing_support::safetensors_bytes;
using testing_support::TemporaryFolder;

class IoErrors : public ::testing::Test {
 protected:
  /// What opening a file of that content says, with "<file>" for its path.
  void expect_refused(const std::string& content, const std::string& message) {
    const std::string path = folder_.write("m.safetensors", content);
    expect_errors(
        {{typeid(ValueError), "safetensors: file '" + path + "' " + message, [&] { (void)SafetensorsFile(path); }}});
  }
  void expect_header_refused(const std::string& header, const std::string& message, const std::string& data = "") {
    expect_refused(safetensors_bytes(header, data), message);
  }
  TemporaryFolder folder_;
};

TEST_F(IoErrors, Open) {
  const std::string absent = folder_.path() + "/absent";
  expect_errors({
      {typeid(FileError),
       "open: file '" + absent + "' cannot be opened (No such file or directory): check the path and its permissions",
       [&] { (void)SafetensorsFile(absent); }},
      {typeid(FileError), "open: '" + folder_.path() + "' is a folder, expected a regular file",
       [&] { (void)SafetensorsFile(folder_.path()); }},
      {typeid(FileError), "open: '/dev/null' is a device or pipe, expected a regular file",
       [&] { (void)read_text_file("/dev/null"); }},
  });
}

TEST_F(IoErrors, ForeignFiles) {
  expect_refused("PK\x03\x04zip", "looks like a zip archive, as torch.save writes: save the weights with safetensors");
  expect_refused("\x80\x02}q", "looks like a pickle, as old torch.save writes: save the weights with safetensors");
  expect_refused("GGUF\x03",
                 "looks like a GGUF file: load it with transformers (gguf_file=) and save it with save_pretrained");
  expect_refused("<!DOCTYPE html>", "looks like an HTML page: the download failed, repeat it");
  expect_refused("<html>", "looks like an HTML page: the download failed, repeat it");
  expect_refused("version https://git-lfs.github.com/spec/v1", "looks like a Git LFS pointer: run git lfs pull");
  expect_refused("\x89HDF\r\n", "looks like an HDF5 file: save the weights with safetensors");
  expect_refused("\x1f\x8b\x08", "looks like a gzip archive: unpack it first");
  expect_refused("{\"w\":1}", "looks like JSON text without the 8 bytes of length before it");
}

TEST_F(IoErrors, Length) {
  expect_refused("", "has 0 bytes, expected at least 8: it is empty or cut short, download it again");
  expect_refused(
      std::string("\x01\x02\x03\x04\x05\x06\x07\x08 ", 9),
      "announces a header of 578437695752307201 bytes, expected at most 100000000: it is no safetensors file");
  expect_refused(safetensors_bytes("{}      ", "").substr(0, 12),
                 "has 12 bytes, expected 16 for its header alone: it is cut short, download it again");
}

TEST_F(IoErrors, Json) {
  expect_header_refused("[]", "has a header that is no JSON object, expected {\"name\": {...}}");
  expect_header_refused("{\"w\":",
                        "has a header that is no JSON ([json.exception.parse_error.101] parse error at line 1, column "
                        "6: syntax error while parsing value - unexpected end of input; expected '[', '{', or a "
                        "literal): it is damaged or no safetensors file");
  expect_header_refused(R"({"w":{},"w":{}})", "has 'w' twice in its header, expected each name once");
  expect_header_refused(R"({"w":{"dtype":"F32","dtype":"F32"}})",
                        "has 'dtype' twice in its header, expected each name once");
  expect_header_refused(R"({"__metadata__":{"a":1}})", "has a __metadata__ that is no object of texts");
}

TEST_F(IoErrors, Entries) {
  const std::string w = "describes tensor 'w'";
  expect_header_refused(R"({"w":3})", w + " by number, expected an object");
  expect_header_refused(R"({"w":{}})", w + " without a text 'dtype'");
  expect_header_refused(R"({"w":{"dtype":"F32"}})", w + " without an array 'data_offsets'");
  expect_header_refused(R"({"w":{"dtype":"F32","data_offsets":[0,-4]}})",
                        w + " whose 'data_offsets' holds -4, expected integers from 0 up");
  expect_header_refused(R"({"w":{"dtype":"F32","data_offsets":[4,0]}})",
                        w + " with data_offsets [4, 0], expected [begin, end]");
  expect_header_refused(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", w + " without an array 'shape'");
  expect_header_refused(R"({"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})",
                        w + " whose 'shape' holds 1.5, expected integers from 0 up");
  expect_header_refused(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
                        w + " of shape [2] and dtype F32 with 4 bytes, expected 8: the header is damaged", "0123");
  expect_header_refused(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})",
                        w + " of shape [4611686018427387904, 4] and dtype F32 with 4 bytes, expected more than 2^64: "
                            "the header is damaged",
                        "0123");
  expect_header_refused(R"({"w":{"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[0,4]}})",
                        "has tensor 'w' with 5 dimensions, expected at most 4", "0123");
}

TEST_F(IoErrors, Layout) {
  const std::string a = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)";
  expect_header_refused(a + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                        "has 7 bytes of data, but tensor 'b' ends at byte 8: the file is cut short, download it again",
                        "0123456");
  expect_header_refused(a + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                        "has tensor 'b' at byte 2 of the data, expected 4: it overlaps the one before", "0123456");
  expect_header_refused(a + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})",
                        "has tensor 'b' at byte 5 of the data, expected 4: bytes before it belong to no tensor",
                        "012345678");
  expect_header_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                        "has 5 bytes of data, expected 4: bytes at its end belong to no tensor", "01234");
}

TEST_F(IoErrors, Views) {
  const std::string path =
      folder_.write("m.safetensors", safetensors_bytes(R"({"m":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                                                       R"("n":{"dtype":"F4","shape":[3],"data_offsets":[2,4]}})",
                                                       "abcd"));
  const SafetensorsFile file(path);
  expect_errors({
      {typeid(ValueError), "safetensors: file '" + path + "' has no tensor 'w'", [&] { (void)file.view("w"); }},
      {typeid(TypeError),
       "safetensors: file '" + path +
           "' holds tensor 'm' as F8_E4M3, expected F64, F32, BF16, F16, I32 or I64: convert the checkpoint first",
       [&] { (void)file.view("m"); }},
      {typeid(TypeError),
       "safetensors: file '" + path +
           "' holds tensor 'n' as F4, expected F64, F32, BF16, F16, I32 or I64: convert the checkpoint first",
       [&] { (void)file.view("n"); }},
  });
}

TEST_F(IoErrors, Checkpoints) {
  const std::string& folder = folder_.path();
  const std::string index = folder + "/model.safetensors.index.json";
  const auto open = [&] { (void)Checkpoint(folder); };
  const auto with_index = [&](const std::string& json) {
    return [this, json, &folder] {
      folder_.write("model.safetensors.index.json", json);
      (void)Checkpoint(folder);
    };
  };
  folder_.write("shard", safetensors_bytes(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "0123"));
  expect_errors({
      {typeid(FileError), "checkpoint: '/absent' is no folder, expected one with config.json and model.safetensors",
       [] { (void)Checkpoint("/absent"); }},
      {typeid(FileError),
       "checkpoint: folder '" + folder +
           "' has neither model.safetensors nor model.safetensors.index.json: save the model with "
           "save_pretrained(folder, safe_serialization=True)",
       open},
      {typeid(ValueError),
       "checkpoint: file '" + index + "' is no JSON with an object 'weight_map': it is damaged, download it again",
       with_index("{\"weight_map\":")},
      {typeid(ValueError), "checkpoint: file '" + index + "' maps tensor 'w' to something that is no file name",
       with_index(R"({"weight_map":{"w":3}})")},
      {typeid(ValueError),
       "checkpoint: file '" + index + "' maps tensor 'w' to '../x', expected a file name in the same folder",
       with_index(R"({"weight_map":{"w":"../x"}})")},
      {typeid(FileError),
       "checkpoint: shard 'gone' is missing from folder '" + folder +
           "', which model.safetensors.index.json names: download it",
       with_index(R"({"weight_map":{"w":"gone"}})")},
      {typeid(ValueError),
       "checkpoint: shard 'shard' of folder '" + folder +
           "' has no tensor 'x', which model.safetensors.index.json places there",
       with_index(R"({"weight_map":{"x":"shard"}})")},
      {typeid(ValueError), "checkpoint: folder '" + folder + "' has no tensor 'x'",
       [&] {
         folder_.write("model.safetensors.index.json", R"({"weight_map":{"w":"shard"}})");
         (void)Checkpoint(folder).view("x");
       }},
  });
}

}  // namespace
}  // namespace coda
