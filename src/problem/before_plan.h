// A place for a stage above: what is done with a problem before gemm() makes a plan for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "coda/problem.h"

namespace coda {

/// Told a problem and the stream it will run on, outside any lock.
using BeforePlan = std::function<void(const Problem& problem, void* stream)>;

/// What is in the place; null: nothing.
std::shared_ptr<const BeforePlan> before_plan();

/// Puts it there and returns what was. Plans that gemm() keeps are made anew after it.
std::shared_ptr<const BeforePlan> set_before_plan(std::shared_ptr<const BeforePlan> then);

/// How often it was changed: plans of another count are out of date.
std::uint64_t before_plan_changes();

}  // namespace coda
