// differentiate: the backward of a Program, derived, as an ordinary Program. docs/differentiation.md has the rules.
//
//   const Program forward = epilogues::gated({.save_inputs = true});
//   const Backward backward = differentiate(forward, {"acc0", "acc1"},
//       {Cotangent::acc("out"), Cotangent::none("gate"), Cotangent::none("up")});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coda/program.h"

namespace coda {

/// One way in which the cotangent (the gradient of the loss) of an output of the forward program arrives. An output
/// stored as partials has the cotangent of the finished reduction: a Col, or a Row along axis Col. Several for one
/// output are summed.
struct Cotangent {
  enum class Source : std::uint8_t {
    None,      ///< nothing depends on the output: it was stored to be read by the backward, say
    Acc,       ///< the accumulator of the backward's own product: the next layer's data gradient
    Load,      ///< input `operand` of the backward, of the output's shape
    Computed,  ///< what `program`, which stores one value and has no accumulator, computes; see Gradient::finish
  };
  std::string output{};
  Source source = Source::None;
  std::string operand{};
  std::optional<Program> program{};

  static Cotangent none(const std::string& output);
  static Cotangent acc(const std::string& output);
  static Cotangent load(const std::string& output);  ///< from the input "d_<output>"
  static Cotangent load(const std::string& output, const std::string& operand);
  static Cotangent computed(const std::string& output, const Program& program);
};

struct DifferentiateOptions {
  /// The accumulators of the backward are the forward's own, computed again; then no cotangent arrives as Acc.
  bool recompute_acc = false;
  /// Tile outputs of the forward that the backward may load. Nothing: all of them.
  std::optional<std::vector<std::string>> saved{};
  /// Tile outputs of the forward that the backward writes again under their names, made from what it has: of a forward
  /// whose output was not kept. It never loads them.
  std::vector<std::string> remade{};
  /// Columns an entry of the row partials it stores covers, and rows one of its column partials: multiples of 64.
  /// partial_rows 0: as many as partial_width.
  std::int64_t partial_width = 64, partial_rows = 0;
};

/// Where the gradient by one accumulator or operand is found.
struct Gradient {
  std::string of{};      ///< as in `wrt`
  std::string output{};  ///< output of the backward program; gradients that are one value share it
  /// Only for an operand of partials: what its maker's backward takes as Cotangent::computed. It loads `output`, a sum
  /// without the factors that do not vary along it, multiplies by them, and stores "d_<of>".
  std::optional<Program> finish{};
  std::int64_t period = 0;  ///< of a repeated Row: entries so many columns apart remain to be summed
  bool sum_rows = false;    ///< of a Scalar: the finished Col remains to be summed over its rows
};

struct Backward {
  Program program{};
  std::vector<Gradient> gradients{};  ///< in the order of `wrt`
};

/// The program that computes, from the cotangents of the outputs of `forward`, the gradients by `wrt`: "acc0", "acc1"
/// (output "d_acc0": what the data- and weight-gradient products take as a factor) and floating inputs (output
/// "d_<name>"). A Row and a Col that met a tile get partials along axis Col and Row. The values it needs are made from
/// the inputs, from stored outputs, or by undoing a sum or a product with a Col or Scalar that is never 0. The result
/// is simplified. Errors: ValueError, TypeError; NotImplementedError for what cannot be derived, naming the node; for a
/// value that is needed and was not stored, a ValueError that names it.
Backward differentiate(const Program& forward, const std::vector<std::string>& wrt,
                       const std::vector<Cotangent>& cotangents, const DifferentiateOptions& options = {});

/// The values that with_saved must store for `differentiate` to have all it needs: names of the author, or of
/// accumulators. Cotangents are those of the outputs of `forward`. Errors: those of differentiate.
std::vector<std::string> values_to_save(const Program& forward, const std::vector<std::string>& wrt,
                                        const std::vector<Cotangent>& cotangents);

/// The program with Tile values, by the author's names or as "acc0" and "acc1", stored too, each to an output of its
/// name. Errors: ValueError for a name that is no Tile value.
Program with_saved(const Program& forward, const std::vector<std::string>& values);

}  // namespace coda
