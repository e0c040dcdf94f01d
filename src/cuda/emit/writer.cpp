#include "cuda/emit/writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "cuda/emit/op_spelling.h"

namespace coda::cuda {
namespace {

// What a program's names may not hide: words of C++ a program's author may well use, and what the emitted text itself
// calls or declares.
constexpr const char* kReserved =
    "a at acc0 acc1 loaded stored e c r rows cols coda row_of col_of global_row global_col load_row load_col "
    "load_tile load_scalar store_tile rounded pack unpack min max nan isnan u32 i32 i64 Matrix Arguments Single "
    "Paired Fours Span F32 Bf16 F16 I32 I64 "
    "partner0 partner1 own load Loads reductions vectors kept col terms chunk columns lines stride load_entry "
    "load_pair_tile "
    "load_partner_tile finish_row finish_column reduce_down store_partial store_unselected store_col store_row "
    "store_scalar store_pair_tile store_pair_row Pairs TermPairs Member Added Constant Partial Reductions Vectors In "
    "Out RowSum RowMax RowLogSumExp ColumnSum ColumnMax Selected "
    "alignas and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast "
    "consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit "
    "export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq "
    "nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed "
    "sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef "
    "typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq ";

}  // namespace

Names::Names() {
  std::istringstream reserved(kReserved);
  for (std::string word; reserved >> word;) used_.emplace(word, 1);
  for (int op = 0; op < kOpCount; ++op) used_.emplace(function_of(static_cast<Op>(op)), 1);
}

std::string Names::unique(std::string_view wanted) {
  std::string name(wanted);
  while (true) {
    const auto [place, fresh] = used_.emplace(name, 1);
    if (fresh) return name;
    const auto base = used_.find(wanted);
    name = concat(wanted, "_", ++base->second);
  }
}

std::string float_literal(double value) {
  const auto narrow = static_cast<float>(value);
  if (std::isnan(narrow)) return "__int_as_float(0x7fffffff)";
  if (std::isinf(narrow)) return narrow > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), narrow);
  INVARIANT(error == std::errc{}, "number ", value, " needs more than ", digits.size(), " characters");
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".";
  return text + "f";
}

}  // namespace coda::cuda
