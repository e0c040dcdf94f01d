// How tensors lie, and what a kernel makes of it: what the copy engine can take, which access an operand gets, majors,
// tiles of segments, and where a kernel's parameter keeps what.
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "coda/build.h"
#include "coda/epilogues.h"
#include "cuda/emit/kernel.h"
#include "cuda/emit/program.h"
#include "cuda/launch/layout.h"
#include "support/differences.h"
#include "support/invented.h"

namespace coda::testing_support {
namespace {

using cuda::Access;
using cuda::FactorMatrix;
using cuda::KernelSpec;

constexpr Device kGpu{DeviceKind::Cuda, 0};
constexpr std::int64_t kExtents[] = {0, 1, 2, 7, 8, 63, 64, 200};

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random_() % values.size()));
  }
  std::int64_t extent() { return kExtents[random_() % std::size(kExtents)]; }

 private:
  std::mt19937_64 random_;
};

void* address(std::int64_t offset) { return reinterpret_cast<void*>((std::int64_t{1} << 40) + offset); }

// What the copy engine asks for, said of addresses: each line's elements are neighbours, lines begin at multiples of 16
// bytes, each after the one before.
bool engine_reads(const FactorMatrix& m, bool k_major) {
  if (m.lines == 0 || m.depth == 0) return true;
  const auto start = reinterpret_cast<std::intptr_t>(m.data);
  const std::int64_t inner_step = k_major ? m.depth_stride : m.line_stride, inner = k_major ? m.depth : m.lines;
  const std::int64_t outer_step = k_major ? m.line_stride : m.depth_stride, outer = k_major ? m.lines : m.depth;
  for (std::int64_t line = 0; line < std::min<std::int64_t>(outer, 3); ++line)
    if ((start + line * outer_step * 2) % 16 != 0) return false;
  return (inner == 1 || inner_step == 1) && (outer == 1 || outer_step >= inner);
}

TEST(FactorMatrices, FitWhereTheCopyEngineReadsThem) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Numbers numbers(seed);
  int fitting = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto stride = [&] {
      return numbers.one_of<std::int64_t>({1, 1, 1, 0, -1, 2, 8, 56, 64, 65, 200, 208, -208});
    };
    const FactorMatrix m{address(numbers.one_of<std::int64_t>({0, 0, 0, 16, 2, 8, 32})), numbers.extent(),
                         numbers.extent(), stride(), stride()};
    for (const bool k_major : {true, false}) {
      ASSERT_EQ(m.fits(k_major), engine_reads(m, k_major))
          << m.data << " " << m.lines << "x" << m.depth << ", " << m.line_stride << ", " << m.depth_stride;
      if (m.lines == 0 || m.depth == 0) continue;
      if (m.fits(k_major)) {
        ++fitting;
        EXPECT_EQ(m.pitch(k_major) % 8, 0);
        EXPECT_GE(m.pitch(k_major), m.inner(k_major));
        EXPECT_TRUE(m.outer(k_major) <= 1 || m.pitch(k_major) == m.outer_stride(k_major));
      }
      const auto needed = static_cast<std::size_t>((m.inner(k_major) + 7) / 8 * 8 * m.outer(k_major) * 2);
      EXPECT_EQ(m.copy_bytes(k_major) % 256, 0u);
      EXPECT_GE(m.copy_bytes(k_major), needed);
      EXPECT_LT(m.copy_bytes(k_major), needed + 256);
    }
  }
  EXPECT_GT(fitting, 1000);
}

TEST(FactorMatrices, RunAlongK) {
  const TensorView a(address(0), DType::BF16, {3, 5}, kGpu), b(address(0), DType::BF16, {5, 7}, kGpu);
  const FactorMatrix left = cuda::a_matrix(a), right = cuda::b_matrix(b);
  EXPECT_EQ((std::vector{left.lines, left.depth, left.line_stride, left.depth_stride}),
            (std::vector<std::int64_t>{3, 5, 5, 1}));
  EXPECT_EQ((std::vector{right.lines, right.depth, right.line_stride, right.depth_stride}),
            (std::vector<std::int64_t>{7, 5, 1, 7}));
}

