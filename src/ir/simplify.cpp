// Rewrites a program until no rule makes it cheaper. The rules are in simplify_*.cpp; common subexpressions and dead
// nodes go whenever the draft is tidied.
#include "coda/program.h"
#include "ir/simplify_rules.h"

namespace coda {
namespace {

// Tries one rule at one node; keeps the first candidate that makes the program cheaper.
bool try_rule(Draft& draft, const Rule& rule, NodeId site) {
  const NodeId size = draft.size();
  for (const NodeId candidate : rule.apply(draft, site)) {
    if (draft.at(candidate).type != draft.at(site).type) continue;
    Draft trial = draft.replaced(site, candidate);
    if (trial.cost() < draft.cost()) {
      draft = std::move(trial);
      return true;
    }
  }
  draft.truncate(size);
  return false;
}

bool try_rules(Draft& draft, NodeId site) {
  for (const auto rules : {algebra_rules(), structure_rules(), product_rules(), linear_rules()})
    for (const Rule& rule : rules)
      if (try_rule(draft, rule, site)) return true;
  return false;
}

}  // namespace

Program simplify(const Program& program) {
  Draft draft(program.data());
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId site = 0; site < draft.size(); ++site) changed |= try_rules(draft, site);
  }
  return Program(draft.data());
}

}  // namespace coda
