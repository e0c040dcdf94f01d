// Reading *.safetensors checkpoints. A file is mapped, not read: a tensor costs memory when it is used. Everything a
// header claims is checked before a file opens, so a bad file gives an error and never half a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coda/tensor.h"

namespace coda {

/// One file. Cheap to copy; views stay valid as long as any copy lives. The file must not shrink meanwhile: the
/// system then ends the process (SIGBUS).
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::string dtype_name;      ///< as the file spells it: "F32", "BF16", "I8", …
    std::optional<DType> dtype;  ///< nothing: a dtype coda does not hold; such a tensor is only listed
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  ///< bytes from the end of the header
    std::uint64_t end = 0;
  };

  /// Errors: FileError when the file cannot be read; ValueError when it is no whole safetensors file, saying what it
  /// looks like instead.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const;
  std::span<const Entry> entries() const;  ///< in the order of their data
  const Entry* find(const std::string& name) const;

  /// The tensor in place, never to be written; one whose data is not aligned to its element size is copied once.
  /// Errors: ValueError for an unknown name; TypeError for a dtype coda does not hold.
  TensorView view(const std::string& name) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// The tensors of a Hugging Face folder: model.safetensors, or the shards model.safetensors.index.json names.
class Checkpoint {
 public:
  /// Errors: as SafetensorsFile; ValueError for an index that disagrees with its shards.
  explicit Checkpoint(const std::string& folder);

  const std::string& folder() const { return folder_; }
  bool contains(const std::string& name) const { return file_of_.contains(name); }
  std::vector<std::string> names() const;  ///< sorted

  /// Errors: ValueError naming the tensor and the folder.
  TensorView view(const std::string& name) const;

 private:
  void open_shards(const std::string& index_path);

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

/// The whole of a text file. Errors: FileError.
std::string read_text_file(const std::string& path);

}  // namespace coda
