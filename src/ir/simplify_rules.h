// The rewrites simplify tries, each a small function from a node to equal ones. docs/programs.md tells them for
// readers.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/simplify_draft.h"

namespace coda {

/// Nodes, old or appended to the draft, any of which may take the place of `site`; none when the rule does not apply.
/// A candidate of another type than the site's is ignored.
using Candidates = std::vector<NodeId>;

struct Rule {
  std::string_view name;
  Candidates (*apply)(Draft& draft, NodeId site);
};

std::span<const Rule> algebra_rules();    ///< simplify_algebra.cpp: constants, signs, powers
std::span<const Rule> structure_rules();  ///< simplify_structure.cpp: select, round, split and join
std::span<const Rule> product_rules();    ///< simplify_products.cpp: factors that cancel
std::span<const Rule> linear_rules();     ///< simplify_linear.cpp: inner products moved across linear maps

}  // namespace coda
