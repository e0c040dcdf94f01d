#include "blocks/arguments.h"

#include <algorithm>

#include "core/check.h"

namespace coda {
namespace {

std::string expected_text(std::initializer_list<Extent> extents) {
  std::string shape, meaning;
  for (const Extent& extent : extents) {
    shape += (shape.empty() ? "" : ", ") + (extent.value < 0 ? std::string("any") : std::to_string(extent.value));
    meaning += concat(meaning.empty() ? "" : ", ", extent.meaning);
  }
  return concat("[", shape, "] (", meaning, ")");
}

}  // namespace

void require_shape(const Caller& caller, std::string_view name, const TensorView& tensor,
                   std::initializer_list<Extent> extents) {
  const auto shape = tensor.shape();
  const bool fits =
      std::equal(shape.begin(), shape.end(), extents.begin(), extents.end(),
                 [](std::int64_t got, const Extent& want) { return want.value < 0 || got == want.value; });
  REQUIRE(ValueError, fits, caller.name, ": ", name, " has shape ", shape_text(shape), ", expected ",
          expected_text(extents));
  require_memory(caller.name, name, tensor, caller.home);
}

void require_shape_if_given(const Caller& caller, std::string_view name, const std::optional<TensorView>& tensor,
                            std::initializer_list<Extent> extents) {
  if (tensor) require_shape(caller, name, *tensor, extents);
}

Caller require_stream(std::string_view call, const NormedStream& stream) {
  const Caller caller{call, {stream.x.view().device(), "stream.x"}};
  require_shape(caller, "stream.x", stream.x, {{-1, "T"}, {-1, "d"}});
  const std::int64_t rows = stream.x.view().shape(0), width = stream.x.view().shape(1);
  REQUIRE(ValueError, width > 0, call, ": stream.x has shape ", shape_text(stream.x.view().shape()),
          ", expected at least one column: a norm needs a width");
  require_shape(caller, "stream.h", stream.h, {{rows, "T"}, {width, "d"}});
  require_shape(caller, "stream.sum_sq", stream.sum_sq, {{rows, "T"}, {-1, "partials"}});
  return caller;
}

void require_norm(const Caller& caller, std::string_view name, const RmsNorm& norm, std::int64_t width) {
  if (norm.kind == epilogues::NormWeight::None) return;
  require_shape(caller, name, norm.weight, {{width, "the width that is normalised"}});
}

epilogues::DelayedRms delayed(const NormedStream& stream, const RmsNorm& norm) {
  return {stream.x.view().shape(1), norm.eps};
}

}  // namespace coda
