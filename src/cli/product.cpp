#include "cli/product.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "coda/epilogues.h"
#include "core/check.h"

namespace coda::cli {
namespace {

constexpr Device kDevice{DeviceKind::Cuda, 0};
constexpr std::int64_t kPartialWidth = 64;  // of the library's programs
constexpr std::int64_t kMaxPartials = 64;   // a load finishes this many

bool is_selected_by(const Program& program, int operand) {
  return std::ranges::any_of(program.nodes(), [&](const Node& node) {
    if (node.kind != NodeKind::SelectCol) return false;
    const Node& index = program.node(node.args[1]);
    return index.kind == NodeKind::Load && index.index == operand;
  });
}

DType dtype_of(const Program& program, int index, const ProductOptions& options) {
  const Operand& operand = program.operand(index);
  if (operand.dtype) return *operand.dtype;
  if (is_selected_by(program, index)) return DType::I64;
  if (operand.partials || operand.shape == Shape::Col || operand.shape == Shape::Scalar) return DType::F32;
  const bool is_output_tile = operand.role != Role::Input && operand.shape == Shape::Tile;
  return *dtype_from_name(is_output_tile && !options.out_dtype.empty() ? options.out_dtype : options.dtype);
}

std::vector<std::int64_t> shape_of(const Operand& operand, std::int64_t m, const ProductOptions& options) {
  std::vector<std::int64_t> shape = operand_shape(operand, m, options.n);
  // Partials of a width the program leaves open are those of the product before, whose columns are this K.
  const std::int64_t partials = std::min((options.k + kPartialWidth - 1) / kPartialWidth, kMaxPartials);
  for (std::int64_t& extent : shape)
    if (extent < 0) extent = partials;
  return shape;
}

class TensorMaker {
 public:
  explicit TensorMaker(const Memory& memory) : memory_(memory) {}

  TensorView tensor(std::span<const std::int64_t> shape, DType dtype) const {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    return {memory_(dtype, elements), dtype, shape, kDevice};
  }

  /// rows × cols with the columns contiguous, or the rows.
  TensorView matrix(std::int64_t rows, std::int64_t cols, bool rows_contiguous, DType dtype) const {
    const std::int64_t lines = rows_contiguous ? cols : rows, inner = rows_contiguous ? rows : cols;
    const TensorView view = tensor(std::array{lines, inner}, dtype);
    return rows_contiguous ? view.transposed() : view;
  }

 private:
  const Memory& memory_;
};

std::string library_names() {
  std::string names;
  for (const epilogues::Entry& entry : epilogues::library()) names += concat(names.empty() ? "" : ", ", entry.name);
  return names;
}

}  // namespace

void add_product_options(CLI::App& app, ProductOptions& options) {
  const CLI::Range extents(std::int64_t{1}, kMaxExtent);
  app.add_option("PROGRAM", options.program, "Program of the library, or path of a program's text");
  app.add_option("-n", options.n, "Columns of the output")->check(extents)->capture_default_str();
  app.add_option("-k", options.k, "Depth of the product")->check(extents)->capture_default_str();
  app.add_option("--dtype", options.dtype, "Of A, B, tiles and row vectors")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  app.add_option("--out-dtype", options.out_dtype, "Of tile outputs; default: that of --dtype")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}));
  app.add_option("--layout", options.layout,
                 "How B and A lie in memory. First letter: T: K contiguous in B (a weight of shape (N,K)), N: N "
                 "contiguous; second: N: K contiguous in A, T: M contiguous")
      ->check(CLI::IsMember({"TN", "NN", "NT", "TT"}))
      ->capture_default_str();
}

void add_one_product_options(CLI::App& app, ProductOptions& options, std::int64_t& m) {
  add_product_options(app, options);
  app.get_option("PROGRAM")->required();
  app.add_option("-m", m, "Rows of the output")->check(CLI::Range(std::int64_t{1}, kMaxExtent))->capture_default_str();
}

Program find_program(std::string_view call, const std::string& name) {
  for (const epilogues::Entry& entry : epilogues::library())
    if (entry.name == name) return entry.program;
  std::error_code ignored;
  REQUIRE(ValueError, std::filesystem::exists(name, ignored), call, ": '", name,
          "' is no program of the library and no file, expected the path of a program's text or one of ",
          library_names());
  std::ostringstream text;
  const std::ifstream file(name);
  if (file) text << file.rdbuf();
  REQUIRE(FileError, file && text, call, ": '", name, "' cannot be read, expected a program's text: check the path");
  return parse_program(text.str());
}

Problem make_product(std::string_view call, const ProductOptions& options, std::int64_t m, const Memory& memory) {
  const Program program = find_program(call, options.program);
  const TensorMaker make(memory);
  Segment segment{program, {}};
  for (int i = 0; i < static_cast<int>(program.operands().size()); ++i)
    segment.operands.push_back({program.operand(i).name,
                                make.tensor(shape_of(program.operand(i), m, options), dtype_of(program, i, options))});
  if (program.accumulators() == 0) return bind_elementwise(call, m, options.n, segment);
  const DType dtype = *dtype_from_name(options.dtype);
  const TensorView a = make.matrix(m, options.k, options.layout[1] == 'T', dtype);
  const auto b = [&] { return make.matrix(options.k, options.n, options.layout[0] == 'T', dtype); };
  const Factor factor = program.accumulators() == 2 ? pair(b(), b()) : Factor(b());
  return bind(call, a, factor, {&segment, 1});
}

Memory invented_memory() {
  constexpr std::uintptr_t kSpacing = std::uintptr_t{1} << 32;
  return [next = kSpacing](DType dtype, std::int64_t elements) mutable {
    void* const address = reinterpret_cast<void*>(next);
    const std::uintptr_t bytes = static_cast<std::uintptr_t>(elements) * size_of(dtype);
    next += (bytes / kSpacing + 1) * kSpacing;
    return address;
  };
}

}  // namespace coda::cli
