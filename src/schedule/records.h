// Recorded choices: the schedule that was fastest for a product on a GPU, as readable JSON beside the kernel cache, one
// file a GPU model. A second process makes the same choice and so gives the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coda/schedule.h"

namespace coda {

/// What a choice was made for.
struct RecordKey {
  std::string gpu;     ///< "NVIDIA H200"
  std::string kernel;  ///< everything the kernel's text depends on but its schedule
  std::int64_t m_bucket = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  bool operator==(const RecordKey&) const = default;
};

struct Record {
  RecordKey key;
  Schedule schedule;
  double milliseconds = 0;  ///< median when it was chosen
  std::string date;         ///< "2026-11-29"
};

/// Products whose M falls into one bucket share a choice: the next power of two, at least 16.
std::int64_t m_bucket(std::int64_t m);

/// The recorded schedule, or nothing. Files are read once a process; an unreadable one counts as empty, with a warning.
std::optional<Schedule> find_record(const RecordKey& key);

/// Keeps a choice, here and on disk when the cache may be written; one that is there for the same key is replaced.
/// A disk that cannot be written is warned of once.
void keep_record(const Record& record);

/// How many choices this process has kept: a plan made before the last one may be another's choice by now.
std::uint64_t records_kept();

/// Every record of a GPU.
std::vector<Record> records_of(const std::string& gpu);

/// File of a GPU's records; empty when there is no directory.
std::string records_file(const std::string& gpu);

/// Forgets what was read, so that files are read again.
void forget_records_for_testing();

/// While it lives, records are kept below another directory ("" is none) and with another CODA_CACHE than the
/// environment says. One at a time.
class RecordsForTesting {
 public:
  explicit RecordsForTesting(std::string directory, std::string cache = "rw");
  ~RecordsForTesting();
  RecordsForTesting(const RecordsForTesting&) = delete;
  RecordsForTesting& operator=(const RecordsForTesting&) = delete;
};

}  // namespace coda