// The best access whose every touch is aligned and stays inside, said of addresses.
Access best_access(Role role, const TensorView& t) {
  const auto bytes = static_cast<std::int64_t>(size_of(t.dtype()));
  const auto start = reinterpret_cast<std::intptr_t>(t.data());
  const std::int64_t rows = std::min<std::int64_t>(t.shape(0), 3), cols = t.shape(1);
  if (t.stride(1) != 1 || (t.shape(0) > 1 && t.stride(0) < cols)) return Access::Single;
  bool staged = bytes == 2 || (t.dtype() == DType::F32 && role != Role::Input), paired = true, fours = true;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = start + row * t.stride(0) * bytes;
    paired = paired && begin % (2 * bytes) == 0;
    fours = fours && begin % (4 * bytes) == 0;
    staged = staged && begin % 16 == 0 && (role == Role::Input || (begin + cols * bytes) % 16 == 0);
  }
  return staged ? Access::Staged : fours ? Access::Fours : paired ? Access::Paired : Access::Single;
}

TEST(TileAccess, IsTheWidestThatIsAlignedAndStaysInside) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Numbers numbers(seed);
  int seen[4] = {};
  for (int i = 0; i < 30000; ++i) {
    const DType dtype = numbers.one_of({DType::BF16, DType::F16, DType::F32});
    const std::int64_t rows = numbers.one_of<std::int64_t>({1, 2, 100}), cols = 1 + numbers.extent();
    const std::int64_t shape[] = {rows, cols};
    // As bind gives it: an extent of 1 has stride 0.
    const std::int64_t pitch = cols + numbers.one_of<std::int64_t>({0, 0, 1, 2, 6, 7, 8, -1, -cols, -2 * cols});
    const std::int64_t strides[] = {rows == 1 ? 0 : pitch, cols == 1 ? 0 : numbers.one_of<std::int64_t>({1, 1, 1, 2})};
    const TensorView t(address(numbers.one_of<std::int64_t>({0, 0, 16, 4, 8, 12, 2})), dtype, shape, strides, kGpu);
    const Role role = numbers.one_of({Role::Input, Role::Output, Role::Accumulate});
    const Access access = cuda::access_of({.name = "x", .role = role, .dtype = dtype}, t);
    ASSERT_EQ(access, best_access(role, t))
        << name_of(dtype) << " role " << static_cast<int>(role) << " at " << t.data() << " " << shape_text(shape)
        << " strides " << shape_text(strides);
    ++seen[static_cast<int>(access)];
  }
  for (const int count : seen) EXPECT_GT(count, 1000);
}

TEST(TileAccess, OfARaggedRowIsStagedOnlyForInputs) {
  const std::int64_t strides[] = {512, 1};
  for (std::int64_t cols = 1; cols <= 40; ++cols) {
    const std::int64_t shape[] = {64, cols};
    const TensorView t(address(0), DType::BF16, shape, strides, kGpu);
    EXPECT_EQ(cuda::access_of({.name = "in", .role = Role::Input}, t), Access::Staged) << cols;
    for (const Role role : {Role::Output, Role::Accumulate})
      EXPECT_EQ(cuda::access_of({.name = "out", .role = role}, t), cols % 8 == 0 ? Access::Staged : Access::Fours)
          << cols;
  }
}

TEST(TileAccess, OfOtherOperandsIsSingle) {
  const TensorView tile(address(0), DType::BF16, {64, 64}, kGpu);
  for (const Shape shape : {Shape::Row, Shape::Col, Shape::Scalar})
    EXPECT_EQ(cuda::access_of({.name = "x", .shape = shape}, tile), Access::Single);
  EXPECT_EQ(cuda::access_of({.name = "x", .period = 64}, tile), Access::Single);
  const Pairing pairing{.kind = Pairing::Kind::Halves, .head = 128, .width = 128};
  EXPECT_EQ(cuda::access_of({.name = "x", .pairing = pairing}, tile), Access::Single);
}

Problem product(const Factor& a, const Factor& b, const Program& program = epilogues::identity()) {
  std::vector<Segment> segments;
  const bool along_m = a.view == Factor::View::Concat, along_n = b.view == Factor::View::Concat;
  for (std::size_t i = 0; i < (along_m ? a.parts.size() : along_n ? b.parts.size() : 1); ++i) {
    const std::int64_t rows = a.parts[along_m ? i : 0].shape(0), cols = b.parts[along_n ? i : 0].shape(1);
    segments.push_back({program, invented_operands(program, rows, cols, DType::BF16)});
  }
  return coda::bind("layout", a, b, segments);
}

TensorView matrix(std::int64_t rows, std::int64_t cols, bool transposed = false) {
  return invented_matrix(rows, cols, DType::BF16, transposed);
}

