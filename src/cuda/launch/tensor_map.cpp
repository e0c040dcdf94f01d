#include "cuda/launch/tensor_map.h"

#include "core/check.h"

namespace coda::cuda {
namespace {

int map_type(DType dtype) {
  switch (dtype) {
    case DType::F16: return 6;   // CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    case DType::F32: return 7;   // …_FLOAT32
    case DType::BF16: return 9;  // …_BFLOAT16
    case DType::F64:
    case DType::I32:
    case DType::I64: break;
  }
  INVARIANT(false, "no tensor map has elements of ", name_of(dtype));
}

int swizzle_of(int row_bytes) { return row_bytes == 128 ? 3 : row_bytes == 64 ? 2 : 1; }  // CU_TENSOR_MAP_SWIZZLE_…

}  // namespace

void encode_map(TensorMap& map, const MapShape& shape, std::string_view call, std::string_view what) {
  constexpr int kNoInterleave = 0, kPromoteTo256 = 3, kFillZeros = 0;
  const auto bytes = static_cast<std::uint64_t>(size_of(shape.dtype));
  const std::uint64_t extents[2] = {static_cast<std::uint64_t>(shape.inner), static_cast<std::uint64_t>(shape.outer)};
  const std::uint64_t pitch[1] = {static_cast<std::uint64_t>(shape.pitch) * bytes};
  const std::uint32_t box[2] = {static_cast<std::uint32_t>(shape.box_inner),
                                static_cast<std::uint32_t>(shape.box_outer)};
  const std::uint32_t step[2] = {1, 1};
  const int swizzle = swizzle_of(shape.box_inner * static_cast<int>(bytes));
  const Result result = driver().encode_tiled(&map, map_type(shape.dtype), 2, shape.data, extents, pitch, box, step,
                                              kNoInterleave, swizzle, kPromoteTo256, kFillZeros);
  if (result != 0) check(result, call, concat("make a tensor map of ", what));
}

}  // namespace coda::cuda
