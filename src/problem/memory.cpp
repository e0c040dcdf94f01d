#include "problem/memory.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "core/check.h"
#include "problem/operands.h"

namespace coda {
namespace {

std::int64_t element_bytes(const TensorView& view) { return static_cast<std::int64_t>(size_of(view.dtype())); }

// Distance in bytes from one element to the next along an axis; 0 when there is only one.
std::int64_t step(const TensorView& view, int axis) {
  return view.shape(axis) > 1 ? std::abs(view.stride(axis)) * element_bytes(view) : 0;
}

std::int64_t lowest_byte(const TensorView& view) {
  auto at = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(view.data()));
  for (int axis = 0; axis < view.rank(); ++axis)
    if (view.stride(axis) < 0) at -= (view.shape(axis) - 1) * step(view, axis);
  return at;
}

// Bytes from the first to the last of the elements that are left when axes whose step is a multiple of `modulus` are
// cut to one element; 0 for a modulus keeps every axis.
std::int64_t extent_within(const TensorView& view, std::int64_t modulus) {
  std::int64_t bytes = element_bytes(view);
  for (int axis = 0; axis < view.rank(); ++axis)
    if (modulus == 0 || step(view, axis) % modulus != 0) bytes += (view.shape(axis) - 1) * step(view, axis);
  return bytes;
}

// True when the two views use different bytes of every stretch of `modulus` bytes.
bool disjoint_modulo(const TensorView& x, const TensorView& y, std::int64_t modulus) {
  const std::int64_t distance = lowest_byte(y) - lowest_byte(x);
  const std::int64_t offset = (distance % modulus + modulus) % modulus;
  return offset >= extent_within(x, modulus) && offset + extent_within(y, modulus) <= modulus;
}

// True when two positions of the view are one element.
bool overlaps_itself(const TensorView& view) {
  if (view.size() <= 1) return false;
  const int inner = step(view, 0) < step(view, 1) ? 0 : 1;
  const std::int64_t small = step(view, inner);
  const std::int64_t large = step(view, 1 - inner);
  if (view.shape(inner) > 1 && small == 0) return true;
  return view.shape(1 - inner) > 1 && large < (view.shape(inner) - 1) * small + element_bytes(view);
}

bool same_view(const TensorView& x, const TensorView& y) {
  return x.data() == y.data() && x.dtype() == y.dtype() && std::ranges::equal(x.shape(), y.shape()) &&
         std::ranges::equal(x.strides(), y.strides());
}

// A tensor of the problem with what its messages call it.
struct Use {
  std::string name;
  const TensorView* view = nullptr;
  const Operand* operand = nullptr;  ///< nothing for a factor
  std::size_t segment = 0;

  bool is_output() const { return operand != nullptr && operand->role != Role::Input; }
};

std::vector<Use> uses_of(const Problem& problem) {
  std::vector<Use> uses;
  for (std::size_t s = 0; s < problem.segments.size(); ++s) {
    const BoundSegment& segment = problem.segments[s];
    const Place place{problem.call, problem.segments.size() > 1 ? static_cast<int>(s) : -1, 0, 0};
    for (std::size_t i = 0; i < segment.operands.size(); ++i) {
      const Operand& operand = segment.program.operand(static_cast<int>(i));
      uses.push_back({operand_text(place, operand.name), &segment.operands[i], &operand, s});
    }
  }
  for (const TensorView& part : problem.a.parts) uses.push_back({"A", &part});
  for (const TensorView& part : problem.b.parts) uses.push_back({"B", &part});
  return uses;
}

// An output tile in the place of a tile of the same segment: each entry is read before it is written.
bool is_in_place(const Use& output, const Use& other) {
  if (other.operand == nullptr || other.is_output() || other.segment != output.segment) return false;
  const bool tiles = output.operand->shape == Shape::Tile && other.operand->shape == Shape::Tile;
  return tiles && other.operand->period == 0 && other.operand->pairing == output.operand->pairing &&
         same_view(*output.view, *other.view);
}

}  // namespace

bool may_overlap(const TensorView& x, const TensorView& y) {
  if (x.size() == 0 || y.size() == 0) return false;
  const std::int64_t x_low = lowest_byte(x), y_low = lowest_byte(y);
  if (x_low + extent_within(x, 0) <= y_low || y_low + extent_within(y, 0) <= x_low) return false;
  std::vector<std::int64_t> steps;
  for (const TensorView* view : {&x, &y})
    for (int axis = 0; axis < view->rank(); ++axis) steps.push_back(step(*view, axis));
  for (const std::int64_t a : steps)
    for (const std::int64_t b : steps)
      if (const std::int64_t modulus = std::gcd(a, b); modulus > 0 && disjoint_modulo(x, y, modulus)) return false;
  return true;
}

void check_memory(const Problem& problem) {
  const std::vector<Use> uses = uses_of(problem);
  for (const Use& output : uses) {
    if (!output.is_output()) continue;
    REQUIRE(ValueError, !overlaps_itself(*output.view), problem.call, ": ", output.name, " of shape ",
            shape_text(output.view->shape()), " has strides ", shape_text(output.view->strides()),
            ", expected memory for each element: an output cannot be broadcast");
    for (const Use& other : uses) {
      if (&other == &output || is_in_place(output, other)) continue;
      REQUIRE(ValueError, !may_overlap(*output.view, *other.view), problem.call, ": ", output.name,
              " shares memory with ", other.name,
              ", expected memory of its own, or the very view of a tile the segment reads: write to another tensor");
    }
  }
}

}  // namespace coda