TEST(Specialise, TakesTheMajorsAsTheyLie) {
  for (const bool a_t : {false, true})
    for (const bool b_t : {false, true}) {
      const KernelSpec spec = cuda::specialise(product(matrix(64, 128, a_t), matrix(128, 256, b_t)));
      EXPECT_EQ(spec.a_k_major, !a_t);
      EXPECT_EQ(spec.b_k_major, b_t);
      EXPECT_EQ(spec.element, DType::BF16);
      EXPECT_FALSE(spec.pair);
      EXPECT_EQ(spec.k_parts, 1);
      ASSERT_EQ(spec.segments.size(), 1u);
      EXPECT_EQ(spec.segments[0].program.operand(0).dtype, DType::BF16);
    }
}

TEST(Specialise, TakesTheMajorMostPartsHave) {
  const auto b_k_major = [](const std::vector<bool>& k_major) {
    std::vector<TensorView> a, b;
    for (const bool each : k_major) {
      a.push_back(matrix(64, 128));
      b.push_back(matrix(128, 256, each));
    }
    return cuda::specialise(product(concat_k(a), concat_k(b))).b_k_major;
  };
  EXPECT_TRUE(b_k_major({true, true, false}));
  EXPECT_FALSE(b_k_major({false, true, false}));
  EXPECT_TRUE(b_k_major({true, false})) << "a tie";
  // Where none fits, all are copied, to K-major.
  EXPECT_TRUE(cuda::specialise(product(matrix(64, 129), matrix(129, 255))).b_k_major);
}

TEST(Specialise, TakesALineOrAColumnOfK) {
  struct Case {
    std::int64_t m, n, k;
    bool a_k_major, b_k_major;
  };
  // One line fits both majors or the one whose inner extent is contiguous; none is copied.
  for (const Case& c : {Case{1, 256, 128, true, false}, Case{64, 1, 128, true, true}, Case{64, 256, 1, false, false},
                        Case{1, 1, 128, true, true}, Case{1, 1, 1, true, true}}) {
    const Problem problem = product(matrix(c.m, c.k), matrix(c.k, c.n));
    const KernelSpec spec = cuda::specialise(problem);
    SCOPED_TRACE(std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k));
    EXPECT_EQ(spec.a_k_major, c.a_k_major);
    EXPECT_EQ(spec.b_k_major, c.b_k_major);
    EXPECT_TRUE(cuda::a_matrix(problem.a.parts[0]).fits(spec.a_k_major));
    EXPECT_TRUE(cuda::b_matrix(problem.b.parts[0]).fits(spec.b_k_major));
    EXPECT_EQ(spec.segments[0].access[0], c.n == 1 ? Access::Single : Access::Staged);
  }
}

TEST(Specialise, SeesPairsPartsAndSegments) {
  const KernelSpec paired = cuda::specialise(
      product(matrix(64, 128), pair(matrix(128, 256, true), matrix(128, 256, true)), epilogues::gated()));
  EXPECT_TRUE(paired.pair);
  EXPECT_EQ(cuda::a_maps(paired), 1);
  EXPECT_EQ(cuda::b_maps(paired), 2);
  const KernelSpec deep =
      cuda::specialise(product(concat_k({matrix(64, 8), matrix(64, 24)}), concat_k({matrix(8, 64), matrix(24, 64)})));
  EXPECT_EQ(deep.k_parts, 2);
  EXPECT_EQ(cuda::a_maps(deep), 2);
  EXPECT_EQ(cuda::b_maps(deep), 2);
  const KernelSpec along_n = cuda::specialise(product(matrix(64, 8), concat({matrix(8, 8), matrix(8, 16)})));
  EXPECT_TRUE(along_n.segments_along_n);
  EXPECT_EQ(along_n.segments.size(), 2u);
  EXPECT_EQ(cuda::a_maps(along_n), 1);
  EXPECT_EQ(cuda::b_maps(along_n), 2);
  const KernelSpec along_m = cuda::specialise(product(concat({matrix(8, 8), matrix(16, 8)}), matrix(8, 8)));
  EXPECT_FALSE(along_m.segments_along_n);
  EXPECT_EQ(cuda::a_maps(along_m), 2);
  EXPECT_EQ(cuda::b_maps(along_m), 1);
}

