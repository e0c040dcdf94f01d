#include <algorithm>
#include <atomic>
#include <ctime>
#include <exception>
#include <mutex>
#include <thread>

#include "coda/gemm.h"
#include "coda/tune.h"
#include "core/check.h"
#include "core/log.h"
#include "core/thread_count.h"
#include "cuda/backend.h"
#include "cuda/launch/gpu.h"
#include "cuda/launch/layout.h"
#include "problem/before_plan.h"
#include "tune/timer.h"

namespace coda {
namespace {

using cuda::check;
using cuda::driver;

constexpr double kFinalist = 1.06;  // candidates this close to the first round's fastest are timed longer
constexpr double kTie = 1.003;      // closer than the spread of one candidate against itself

// The problem with outputs in memory of the tuner: timing must not change the caller's, least of all add to them.
class OnCopies {
 public:
  OnCopies(const Problem& problem, const cuda::Gpu& gpu) : problem_(problem), gpu_(gpu) {
    const cuda::CurrentGpu current(gpu_);
    for (BoundSegment& segment : problem_.segments)
      for (std::size_t i = 0; i < segment.operands.size(); ++i)
        if (segment.program.operands()[i].role != Role::Input) segment.operands[i] = copy_of(segment.operands[i]);
  }
  ~OnCopies() {
    const cuda::CurrentGpu current(gpu_);
    for (const cuda::DevicePointer memory : memory_) driver().free(memory);
  }
  OnCopies(const OnCopies&) = delete;
  OnCopies& operator=(const OnCopies&) = delete;

  const Problem& problem() const { return problem_; }

 private:
  // Of the same shape and strides, at an address that is aligned as the original's is.
  TensorView copy_of(const TensorView& view) {
    constexpr std::size_t kAlignment = 256;
    if (view.size() == 0) return view;
    std::int64_t last = 0;
    for (int axis = 0; axis < 2; ++axis) last += std::abs(view.stride(axis)) * (view.shape(axis) - 1);
    const std::size_t bytes = static_cast<std::size_t>(last + 1) * size_of(view.dtype()) + kAlignment;
    cuda::DevicePointer memory = 0;
    check(driver().alloc(&memory, bytes), "tune", concat("allocate ", bytes, " bytes for a copy of an output"));
    memory_.push_back(memory);
    check(driver().fill_async(memory, 0, bytes / 4, nullptr), "tune", "clear a copy of an output");
    const auto offset = reinterpret_cast<std::uintptr_t>(view.data()) % kAlignment;
    return {reinterpret_cast<void*>(memory + offset), view.dtype(), view.shape(), view.strides(), view.device()};
  }

  Problem problem_;
  const cuda::Gpu& gpu_;
  std::vector<cuda::DevicePointer> memory_;
};

// Makes a plan of each candidate, several at a time: what takes long is the compiler.
std::vector<std::unique_ptr<Plan>> compile_all(const Problem& problem, const std::vector<Candidate>& list,
                                               const TuneOptions& options) {
  std::vector<std::unique_ptr<Plan>> plans(list.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  int done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < list.size(); i = next++) {
      try {
        plans[i] = plan(problem, "cuda", {.schedule = &list[i].schedule, .stream = options.stream});
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (options.progress) options.progress("compile", ++done, static_cast<int>(list.size()));
    }
  };
  std::vector<std::jthread> threads;
  const auto width = std::min<std::size_t>(static_cast<std::size_t>(thread_count()), list.size());
  for (std::size_t i = 1; i < width; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  if (failure) std::rethrow_exception(failure);
  return plans;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// Median over rounds of a candidate's time ÷ the least time any had in that round.
double paired_ratio(const std::vector<std::vector<double>>& times, std::size_t which) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < times[which].size(); ++round) {
    double least = times[which][round];
    for (const std::vector<double>& other : times) least = std::min(least, other[round]);
    ratios.push_back(times[which][round] / least);
  }
  return median(std::move(ratios));
}

class Tuner {
 public:
  Tuner(const Problem& problem, const std::vector<Candidate>& list, const TuneOptions& options)
      : options_(options),
        copies_(problem, cuda::gpu(problem.device.index)),
        plans_(compile_all(copies_.problem(), list, options)),
        timer_(cuda::gpu(problem.device.index), options.stream) {
    for (const Candidate& candidate : list)
      timings_.push_back({.schedule = candidate.schedule, .reason = candidate.reason});
  }

