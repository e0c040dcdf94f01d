#include "schedule/records.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/cache_root.h"
#include "core/check.h"
#include "core/log.h"

namespace coda {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

struct Known {
  std::mutex mutex;
  std::map<std::string, std::vector<Record>> by_gpu;
  std::atomic<std::uint64_t> kept = 0;
};

Known& known() {
  static Known instance;
  return instance;
}

// Where records are kept, and CODA_CACHE.
struct Place {
  std::string root;
  std::string cache;
};

Place* testing = nullptr;

Place place() { return testing != nullptr ? *testing : Place{cache_root(options()), options().cache}; }

Json to_json(const Record& record) {
  Json json;
  json["m_bucket"] = record.key.m_bucket;
  json["n"] = record.key.n;
  json["k"] = record.key.k;
  json["schedule"] = to_text(record.schedule);
  json["milliseconds"] = record.milliseconds;
  json["date"] = record.date;
  json["kernel"] = record.key.kernel;
  return json;
}

Record from_json(const Json& json, const std::string& gpu) {
  Record record;
  record.key = {gpu, json.at("kernel"), json.at("m_bucket"), json.at("n"), json.at("k")};
  record.schedule = parse_schedule(json.at("schedule").get<std::string>());
  record.milliseconds = json.at("milliseconds");
  record.date = json.at("date");
  return record;
}

std::vector<Record> read_records(const std::string& gpu) {
  const std::string path = records_file(gpu);
  std::ifstream file(path);
  if (path.empty() || !file) return {};
  std::vector<Record> records;
  try {
    const Json json = Json::parse(file);
    if (json.at("schema") != kSchema) return {};
    for (const Json& record : json.at("records")) records.push_back(from_json(record, gpu));
  } catch (const std::exception& error) {
    warn_once("records." + path, concat("tune: the recorded schedules in ", path, " cannot be read (", error.what(),
                                        "): they are ignored; delete the file, or tune again"));
    return {};
  }
  return records;
}

// The records of a GPU, read when first asked for. The caller holds the mutex.
std::vector<Record>& loaded(const std::string& gpu) {
  auto& by_gpu = known().by_gpu;
  const auto found = by_gpu.find(gpu);
  return found != by_gpu.end() ? found->second : by_gpu.emplace(gpu, read_records(gpu)).first->second;
}

void replace(std::vector<Record>& records, const Record& record) {
  std::erase_if(records, [&](const Record& old) { return old.key == record.key; });
  records.push_back(record);
}

// Holds the lock file's lock while it lives.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

bool write_whole(const std::string& path, const std::string& text) {
  const std::string aside = concat(path, ".", getpid());
  {
    std::ofstream file(aside);
    file << text;
    file.flush();
    if (!file) {
      std::error_code ignored;
      std::filesystem::remove(aside, ignored);
      return false;
    }
  }
  std::error_code error;
  std::filesystem::rename(aside, path, error);
  return !error;
}

// Adds the record to what other processes have written meanwhile.
bool write_record(const Record& record) {
  const std::string path = records_file(record.key.gpu);
  if (path.empty()) return false;
  std::error_code error;
  const std::filesystem::path root = place().root;
  const bool is_new = std::filesystem::create_directories(root, error);
  if (is_new) std::filesystem::permissions(root, std::filesystem::perms::owner_all, error);  // as the kernel cache asks
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const FileLock lock(path + ".lock");
  std::vector<Record> records = read_records(record.key.gpu);
  replace(records, record);
  Json json;
  json["schema"] = kSchema;
  json["gpu"] = record.key.gpu;
  json["records"] = Json::array();
  for (const Record& each : records) json["records"].push_back(to_json(each));
  return write_whole(path, json.dump(2) + "\n");
}

}  // namespace

std::int64_t m_bucket(std::int64_t m) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(m, 16))));
}

std::string records_file(const std::string& gpu) {
  const auto [root, cache] = place();
  if (root.empty() || cache == "off") return "";
  std::string name;
  for (const char c : gpu) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return concat(root, "/tuned/", name, ".json");
}

std::optional<Schedule> find_record(const RecordKey& key) {
  const std::lock_guard lock(known().mutex);
  const std::vector<Record>& records = loaded(key.gpu);
  const auto found = std::ranges::find_if(records, [&](const Record& record) { return record.key == key; });
  return found == records.end() ? std::nullopt : std::optional(found->schedule);
}

void keep_record(const Record& record) {
  const std::lock_guard lock(known().mutex);
  replace(loaded(record.key.gpu), record);
  ++known().kept;
  if (place().cache != "rw") return;
  if (!write_record(record))
    warn_once("records.write",
              concat("tune: the schedule chosen could not be written to '", records_file(record.key.gpu),
                     "': it is kept for this process alone; check the directory and its free space"));
}

std::uint64_t records_kept() { return known().kept; }

std::vector<Record> records_of(const std::string& gpu) {
  const std::lock_guard lock(known().mutex);
  return loaded(gpu);
}

void forget_records_for_testing() {
  const std::lock_guard lock(known().mutex);
  known().by_gpu.clear();
}

RecordsForTesting::RecordsForTesting(std::string directory, std::string cache) {
  INVARIANT(testing == nullptr, "RecordsForTesting: one lives already");
  testing = new Place{std::move(directory), std::move(cache)};
  forget_records_for_testing();
}

RecordsForTesting::~RecordsForTesting() {
  delete testing;
  testing = nullptr;
  forget_records_for_testing();
}

}  // namespace coda
