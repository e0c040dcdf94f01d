#include "cuda/launch/driver.h"

#include <dlfcn.h>

#include "core/check.h"

namespace coda::cuda {
namespace {

constexpr const char* kNoDriver =
    "no NVIDIA driver is installed (libcuda.so.1 was not found), expected one: install it, or use the CPU";

struct Opened {
  DriverApi api;
  std::string problem;
};

// Judges an opened driver: version, initialisation, a GPU.
std::string problem_of(const DriverApi& api) {
  int version = 0, count = 0;
  if (api.driver_version(&version) != 0 || version < kOldestDriver)
    return concat("the NVIDIA driver supports CUDA ", version_text(version), ", expected ", version_text(kOldestDriver),
                  " or newer: update the driver");
  const Result started = api.init(0);
  if (started == kNoDevice || (started == 0 && (api.device_count(&count) != 0 || count == 0)))
    return "the NVIDIA driver sees no GPU, expected one: check nvidia-smi and CUDA_VISIBLE_DEVICES";
  const char* name = "an unknown error";
  if (started != 0) {
    api.error_name(started, &name);
    return concat("the NVIDIA driver failed to start with ", name, ", expected a working GPU: check nvidia-smi");
  }
  return "";
}

Opened open_driver() {
  Opened opened;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    opened.problem = kNoDriver;
    return opened;
  }
  const char* missing = nullptr;
#define CODA_LOAD(field, symbol, parameters)                                         \
  opened.api.field = reinterpret_cast<Result(*) parameters>(dlsym(library, symbol)); \
  if (opened.api.field == nullptr) missing = symbol;
  CODA_DRIVER_FUNCTIONS(CODA_LOAD)
#undef CODA_LOAD
  opened.problem = missing == nullptr ? problem_of(opened.api)
                                      : concat("the NVIDIA driver has no ", missing, ", expected CUDA ",
                                               version_text(kOldestDriver), " or newer: update the driver");
  return opened;
}

Opened* testing = nullptr;
int replaced = 0;  // drivers put in place so far

const Opened& opened() {
  if (testing != nullptr) return *testing;
  static const Opened instance = open_driver();
  return instance;
}

}  // namespace

const DriverApi& driver() {
  const Opened& now = opened();
  REQUIRE(NotImplementedError, now.problem.empty(), "cuda: ", now.problem);
  return now.api;
}

std::optional<std::string> driver_problem() {
  const std::string& problem = opened().problem;
  return problem.empty() ? std::nullopt : std::optional(problem);
}

int driver_number() { return testing == nullptr ? 0 : replaced; }

std::string version_text(int version) { return concat(version / 1000, ".", version % 1000 / 10); }

void check(Result result, std::string_view call, std::string_view what) {
  if (result == 0) return;
  const char* name = "an unknown error";
  const char* text = "";
  driver().error_name(result, &name);
  driver().error_text(result, &text);
  if (result == kOutOfMemory) {
    std::size_t free = 0, total = 0;
    driver().memory_info(&free, &total);
    throw OutOfMemoryError(concat(call, ": out of GPU memory: could not ", what, " (", free >> 20, " MiB of ",
                                  total >> 20, " MiB are free): free some or use smaller tensors"));
  }
  throw DeviceError(concat(call, ": could not ", what, ": ", name, " (", result, "), ", text,
                           ": an earlier kernel may have failed; compute-sanitizer finds which"));
}

DriverForTesting::DriverForTesting(const DriverApi* api) {
  testing = new Opened;
  ++replaced;
  if (api == nullptr) {
    testing->problem = kNoDriver;
    return;
  }
  testing->api = *api;
  testing->problem = problem_of(*api);
}

DriverForTesting::~DriverForTesting() {
  delete testing;
  testing = nullptr;
}

}  // namespace coda::cuda
