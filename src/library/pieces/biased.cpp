#include "library/pieces.h"

namespace coda::epilogues {

Value biased(Builder& b, const Value& z, bool present, const std::string& operand) {
  return present ? z + b.load_row(operand).named(operand) : z;
}

}  // namespace coda::epilogues
