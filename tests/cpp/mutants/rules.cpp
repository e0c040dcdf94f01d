// The structural rules of differentiate and the rows of the op table, each with something taken away by one mutant:
// src/autodiff/rules.cpp once more, with what it calls replaced. Linked before the library, this copy is the one used.
#include <array>
#include <string_view>

#include "autodiff/gradcheck.h"
#include "autodiff/pullback.h"
#include "autodiff/remake.h"
#include "core/check.h"
#include "mutants/mutants.h"

namespace coda::mutants {
namespace {

enum class Edit : std::uint8_t { NoCotangent, First, Second, NoExp, NoSum, Swapped, EveryMember };

constexpr std::string_view words_of(Edit edit) {
  switch (edit) {
    case Edit::NoCotangent: return "an argument gets no cotangent";
    case Edit::First: return "select takes its first value always";
    case Edit::Second: return "select takes its second value always";
    case Edit::NoExp: return "no exp";
    case Edit::NoSum: return "no span_sum";
    case Edit::Swapped: return "join swaps the members";
    case Edit::EveryMember: return "a value of pairs stands at both members";
  }
  return {};
}

// One edit of one line. The mutant is in the list by the mention of it, reached or not.
template <int Line, Edit What>
struct At {
  static inline const int mutant =
      add("src/autodiff/rules.cpp:" + std::to_string(Line) + ": " + std::string(words_of(What)));
  static bool is_active() { return active == mutant; }
};

enum class Change : std::uint8_t { Taken, Reversed, Given };

// A row of the table as the mutants have it: a cotangent of one argument is taken away, has the other sign, or is given
// where the row has none.
class Rows {
 public:
  Rows() {
    for (const OpRow& row : op_table()) {
      rows_.push_back(row);
      for (int i = 0; i < row.arity; ++i)
        for (const Change change : {Change::Taken, Change::Reversed, Change::Given})
          if (testing_support::has_gradient(row.op, i) != (change == Change::Given)) add_mutant(row, i, change);
    }
  }

  const OpRow& row(Op op) {
    const auto found = static_cast<std::size_t>(active - first_);
    if (active < first_ || found >= changes_.size() || changes_[found].op != op) return op_row(op);
    changed_ = changes_[found];
    OpRow& row = rows_[static_cast<std::size_t>(op)];
    row.vjp = changed_vjp;
    return row;
  }

 private:
  struct Changed {
    Op op;
    std::size_t argument;
    Change change;
  };

  void add_mutant(const OpRow& row, int argument, Change change) {
    constexpr std::string_view kWords[] = {"no cotangent", "a cotangent of the other sign", "a cotangent"};
    const int mutant =
        add("vjp of " + std::string(row.name) + ": " + std::string(kWords[static_cast<std::size_t>(change)]) +
            " for argument " + std::to_string(argument));
    if (changes_.empty()) first_ = mutant;
    changes_.push_back({row.op, static_cast<std::size_t>(argument), change});
  }

  static std::vector<Value> changed_vjp(std::span<const Value> args, const Value& result, const Value& cotangent) {
    std::vector<Value> parts = op_row(changed_.op).vjp(args, result, cotangent);
    Value& part = parts[changed_.argument];
    switch (changed_.change) {
      case Change::Taken: part = {}; break;
      case Change::Reversed: part = -part; break;
      case Change::Given: part = cotangent; break;
    }
    return parts;
  }

  static inline Changed changed_{};
  std::vector<OpRow> rows_;
  std::vector<Changed> changes_;
  int first_ = 0;
};

Rows rows;

}  // namespace

std::vector<std::string>& list() {
  static std::vector<std::string> words;
  return words;
}

}  // namespace coda::mutants

#define MUTANT(edit) coda::mutants::At<__LINE__, coda::mutants::Edit::edit>::is_active()
#define receive(...) (MUTANT(NoCotangent) ? void() : receive(__VA_ARGS__))
#define receive_part(...) (MUTANT(NoCotangent) ? void() : receive_part(__VA_ARGS__))
#define select(condition, a, b) (MUTANT(First) ? Value(a) : MUTANT(Second) ? Value(b) : select(condition, a, b))
#define exp(value) (MUTANT(NoExp) ? Value(value) : exp(value))
#define span_sum(value, span) (MUTANT(NoSum) ? Value(value) : span_sum(value, span))
#define join(a, b, rest) (MUTANT(Swapped) ? join(b, a, rest) : join(a, b, rest))
#define first_members(b, value, type) (MUTANT(EveryMember) ? spread(b, value, type) : first_members(b, value, type))
#define op_row(op) coda::mutants::rows.row(op)
#include "autodiff/rules.cpp"
