// Nodes of one program made again in another, and values spread over more entries than they have.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "coda/build.h"

namespace coda {

inline bool spans_columns(Shape shape) { return shape == Shape::Tile || shape == Shape::Row; }
inline bool spans_rows(Shape shape) { return shape == Shape::Tile || shape == Shape::Col; }

/// Accumulator `index` as wrt and errors call it.
std::string acc_name(int index);

/// The node, which has a whole value, made again from its arguments.
Value remake(Builder& b, std::span<const Operand> operands, const Node& node, const std::vector<Value>& args);

/// The program with one node for each accumulator and operand it reads.
Program with_single_reads(const Program& program);

/// A value made again with all it depends on; `made` keeps what was made.
Value remake_all(Builder& b, const Program::Data& data, NodeId id, std::map<NodeId, Value>& made);

/// Declares and loads an input like `operand` under its name.
Value load_like(Builder& b, const Operand& operand);

/// The value with the shape of `type`, which contains its own: each entry stands for all those it is broadcast to.
Value spread(Builder& b, const Value& value, const Type& type);

/// 0 in every column (a Row) of a domain.
Value zero_row(Builder& b, const Pairing& pairing);

/// A Tile or Row with the value in the first members of the pairs and 0 elsewhere: a row has the same sum.
Value first_members(Builder& b, const Value& value, const Type& type);

}  // namespace coda
