// The text of every library program is checked in: a change that alters one shows as a diff of tests/golden.
// CODA_UPDATE_GOLDEN=1 (tools/update_golden) rewrites the files instead of comparing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "coda/epilogues.h"

namespace coda {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(CODA_SOURCE_DIR) / "tests" / "golden";

bool updating() {
  const char* flag = std::getenv("CODA_UPDATE_GOLDEN");
  return flag != nullptr && std::string(flag) == "1";
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<fs::path> golden_files() {
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() == ".ir") files.insert(entry.path());
  return files;
}

TEST(GoldenPrograms, AreTheLibrarys) {
  std::set<fs::path> expected;
  for (const auto& [name, program] : epilogues::library()) {
    SCOPED_TRACE(name);
    const fs::path path = kFolder / (name + ".ir");
    EXPECT_TRUE(expected.insert(path).second) << "two programs of the library have one name";
    if (updating()) std::ofstream(path, std::ios::binary) << to_text(program);
    EXPECT_EQ(read(path), to_text(program)) << "if the change is meant: make golden";
  }
  for (const fs::path& path : golden_files()) {
    if (expected.contains(path)) continue;
    if (updating())
      fs::remove(path);
    else
      ADD_FAILURE() << path << " is no program of the library: make golden";
  }
}

TEST(GoldenPrograms, ParseToThemselves) {
  for (const fs::path& path : golden_files()) {
    SCOPED_TRACE(path);
    EXPECT_EQ(to_text(parse_program(read(path))), read(path));
  }
}

}  // namespace
}  // namespace coda
