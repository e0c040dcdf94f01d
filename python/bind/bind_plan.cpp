// Plans: a call of gemm made ready once and run many times.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "coda/gemm.h"
#include "coda/tune.h"
#include "gemm_call.h"

namespace coda::python {
namespace {

using namespace nb::literals;

/// A bound call and its plan.
struct Prepared {
  GemmCall call{};
  Problem problem{};
  std::unique_ptr<Plan> plan{};
};

Prepared prepare(const nb::object& a, const nb::object& b, const SegmentObjects& segments, const std::string& schedule,
                 const std::string& backend) {
  Prepared prepared{.call = read_gemm(a, b, segments)};
  const Execution where = prepared.call.execution();
  const nb::gil_scoped_release release;
  prepared.problem = prepared.call.problem();
  check_indices(prepared.problem);
  Schedule chosen;
  if (!schedule.empty()) chosen = parse_schedule(schedule);
  prepared.plan =
      plan(prepared.problem, backend, {.schedule = schedule.empty() ? nullptr : &chosen, .stream = where.stream});
  return prepared;
}

void run_prepared(const Prepared& prepared, std::optional<std::uintptr_t> stream, std::uintptr_t workspace,
                  std::size_t workspace_bytes) {
  Execution where = stream ? Execution{.stream = reinterpret_cast<void*>(*stream)} : prepared.call.execution();
  where.workspace = reinterpret_cast<void*>(workspace);
  where.workspace_bytes = workspace_bytes;
  const nb::gil_scoped_release release;
  prepared.plan->run(prepared.problem, where);
}

std::vector<std::pair<std::string, std::string>> candidates_of(const nb::object& a, const nb::object& b,
                                                               const SegmentObjects& segments,
                                                               const std::string& backend) {
  const GemmCall call = read_gemm(a, b, segments);
  std::vector<std::pair<std::string, std::string>> list;
  for (const Candidate& candidate : find_backend(backend).candidates(call.problem()))
    list.emplace_back(to_text(candidate.schedule), candidate.reason);
  return list;
}

// A callback of the tuner that calls a Python one; none for None. It may be copied and go without the interpreter lock.
std::function<void(std::string_view, int, int)> progress_of(const nb::object& progress) {
  if (progress.is_none()) return {};
  const std::shared_ptr<nb::object> held(new nb::object(progress), [](nb::object* object) {
    const nb::gil_scoped_acquire acquire;
    delete object;
  });
  return [held](std::string_view stage, int done, int total) {
    const nb::gil_scoped_acquire acquire;
    (*held)(nb::str(stage.data(), stage.size()), done, total);
  };
}

/// A Tuning that begins and ends when Python says so.
class TuningSwitch {
 public:
  void begin(int rounds, const nb::object& progress) {
    tuning_ = std::make_unique<Tuning>(TuneOptions{.rounds = rounds, .progress = progress_of(progress)});
  }
  void end() { tuning_.reset(); }

 private:
  std::unique_ptr<Tuning> tuning_;
};

using TimingRow = std::tuple<std::string, double, double, std::string>;

std::vector<TimingRow> tune_objects(const nb::object& a, const nb::object& b, const SegmentObjects& segments,
                                    int rounds, bool record, const nb::object& progress) {
  const GemmCall call = read_gemm(a, b, segments);
  const TuneOptions options{
      .rounds = rounds, .record = record, .stream = call.execution().stream, .progress = progress_of(progress)};
  const nb::gil_scoped_release release;
  std::vector<TimingRow> rows;
  for (const Timing& t : tune(call.problem(), options))
    rows.emplace_back(to_text(t.schedule), t.milliseconds, t.ratio, t.reason);
  return rows;
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<Prepared>(module, "Prepared", "A call of gemm made ready: what coda_cpp.prepare returns.")
      .def("_run", &run_prepared, "stream"_a.none(), "workspace"_a, "workspace_bytes"_a,
           "Queues the call on a stream, as an address; None: torch's current one.")
      .def_prop_ro(
          "_outputs", [](const Prepared& p) { return p.call.results(); }, "Outputs of each segment.")
      .def_prop_ro(
          "workspace_bytes", [](const Prepared& p) { return p.plan->workspace_bytes(p.problem); },
          "Scratch memory a run takes, in bytes; 0 where every operand is read as it lies.")
      .def_prop_ro(
          "schedule",
          [](const Prepared& p) {
            const Schedule* schedule = p.plan->schedule();
            return schedule != nullptr ? std::optional(to_text(*schedule)) : std::nullopt;
          },
          "The schedule it runs with, as text; None for a backend without schedules.");
  nb::class_<TuningSwitch>(module, "Tuning", "Products tuned at their first run; coda_cpp.tuning is the interface.")
      .def(nb::init<>())
      .def("begin", &TuningSwitch::begin, "rounds"_a, "progress"_a.none())
      .def("end", &TuningSwitch::end);
  module.def("prepare", &prepare, "a"_a.none(), "b"_a.none(), "segments"_a, "schedule"_a = "", "backend"_a = "",
             "A call made ready; coda_cpp.prepare is the interface.");
  module.def("candidates", &candidates_of, "a"_a.none(), "b"_a.none(), "segments"_a, "backend"_a = "cuda",
             "(schedule, reason) of each candidate; coda_cpp.candidates is the interface.");
  module.def("tune", &tune_objects, "a"_a.none(), "b"_a.none(), "segments"_a, "rounds"_a, "record"_a,
             "progress"_a.none(),
             "(schedule, milliseconds, ratio, reason) of each candidate; coda_cpp.tune is the interface.");
}

}  // namespace coda::python