  // Two heats: all, then those near the fastest.
  std::vector<Timing> run() {
    std::vector<std::size_t> all(timings_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    heat(all, std::max(3, options_.rounds / 6), "first heat");
    const double least = std::ranges::min(timings_, {}, &Timing::milliseconds).milliseconds;
    std::vector<std::size_t> finalists;
    for (const std::size_t i : all)
      if (timings_[i].milliseconds <= least * kFinalist) finalists.push_back(i);
    heat(finalists, options_.rounds, "final heat");
    return in_order(finalists);
  }

 private:
  void heat(const std::vector<std::size_t>& who, int rounds, std::string_view name) {
    std::vector<const Plan*> plans;
    for (const std::size_t i : who) plans.push_back(plans_[i].get());
    const auto times = timer_.time(plans, copies_.problem(), rounds, [&](int round) {
      if (options_.progress) options_.progress(name, round, rounds);
    });
    for (std::size_t place = 0; place < who.size(); ++place) {
      Timing& timing = timings_[who[place]];
      timing.milliseconds = median(times[place]);
      timing.ratio = paired_ratio(times, place);
      timing.rounds = rounds;
    }
  }

  // Fastest first: finalists by their ratio, ties in the candidates' order; then the others by time.
  std::vector<Timing> in_order(const std::vector<std::size_t>& finalists) const {
    double least = timings_[finalists[0]].ratio;
    for (const std::size_t i : finalists) least = std::min(least, timings_[i].ratio);
    const auto winner =
        *std::ranges::find_if(finalists, [&](std::size_t i) { return timings_[i].ratio <= least * kTie; });
    std::vector<Timing> order{timings_[winner]};
    std::vector<Timing> rest;
    for (std::size_t i = 0; i < timings_.size(); ++i)
      if (i != winner) rest.push_back(timings_[i]);
    std::ranges::stable_sort(rest, {}, [](const Timing& t) { return std::pair(-t.rounds, t.milliseconds); });
    order.insert(order.end(), rest.begin(), rest.end());
    const double fastest = order[0].milliseconds;
    for (Timing& timing : order)
      if (timing.rounds != order[0].rounds) timing.ratio = timing.milliseconds / fastest;
    return order;
  }

  const TuneOptions& options_;
  OnCopies copies_;
  std::vector<std::unique_ptr<Plan>> plans_;
  PairedTimer timer_;
  std::vector<Timing> timings_;
};

RecordKey key_of(const Problem& problem) {
  return cuda::record_key(problem, cuda::specialise(problem), cuda::gpu(problem.device.index).name);
}

// A product on a GPU that has several schedules and no recorded choice.
bool is_open(const Problem& problem, void* stream) {
  if (problem.device.kind != DeviceKind::Cuda || problem.a.parts.empty() || problem.m == 0 || problem.n == 0)
    return false;
  return !cuda::is_capturing(static_cast<cuda::Stream>(stream)) && !cuda::cuda_backend().refuses(problem) &&
         !find_record(key_of(problem));
}

}  // namespace

std::vector<Timing> tune(const Problem& problem, const TuneOptions& options) {
  const auto refusal = problem.device.kind == DeviceKind::Cuda
                           ? cuda::cuda_backend().refuses(problem)
                           : std::optional<std::string>("its tensors are on the CPU, whose backends have no schedules");
  REQUIRE(NotImplementedError, !refusal, "tune: cannot tune this product: ", *refusal);
  REQUIRE(ValueError, options.rounds > 0, "tune: got ", options.rounds, " rounds, expected 1 or more");
  REQUIRE(ValueError, problem.m > 0 && problem.n > 0, "tune: M is ", problem.m, " and N is ", problem.n,
          ", expected an output that is not empty");
  const std::vector<Candidate> list = cuda::cuda_backend().candidates(problem);
  std::vector<Timing> timings = Tuner(problem, list, options).run();
  if (options.record) keep_record({key_of(problem), timings[0].schedule, timings[0].milliseconds, today()});
  return timings;
}

Tuning::Tuning(TuneOptions options) {
  REQUIRE(ValueError, options.record,
          "Tuning: got options that record nothing, expected record: later plans look there");
  before_ = set_before_plan(std::make_shared<BeforePlan>([options](const Problem& problem, void* stream) {
    if (!is_open(problem, stream)) return;
    TuneOptions of_call = options;
    of_call.stream = stream;
    try {
      tune(problem, of_call);
    } catch (const OutOfMemoryError& error) {
      warn_once("tuning without memory", concat(error.what(), "; products that find none keep their first schedule"));
    }
  }));
}

Tuning::~Tuning() { set_before_plan(std::static_pointer_cast<const BeforePlan>(before_)); }

}  // namespace coda
