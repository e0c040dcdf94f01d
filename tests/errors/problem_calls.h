// Calls of bind for the tables of mistakes: small programs and factors.
#pragma once

#include "coda/build.h"
#include "coda/problem.h"

namespace coda::testing_support {

inline Tensor f32(std::initializer_list<std::int64_t> shape) { return Tensor::zeros(shape, DType::F32); }

inline Program bias() {
  Builder b("bias");
  b.store("out", b.acc() + b.load_row("bias"));
  return b.build();
}

inline Program copy() {
  Builder b("copy");
  b.store("out", b.load_tile("x"));
  return b.build();
}

inline void bind_one(const Factor& a, const Factor& b, const Program& program, const Operands& operands) {
  const Segment segment{program, operands};
  (void)bind("gemm", a, b, {&segment, 1});
}

// A is (4, 6), B is (6, 8).
inline void bind_product(const Program& program, const Operands& operands) {
  bind_one(f32({4, 6}), f32({6, 8}), program, operands);
}

inline void bind_pass(std::int64_t rows, std::int64_t cols, const Program& program, const Operands& operands) {
  (void)bind_elementwise("elementwise", rows, cols, {program, operands});
}

inline auto side_by_side(std::vector<std::int64_t> cols, std::vector<Segment> segments) {
  return [cols = std::move(cols), segments = std::move(segments)] {
    (void)bind_elementwise("elementwise", 4, cols, segments);
  };
}

}  // namespace coda::testing_support
