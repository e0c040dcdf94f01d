// Files of tests/golden: compared with what the code makes now, or rewritten where CODA_UPDATE_GOLDEN is 1.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace coda {

inline const std::filesystem::path kGoldenFolder = std::filesystem::path(CODA_SOURCE_DIR) / "tests" / "golden";

inline std::string read_golden(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class GoldenFiles {
 public:
  /// Those with that ending: ".ir", ".cu".
  explicit GoldenFiles(std::string ending) : ending_(std::move(ending)) {}

  std::set<std::filesystem::path> all() const {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(kGoldenFolder))
      if (entry.path().extension() == ending_) files.insert(entry.path());
    return files;
  }

  void expect(const std::string& name, const std::string& text) {
    SCOPED_TRACE(name);
    const std::filesystem::path path = kGoldenFolder / (name + ending_);
    EXPECT_TRUE(expected_.insert(path).second) << "two have one name";
    if (updating()) std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(read_golden(path), text) << "if the change is meant: make golden";
  }

  void expect_no_others() const {
    for (const std::filesystem::path& path : all()) {
      if (expected_.contains(path)) continue;
      if (updating())
        std::filesystem::remove(path);
      else
        ADD_FAILURE() << path << " is of nothing the library has: make golden";
    }
  }

 private:
  static bool updating() {
    const char* flag = std::getenv("CODA_UPDATE_GOLDEN");
    return flag != nullptr && std::string(flag) == "1";
  }

  std::string ending_;
  std::set<std::filesystem::path> expected_;
};

}  // namespace coda
