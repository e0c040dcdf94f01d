// What a program wants of its tiles beside each element in its turn: the other members of pairs, and the terms of sums
// over heads, which come before the elements. Sets of nodes are flags by NodeId.
#pragma once

#include <vector>

#include "coda/program.h"

namespace coda::cuda {

using NodeSet = std::vector<bool>;

NodeSet all_nodes(const Program& program);

/// The SpanReduces, in order.
std::vector<NodeId> span_sums(const Program& program);

/// The Reduces down columns, in order.
std::vector<NodeId> column_reductions(const Program& program);

/// The nodes that the terms of a SpanReduce hang on, and those that the stores hang on. Sums over heads are finished
/// before: what those hang on is not among them.
NodeSet terms_of(const Program& program, NodeId span_sum);
NodeSet stored_nodes(const Program& program);

/// The Tiles and Rows of whole columns wanted for an element's partner too, by the Splits among `nodes`.
NodeSet wanted_of_partners(const Program& program, const NodeSet& nodes);

/// By operand: tile inputs that are read for an element's partner too.
std::vector<bool> split_inputs(const Program& program);

/// By operand: tile inputs that are read otherwise than once an element. The threads load them by themselves.
std::vector<bool> reread_inputs(const Program& program);

}  // namespace coda::cuda
