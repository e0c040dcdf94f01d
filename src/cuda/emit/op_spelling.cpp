// One row an op: an operator between its arguments, or a function of device/math.cuh or CUDA.
#include "cuda/emit/op_spelling.h"

#include <array>

#include "core/check.h"

namespace coda::cuda {
namespace {

enum class Form : std::uint8_t { Infix, Prefix, Call };

struct Row {
  Op op;
  Form form;
  std::string_view text;
  bool is_light = true;  // false: a slow path or a polynomial takes a dozen registers or more
};

constexpr std::array kTable{
    Row{Op::Add, Form::Infix, "+"},
    Row{Op::Sub, Form::Infix, "-"},
    Row{Op::Mul, Form::Infix, "*"},
    Row{Op::Div, Form::Infix, "/", false},
    Row{Op::Neg, Form::Prefix, "-"},
    Row{Op::Abs, Form::Call, "fabsf"},
    Row{Op::Min, Form::Call, "min_keeping_nan"},
    Row{Op::Max, Form::Call, "max_keeping_nan"},
    Row{Op::Exp, Form::Call, "expf", false},
    Row{Op::Exp2, Form::Call, "exp2f"},
    Row{Op::Log, Form::Call, "logf", false},
    Row{Op::Rcp, Form::Call, "__frcp_rn"},
    Row{Op::Sqrt, Form::Call, "sqrtf", false},
    Row{Op::Rsqrt, Form::Call, "rsqrtf"},
    Row{Op::Square, Form::Call, "square"},
    Row{Op::Sigmoid, Form::Call, "sigmoid"},
    Row{Op::Tanh, Form::Call, "tanhf", false},
    Row{Op::Erf, Form::Call, "erff", false},
    Row{Op::Sin, Form::Call, "sin_of"},
    Row{Op::Cos, Form::Call, "cos_of"},
    Row{Op::Relu, Form::Call, "relu"},
    Row{Op::Eq, Form::Call, "equal"},
    Row{Op::Lt, Form::Call, "less"},
    Row{Op::Le, Form::Call, "less_equal"},
    Row{Op::Select, Form::Call, "select"},
    Row{Op::Clamp, Form::Call, "clamp"},
};

constexpr bool rows_are_ops() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].op != static_cast<Op>(i)) return false;
  return true;
}
static_assert(kTable.size() == kOpCount, "every Op needs a row in the spelling table");
static_assert(rows_are_ops(), "the rows of the spelling table stand in the order of enum Op");

}  // namespace

std::string spell(Op op, std::span<const std::string> arguments) {
  const Row& row = kTable[static_cast<std::size_t>(op)];
  switch (row.form) {
    case Form::Infix: return concat(arguments[0], " ", row.text, " ", arguments[1]);
    case Form::Prefix: return concat(row.text, arguments[0]);
    case Form::Call: {
      std::string text = concat(row.text, "(");
      for (std::size_t i = 0; i < arguments.size(); ++i) text += concat(i > 0 ? ", " : "", arguments[i]);
      return text + ")";
    }
  }
  INVARIANT(false, "spelling form ", static_cast<int>(row.form));
}

bool is_light(Op op) { return kTable[static_cast<std::size_t>(op)].is_light; }

std::string_view function_of(Op op) {
  const Row& row = kTable[static_cast<std::size_t>(op)];
  return row.form == Form::Call ? row.text : std::string_view{};
}

}  // namespace coda::cuda
