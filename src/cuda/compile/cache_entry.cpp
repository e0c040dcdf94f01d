#include "cuda/compile/cache_entry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>

#include "core/check.h"
#include "cuda/compile/cache_directory.h"
#include "cuda/compile/cache_meta.h"
#include "cuda/compile/cubin_header.h"
#include "cuda/compile/digest.h"
#include "cuda/compile/files.h"

namespace coda::cuda {
namespace {

constexpr const char* kText = "kernel.cu";
constexpr const char* kImage = "kernel.cubin";
constexpr const char* kMeta = "meta.json";
constexpr std::string_view kAside = ".tmp-";

// Errors of the process or the machine, not of the file.
bool may_pass(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR; }

// Reads one file into the entry, or says in the entry why not.
bool take_file(int folder, const char* name, std::string& content, Entry& entry) {
  const int error = read_file(folder, name, content);
  entry.bytes += static_cast<std::int64_t>(content.size());
  if (error == 0) return true;
  entry.state = may_pass(error) ? EntryState::Unreadable : EntryState::Bad;
  if (entry.problem.empty()) entry.problem = concat(name, " cannot be read (", text_of_error(error), ")");
  return false;
}

std::string content_problem(const char* name, const std::string& content, std::size_t bytes, const std::string& sum) {
  if (content.size() != bytes) return concat(name, " has ", content.size(), " bytes, expected ", bytes);
  return checksum(content) == sum ? "" : concat(name, " is not as it was written");
}

// What is wrong with an entry whose files could be read, or empty.
std::string entry_problem(const std::string& folder_name, const Entry& entry, const EntryMeta& meta) {
  if (entry_name(meta.name, meta.key) != folder_name)
    return concat("meta.json is that of ", entry_name(meta.name, meta.key));
  if (std::string problem = content_problem(kText, entry.text, meta.text_bytes, meta.text_checksum); !problem.empty())
    return problem;
  if (std::string problem = content_problem(kImage, entry.cubin.image, meta.cubin_bytes, meta.cubin_checksum);
      !problem.empty())
    return problem;
  const std::string problem = cubin_problem(entry.cubin.image, meta.arch);
  return problem.empty() ? "" : concat(kImage, ": ", problem);
}

std::string new_aside_name() {
  static std::atomic<int> counter{0};
  return concat(kAside, ::getpid(), "-", counter++);
}

// Processes of other hosts and containers may have our number, hence our names: then the next is tried.
constexpr int kNameTries = 1000;

// Makes a folder aside; returns its name, or empty with errno.
std::string make_aside(int directory) {
  for (int tries = 0; tries < kNameTries; ++tries) {
    std::string name = new_aside_name();
    if (::mkdirat(directory, name.c_str(), S_IRWXU) == 0) return name;
    if (errno != EEXIST) return {};
  }
  return {};
}

int write_files(int directory, const std::string& aside, const std::string& meta, const std::string& text,
                const std::string& image) {
  const Descriptor folder = open_folder(directory, aside);
  if (!folder) return errno;
  if (const int error = write_file(folder.get(), kText, text); error != 0) return error;
  if (const int error = write_file(folder.get(), kImage, image); error != 0) return error;
  if (const int error = write_file(folder.get(), kMeta, meta); error != 0) return error;
  return ::fsync(folder.get()) == 0 ? 0 : errno;
}

// Number of the process that made a folder aside; 0 when its name tells none.
pid_t maker_of(std::string_view name) {
  pid_t process = 0;
  std::from_chars(name.data() + kAside.size(), name.data() + name.size(), process);
  return process;
}

}  // namespace

Entry read_entry(int directory, const std::string& name) {
  Entry entry;
  const Descriptor folder = open_folder(directory, name);
  if (!folder) {
    if (errno == ENOENT) return entry;
    entry.state = may_pass(errno) ? EntryState::Unreadable : EntryState::Bad;
    entry.problem = concat("it is no folder that can be read (", text_of_error(errno), ")");
    return entry;
  }
  std::string json;
  // All three, whatever becomes of the first: `bytes` counts them.
  bool complete = take_file(folder.get(), kMeta, json, entry);
  complete = take_file(folder.get(), kText, entry.text, entry) && complete;
  complete = take_file(folder.get(), kImage, entry.cubin.image, entry) && complete;
  if (!complete) return entry;
  EntryMeta meta;
  entry.problem = is_trusted_entry(directory, folder.get()) ? parse_meta(json, meta) : "others can write into it";
  if (entry.problem.empty()) entry.problem = entry_problem(name, entry, meta);
  entry.arch = std::move(meta.arch);
  entry.state = entry.problem.empty() ? EntryState::Good : EntryState::Bad;
  entry.cubin.log = std::move(meta.log);
  entry.created = std::move(meta.created);
  return entry;
}

std::string write_entry(int directory, const std::string& name, const std::string& key, const CompilationInputs& inputs,
                        const Cubin& cubin) {
  const std::string aside = make_aside(directory);
  if (aside.empty()) return text_of_error(errno);
  int error = write_files(directory, aside, make_meta(key, inputs, cubin), inputs.text, cubin.image);
  // Renaming replaces an empty folder, never a full one.
  if (error == 0 && ::renameat(directory, aside.c_str(), directory, name.c_str()) != 0) error = errno;
  if (error == 0) return ::fsync(directory) == 0 ? "" : text_of_error(errno);
  remove_all(directory, aside);
  const bool other_was_first = error == EEXIST || error == ENOTEMPTY;
  return other_was_first ? "" : text_of_error(error);
}

std::string remove_entry(int directory, const std::string& name) {
  for (int tries = 0; tries < kNameTries; ++tries) {
    const std::string aside = new_aside_name();
    if (::renameat(directory, name.c_str(), directory, aside.c_str()) == 0) {
      const int left = remove_all(directory, aside);
      return left == 0 ? "" : text_of_error(left);
    }
    if (errno == ENOENT) return {};
    if (errno != EEXIST && errno != ENOTEMPTY && errno != EISDIR) break;
  }
  return text_of_error(errno);
}

void remove_leftovers(int directory, std::chrono::seconds grace) {
  for (const std::string& name : names_in(directory)) {
    struct stat status{};
    if (!is_leftover_name(name) || ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const std::time_t age = std::time(nullptr) - status.st_mtime;
    const pid_t maker = maker_of(name);
    const bool dead = maker <= 0 || (::kill(maker, 0) != 0 && errno == ESRCH);
    if (age > 3600 || (dead && age >= grace.count())) remove_all(directory, name);
  }
}

bool is_leftover_name(std::string_view name) { return name.starts_with(kAside); }

}  // namespace coda::cuda
