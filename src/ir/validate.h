// What makes a program legal. Builder asks for each node as it is born; Program's constructor asks for the whole.
#pragma once

#include <string>
#include <string_view>

#include "coda/program.h"

namespace coda {

/// Type of `node`, whose arguments are earlier nodes of `data`. Errors: ValueError, TypeError naming the program, the
/// node kind, the argument, what was got and what was expected.
Type infer_type(const Program::Data& data, const Node& node);

/// Checks every operand, every node, and that each output is stored once. Errors: as infer_type.
void validate(const Program::Data& data);

/// Checks one operand by itself. Errors: ValueError, TypeError.
void validate_operand(const Program::Data& data, const Operand& operand);

/// True for [A-Za-z_][A-Za-z0-9_]*.
bool is_identifier(std::string_view text);

/// True for v0, v1, …: the names unnamed values print under.
bool is_default_value_name(std::string_view text);

/// "tile", "row" …; with a pairing "tile of halves(64, 64)"; "partial col".
std::string type_text(const Type& type);
std::string_view name_of(Shape shape);
std::string_view name_of(Reduction reduction);
std::string_view name_of(Axis axis);
std::string_view name_of(Role role);
/// Name of a node kind in program text; a Map's is its op's.
std::string_view name_of(const Node& node);
/// "halves(64, 64)"
std::string pairing_text(const Pairing& pairing);

}  // namespace coda
