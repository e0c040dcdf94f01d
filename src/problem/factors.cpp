#include "problem/factors.h"

#include <string>

#include "core/check.h"
#include "problem/products.h"

namespace coda {
namespace {

using View = Factor::View;

// "A", or "A part 2" when there are several.
std::string part_name(std::string_view factor, const Factor& of, std::size_t part) {
  return of.parts.size() == 1 ? std::string(factor) : concat(factor, " part ", part);
}

void check_part_count(std::string_view call, std::string_view factor, const Factor& of) {
  REQUIRE(ValueError, !of.parts.empty(), call, ": ", factor, " has no matrix, expected at least one");
  REQUIRE(ValueError, of.view != View::Single || of.parts.size() == 1, call, ": ", factor, " has ", of.parts.size(),
          " matrices, expected 1: join several with pair, concat or concat_k");
  REQUIRE(ValueError, of.view != View::Pair || of.parts.size() == 2, call, ": ", factor, " is a pair of ",
          of.parts.size(), " matrices, expected 2");
}

void check_views(std::string_view call, const Factor& a, const Factor& b) {
  check_part_count(call, "A", a);
  check_part_count(call, "B", b);
  REQUIRE(ValueError, a.view != View::Pair, call,
          ": A is a pair, expected one matrix, a concat or a concat_k: only B "
          "can be a pair");
  REQUIRE(NotImplementedError, a.view != View::Concat || b.view != View::Concat, call,
          ": A and B are both a concat, expected one of them: make one call for each part of A");
  const bool deep = a.view == View::ConcatK || b.view == View::ConcatK;
  REQUIRE(ValueError, !deep || (a.view == b.view && a.parts.size() == b.parts.size()), call, ": A is ",
          a.view == View::ConcatK ? concat("a concat_k of ", a.parts.size()) : "no concat_k", " and B is ",
          b.view == View::ConcatK ? concat("a concat_k of ", b.parts.size()) : "no concat_k",
          ", expected both to be one of as many matrices: each part of A multiplies the same part of B");
}

void check_matrices(std::string_view call, std::string_view factor, const Factor& of, std::string_view extents,
                    const Home& home) {
  for (std::size_t i = 0; i < of.parts.size(); ++i) {
    const TensorView& matrix = of.parts[i];
    const std::string name = part_name(factor, of, i);
    REQUIRE(ValueError, matrix.rank() == 2, call, ": ", name, " has shape ", shape_text(matrix.shape()),
            ", expected 2 dimensions ", extents, ": reshape it to a matrix");
    REQUIRE(TypeError, !is_integer(matrix.dtype()), call, ": ", name, " has dtype ", name_of(matrix.dtype()),
            ", expected f32, bf16, f16 or f64: convert it");
    require_memory(call, name, matrix, home);
  }
}

void check_dtypes(std::string_view call, const Factor& a, const Factor& b) {
  const DType dtype = a.parts[0].dtype();
  const auto check = [&](std::string_view factor, const Factor& of) {
    for (std::size_t i = 0; i < of.parts.size(); ++i)
      REQUIRE(TypeError, of.parts[i].dtype() == dtype, call, ": ", part_name(factor, of, i), " has dtype ",
              name_of(of.parts[i].dtype()), ", expected ", name_of(dtype), ", the dtype of ", part_name("A", a, 0),
              ": convert one of them");
  };
  check("A", a);
  check("B", b);
}

// Every part of a factor but the concatenated extent has the extents of part 0.
void check_equal_extent(std::string_view call, std::string_view factor, const Factor& of, int axis,
                        std::string_view extent, std::string_view why) {
  const std::int64_t expected = of.parts[0].shape(axis);
  for (std::size_t i = 1; i < of.parts.size(); ++i)
    REQUIRE(ValueError, of.parts[i].shape(axis) == expected, call, ": ", factor, " part ", i, " has shape ",
            shape_text(of.parts[i].shape()), ", expected ", expected, axis == 0 ? " rows (" : " columns (", extent,
            "), as part 0 of shape ", shape_text(of.parts[0].shape()), ": ", why);
}

void check_depth(std::string_view call, const Factor& a, const Factor& b) {
  const bool deep = a.view == View::ConcatK;
  for (std::size_t i = 0; i < b.parts.size(); ++i) {
    const TensorView& left = a.parts[deep ? i : 0];
    const TensorView& right = b.parts[i];
    REQUIRE(ValueError, right.shape(0) == left.shape(1), call, ": ", part_name("B", b, i), " has shape ",
            shape_text(right.shape()), ", expected [", left.shape(1), ", N] (K, N), as ",
            part_name("A", a, deep ? i : 0), " has shape ", shape_text(left.shape()),
            ": a weight of shape (N, K) is passed as weight.transposed()");
  }
}

}  // namespace

Factor pair(const TensorView& first, const TensorView& second) {
  Factor factor;
  factor.view = View::Pair;
  factor.parts = {first, second};
  return factor;
}

Factor concat(std::vector<TensorView> parts) {
  Factor factor;
  factor.view = View::Concat;
  factor.parts = std::move(parts);
  return factor;
}

Factor concat_k(std::vector<TensorView> parts) {
  Factor factor;
  factor.view = View::ConcatK;
  factor.parts = std::move(parts);
  return factor;
}

void require_memory(std::string_view call, std::string_view what, const TensorView& tensor, const Home& home) {
  REQUIRE(ValueError, tensor.device() == home.device, call, ": ", what, " is on ", device_text(tensor.device()),
          ", expected ", device_text(home.device), ", the device of ", home.owner, ": copy it there");
  REQUIRE(ValueError, tensor.data() != nullptr || tensor.size() == 0, call, ": ", what, " of shape ",
          shape_text(tensor.shape()), " has no memory, expected a pointer to its elements: allocate it first");
}

Extents check_factors(std::string_view call, const Factor& a, const Factor& b) {
  check_views(call, a, b);
  const Home home{a.parts[0].device(), part_name("A", a, 0)};
  check_matrices(call, "A", a, "(M, K)", home);
  check_matrices(call, "B", b, "(K, N)", home);
  check_dtypes(call, a, b);
  if (a.view == View::Concat) check_equal_extent(call, "A", a, 1, "K", "a concat of A joins rows");
  if (a.view == View::ConcatK) check_equal_extent(call, "A", a, 0, "M", "a concat_k of A joins columns");
  check_depth(call, a, b);
  if (b.view == View::Pair) check_equal_extent(call, "B", b, 1, "N", "the two matrices of a pair have one shape");
  if (b.view == View::ConcatK) check_equal_extent(call, "B", b, 1, "N", "a concat_k of B joins rows");

  Extents extents;
  extents.rows.push_back(a.parts[0].shape(0));
  extents.cols.push_back(b.parts[0].shape(1));
  extents.depth = a.parts[0].shape(1);
  for (std::size_t i = 1; i < a.parts.size(); ++i) {
    if (a.view == View::Concat) extents.rows.push_back(a.parts[i].shape(0));
    if (a.view == View::ConcatK) extents.depth += a.parts[i].shape(1);
  }
  for (std::size_t i = 1; b.view == View::Concat && i < b.parts.size(); ++i)
    extents.cols.push_back(b.parts[i].shape(1));
  return extents;
}

std::vector<Product> products_of(const Problem& problem, std::size_t segment, int which) {
  const Factor& a = problem.a;
  const Factor& b = problem.b;
  std::vector<Product> products;
  if (a.view == View::ConcatK) {
    for (std::size_t i = 0; i < a.parts.size(); ++i) products.push_back({a.parts[i], b.parts[i]});
    return products;
  }
  const TensorView& left = a.parts[a.view == View::Concat ? segment : 0];
  switch (b.view) {
    case View::Pair: products.push_back({left, b.parts[static_cast<std::size_t>(which)]}); break;
    case View::Concat: products.push_back({left, b.parts[segment]}); break;
    case View::Single:
    case View::ConcatK: products.push_back({left, b.parts[0]}); break;
  }
  return products;
}

}  // namespace coda
