// diagnose: one row for each thing the CUDA backend needs. What goes wrong becomes a row, never an exception.
#include <array>

#include "coda/cuda.h"
#include "core/check.h"
#include "cuda/compile/cache.h"
#include "cuda/compile/nvrtc.h"
#include "cuda/launch/gpu.h"

namespace coda::cuda {
namespace {

constexpr const char* kProbe = "extern \"C\" __global__ void coda_probe(float* out) { *out = 1.0f; }\n";

Diagnosis good(std::string what, std::string found) { return {std::move(what), true, std::move(found), ""}; }

Diagnosis bad(std::string what, std::string found, std::string cure) {
  return {std::move(what), false, std::move(found), std::move(cure)};
}

// The sentences of our errors end in the cure, after the last colon, and begin with the call, which says nothing here.
Diagnosis bad(std::string what, std::string_view sentence) {
  if (sentence.starts_with("cuda: ")) sentence.remove_prefix(6);
  const std::size_t colon = sentence.rfind(": ");
  if (colon == std::string_view::npos) return bad(std::move(what), std::string(sentence), "see docs/cli.md");
  return bad(std::move(what), std::string(sentence.substr(0, colon)), std::string(sentence.substr(colon + 2)));
}

// The row `look` gives, or one that tells its error.
template <class Look>
Diagnosis row(const std::string& what, Look look) {
  try {
    return look(what);
  } catch (const InternalError& error) {
    return bad(what, error.what(), "please report it with this text");
  } catch (const Error& error) {
    return bad(what, error.what());
  } catch (const std::exception& error) {
    return bad(what, error.what(), "try again with more memory free");
  }
}

// CUDA version the driver supports, as 13000.
int driver_cuda() {
  int version = 0;
  check(driver().driver_version(&version), "cuda", "read the driver's version");
  return version;
}

Diagnosis look_at_driver(const std::string& what) {
  if (const auto problem = driver_problem()) return bad(what, *problem);
  return good(what, concat("supports CUDA ", version_text(driver_cuda())));
}

struct Model {
  std::string name;
  int major = 0, minor = 0;
};

// Unlike gpu(), makes no context: that takes memory and time on a GPU nobody asked for.
Model model_of(int index) {
  const DriverApi& api = driver();
  CudaDevice device = 0;
  std::array<char, 128> name{};
  Model model;
  const auto read = [&](int attribute, int& value) {
    check(api.device_attribute(&value, attribute, device), "cuda", concat("read the attributes of cuda:", index));
  };
  check(api.device_get(&device, index), "cuda", concat("open cuda:", index));
  check(api.device_name(name.data(), static_cast<int>(name.size()) - 1, device), "cuda", concat("name cuda:", index));
  read(kComputeMajor, model.major);
  read(kComputeMinor, model.minor);
  model.name = name.data();
  return model;
}

Diagnosis look_at_gpu(const std::string& what, int index) {
  const Model model = model_of(index);
  const std::string found = concat(model.name, ", compute capability ", model.major, ".", model.minor);
  if (find_arch(model.major, model.minor) != nullptr) return good(what, found);
  return bad(what, found, "use a Hopper GPU (H100, H200, GH200); everything runs on the CPU meanwhile");
}

Diagnosis look_at_nvrtc(const std::string& what) {
  const auto mismatch = driver_problem() ? std::nullopt : nvrtc_mismatch();
  return mismatch ? bad(what, *mismatch) : good(what, concat(nvrtc_version(), ", ", nvrtc_path()));
}

// The first GPU with kernels of ours, or −1.
int usable_gpu() {
  for (int index = 0; index < gpu_count(); ++index) {
    const Model model = model_of(index);
    if (find_arch(model.major, model.minor) != nullptr) return index;
  }
  return -1;
}

// Past the cache, so that what is diagnosed is the compiler of today.
Diagnosis look_at_kernels(const std::string& what) {
  const Arch& arch = *find_arch(9, 0);
  const Cubin cubin = compile("coda_probe", kProbe, arch.name);
  const std::string found = concat("compiled one for ", arch.name);
  const int index = usable_gpu();
  if (index < 0) return good(what, found);
  const CurrentGpu current(gpu(index));
  Module module = nullptr;
  check(driver().module_load(&module, cubin.image.data()), "cuda", concat("load a kernel on cuda:", index));
  return good(what, concat(found, ", loaded it on cuda:", index));
}

Diagnosis look_at_cache(const std::string& what) {
  const CacheReport report = cache_report();
  if (report.problem.empty()) return good(what, report.directory + (report.writable ? "" : ", only read"));
  return bad(what, report.directory.empty() ? report.problem : concat(report.directory, ": ", report.problem));
}

}  // namespace
}  // namespace coda::cuda

namespace coda {

std::vector<Diagnosis> diagnose() {
  std::vector<Diagnosis> rows{cuda::row("NVIDIA driver", cuda::look_at_driver)};
  for (int index = 0; index < cuda::gpu_count(); ++index)
    rows.push_back(
        cuda::row(concat("GPU cuda:", index), [&](const std::string& what) { return cuda::look_at_gpu(what, index); }));
  const Diagnosis nvrtc = cuda::row("NVRTC", cuda::look_at_nvrtc);
  Diagnosis kernels = cuda::row("kernels", cuda::look_at_kernels);
  if (!nvrtc.good && kernels.found == nvrtc.found) kernels.found = "none can be compiled without NVRTC";
  rows.insert(rows.end(), {nvrtc, kernels});
  rows.push_back(cuda::row("kernel cache", cuda::look_at_cache));
  return rows;
}

}  // namespace coda