// simplify drops what nothing reads; a problem binds it all the same.
TEST(Specialise, KeepsOperandsNothingReadsInTheirPlaces) {
  Builder b("ignoring");
  const Value dropped = b.load_row("dropped"), read = b.load_row("read");
  b.store("out", select(b.constant(1), b.acc() + read, dropped));
  const Program program = b.build();
  ASSERT_LT(simplify(program).operands().size(), program.operands().size()) << "the test needs another program";
  const KernelSpec spec = cuda::specialise(product(matrix(64, 64), matrix(64, 64), program));
  ASSERT_EQ(spec.segments[0].program.operands().size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(spec.segments[0].program.operand(i).name, program.operand(i).name);
  const std::string text = cuda::emit_kernel(spec);
  EXPECT_NE(text.find("(a.read, "), std::string::npos) << text;
  EXPECT_EQ(text.find("(a.dropped"), std::string::npos) << text;
}

TEST(ClusterGrids, CountTilesOfRaggedSegments) {
  const Factor a = matrix(300, 64);
  const Factor b = concat({matrix(64, 512), matrix(64, 1), matrix(64, 0), matrix(64, 129)});
  Problem problem = product(a, b);
  KernelSpec spec = cuda::specialise(problem);
  spec.schedule = {.tile_m = 128, .tile_n = 128, .cluster_m = 2};
  cuda::ClusterGrid grid = cuda::cluster_grid(problem, spec);
  EXPECT_EQ(grid.segment_tiles, (std::vector<std::int32_t>{4, 1, 0, 2}));
  EXPECT_EQ(grid.rows, 2);
  EXPECT_EQ(grid.cols, 7);
  spec.schedule = {.tile_m = 128, .tile_n = 128, .cluster_n = 2};
  grid = cuda::cluster_grid(problem, spec);
  EXPECT_EQ(grid.segment_tiles, (std::vector<std::int32_t>{2, 1, 0, 1}));
  EXPECT_EQ(grid.rows, 3);
  EXPECT_EQ(grid.cols, 4);
  problem = product(concat({matrix(128, 64), matrix(257, 64)}), matrix(64, 300));
  spec = cuda::specialise(problem);
  spec.schedule = {.tile_m = 256, .tile_n = 128};
  grid = cuda::cluster_grid(problem, spec);
  EXPECT_EQ(grid.segment_tiles, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(grid.rows, 3);
  EXPECT_EQ(grid.cols, 3);
}

TEST(ClusterGrids, CountHalfTilesOfAPair) {
  const Problem problem = product(matrix(129, 64), pair(matrix(64, 256), matrix(64, 256)), epilogues::gated());
  KernelSpec spec = cuda::specialise(problem);
  spec.schedule = {.tile_m = 128, .tile_n = 256};
  const cuda::ClusterGrid grid = cuda::cluster_grid(problem, spec);
  EXPECT_EQ(grid.rows, 2);
  EXPECT_EQ(grid.cols, 2) << "a tile has 128 columns of each";
}

// Size and places in KernelParams as its text declares them, counted anew.
struct Declared {
  std::map<std::string, std::size_t> at;
  std::size_t size = 0, asserted = 0;
};

Declared read_params(const std::string& text) {
  std::map<std::string, std::size_t> arguments;  // bytes of each program's
  Declared declared;
  std::istringstream lines(text);
  std::string program;
  bool in_params = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string type, name;
    words >> type >> name;
    if (type == "struct" && name == "KernelParams") in_params = true;
    if (type == "struct" && name.starts_with("Epilogue")) program = name, arguments[program] = 8;
    if (type == "Matrix") arguments.at(program) += 24;
    if (type.starts_with("static_assert")) declared.asserted = std::stoul(line.substr(line.find("==") + 2));
    if (type == "};") in_params = false;
    if (!in_params || type == "struct") continue;
    if (type == "i32" && name == "cluster_rows,") {
      declared.at["cluster_rows"] = declared.size;
      declared.size += 12;
      continue;
    }
    const std::size_t bracket = name.find('['), count = std::stoul(name.substr(bracket + 1));
    declared.at[name.substr(0, bracket)] = declared.size;
    declared.size += count * (type == "TensorMap" ? 128
                              : type == "i32"     ? 4
                                                  : arguments.at(type.substr(0, type.find(':'))));
  }
  declared.size = (declared.size + 63) / 64 * 64;
  return declared;
}

void expect_layout(const Problem& problem) {
  const KernelSpec spec = cuda::specialise(problem);
  const std::string text = cuda::emit_kernel(spec);
  const Declared declared = read_params(text);
  const cuda::ParamsLayout layout = cuda::params_layout(spec);
  SCOPED_TRACE(text);
  EXPECT_EQ(declared.asserted, layout.size);
  EXPECT_EQ(declared.size, layout.size);
  EXPECT_EQ(layout.size % 64, 0u);
  EXPECT_EQ(declared.at.at("a"), layout.a);
  EXPECT_EQ(declared.at.at("b"), layout.b);
  EXPECT_EQ(declared.at.at("outputs"), layout.outputs);
  EXPECT_EQ(declared.at.at("inputs"), layout.inputs);
  EXPECT_EQ(declared.at.at("arguments"), layout.arguments[0]);
  EXPECT_EQ(declared.at.at("k_blocks"), layout.k_blocks);
  EXPECT_EQ(declared.at.at("segment_tiles"), layout.segment_tiles);
  EXPECT_EQ(declared.at.at("cluster_rows"), layout.cluster_rows);
  EXPECT_EQ(layout.cluster_cols, layout.cluster_rows + 4);
  EXPECT_EQ(layout.raster_group, layout.cluster_rows + 8);
  for (const std::size_t maps : {layout.a, layout.b, layout.outputs, layout.inputs}) EXPECT_EQ(maps % 64, 0u);
  std::set<std::size_t> places;
  for (const std::size_t place : layout.arguments) {
    EXPECT_EQ(place % 8, 0u) << "of a pointer";
    EXPECT_TRUE(places.insert(place).second);
  }
}

TEST(ParamsLayouts, AreWhatTheTextDeclares) {
  Builder sums("sums");
  sums.store("sum", sums.acc() + sums.load_tile("x") * sums.load_col("w"), {.accumulate = true});
  sums.store("wide", sums.acc(), {.dtype = DType::F32});
  for (const Program& program :
       {epilogues::identity(), epilogues::bias("gelu"), epilogues::residual(), epilogues::scale(), sums.build()}) {
    expect_layout(product(matrix(64, 64), matrix(64, 64), program));
    expect_layout(product(matrix(63, 61), matrix(61, 67), program));
    expect_layout(product(matrix(64, 64), concat({matrix(64, 64), matrix(64, 67), matrix(64, 64)}), program));
    expect_layout(product(concat({matrix(64, 64), matrix(8, 64)}), matrix(64, 64), program));
    expect_layout(
        product(concat_k({matrix(64, 64), matrix(64, 8)}), concat_k({matrix(64, 64), matrix(8, 64)}), program));
  }
  expect_layout(product(matrix(64, 64), pair(matrix(64, 64), matrix(64, 64)), epilogues::gated({.save_inputs = true})));
}

TEST(ParamsLayouts, KeepSegmentsOfOneProgramTogether) {
  const Program bias = epilogues::bias(), identity = epilogues::identity();
  const auto segment = [](const Program& program) {
    return Segment{program, invented_operands(program, 64, 64, DType::BF16)};
  };
  const std::vector<Segment> segments{segment(bias), segment(identity), segment(bias)};
  const Problem problem =
      coda::bind("layout", matrix(64, 64), concat({matrix(64, 64), matrix(64, 64), matrix(64, 64)}), segments);
  const cuda::ParamsLayout layout = cuda::params_layout(cuda::specialise(problem));
  EXPECT_EQ(layout.arguments[2], layout.arguments[0] + 32) << "rows, cols and the bias";
  EXPECT_EQ(layout.arguments[1], layout.arguments[2] + 32);
  EXPECT_EQ(layout.k_blocks, layout.arguments[1] + 8);
}

// Names of a program that the text around it uses get another.
TEST(EmittedNames, CollideWithNothing) {
  Builder b("names");
  const Value x = b.load_tile("rows").named("x");
  const Value y = (b.load_row("cols") + b.load_row("operator")).named("x_at");
  const Value own = b.load_row("load").named("own");
  b.store("out", b.acc() * x * own + y);
  const Problem problem = product(matrix(64, 64), matrix(64, 65), b.build());
  const std::string text = cuda::emit_kernel(cuda::specialise(problem));
  for (const std::string declaration :
       {"i32 rows, cols;", "Matrix rows_2;", "Matrix cols_2;", "Matrix operator_2;", "Matrix load_2;",
        "float own_2[4];", "float x_at[4];", "float x_at_2[8];", "const float x = own.x_at_2[e];"})
    EXPECT_NE(text.find(declaration), std::string::npos) << declaration << "\n" << text;
}

}  // namespace
}  // namespace coda::testing_support
