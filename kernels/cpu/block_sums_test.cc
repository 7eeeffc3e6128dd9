// The class cpu-bf16block: every instruction set that computes it, and each of its knobs' ways,
// gives the bits of its definition (kernels/reference/block_sums.h) for hostile numbers.
#include <cmath>

#include "kernels/cpu/instruction_set.h"
#include "kernels/kernels_testing.h"
#include "kernels/tunable.h"

namespace tutti::kernels {
namespace {

// The instruction sets of the class, and for those with two ways to multiply both.
struct Way {
  std::string set;
  bool by_f32 = false;
};

std::vector<Way> Ways() {
  std::vector<Way> ways;
  for (const auto set : cpu::AvailableInstructionSets(cpu::MachineFeatures())) {
    if (cpu::NumericsClassOf(set) != "cpu-bf16block") continue;
    ways.push_back({std::string(cpu::InstructionSetName(set))});
    if (cpu::KernelsOf(set).multiplies_both_ways) ways.push_back({ways.back().set, true});
  }
  return ways;
}

std::unique_ptr<Backend> Make(const Way& way) {
  auto backend = Tested(way.set);
  if (!way.by_f32) return backend;
  auto* const tunable = backend->tunable();
  for (size_t k = 0; k < tunable->knobs().size(); ++k) {
    if (tunable->knobs()[k].name.starts_with("f32-")) tunable->SetKnob(k, 1);
  }
  return backend;
}

std::unique_ptr<Backend> Definition() {
  return *CreateBackend("reference", {.numerics_class = "reference-bf16block"});
}

// f32 numbers of every size: denormals and those that rounding makes normal, zeros of both signs,
// and many whose products are near the least normal number.
float Hostile(Random* random) {
  const auto sign = static_cast<uint32_t>(random->Between(0, 1)) << 31;
  const int64_t exponent = random->Chance(0.2)   ? random->Between(0, 1)
                           : random->Chance(0.3) ? random->Between(60, 68)
                                                 : random->Between(100, 150);
  const auto fraction = static_cast<uint32_t>(
      random->Chance(0.1) ? (1 << 23) - 1 : random->Between(0, (1 << 23) - 1));
  return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent) << 23 | fraction);
}

Matrix HostileMatrix(int64_t rows, int64_t cols, DType dtype, uint64_t seed) {
  Random random(seed);
  Matrix matrix(rows, cols, dtype);
  matrix.Each([&](float) { return Hostile(&random); });
  return matrix;
}

::testing::AssertionResult SameNumbers(const Matrix& a, const Matrix& b) {
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c) {
      const float x = a.at(r, c), y = b.at(r, c);
      if (std::isnan(x) && std::isnan(y)) continue;  // the payload is not promised
      if (std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y)) continue;
      return ::testing::AssertionFailure()
             << "row " << r << " column " << c << std::hexfloat << ": " << x << " and " << y;
    }
  }
  return ::testing::AssertionSuccess();
}

struct Product {
  int64_t rows, in;
  std::vector<int64_t> leaves;
};

// Whole blocks and ragged ones, odd lengths, one leaf and eight; each shape of tiles.
const std::vector<Product>& Products() {
  static const std::vector<Product> products = {{1, 1, {}},
                                                {1, 33, {}},
                                                {2, 64, {}},
                                                {5, 95, {}},
                                                {7, 96, {}},
                                                {16, 160, {}},
                                                {17, 31, {}},
                                                {32, 130, {}},
                                                {33, 257, {}},
                                                {48, 64, {}},
                                                {49, 191, {}},
                                                {130, 66, {}},
                                                {3, 300, {0, 32, 64, 64, 101, 103, 167, 168, 300}},
                                                {40, 300, {0, 1, 64, 64, 101, 133, 167, 168, 300}},
                                                {97, 300, {0, 1, 64, 64, 101, 133, 167, 168, 300}},
                                                {530, 40, {0, 33, 40}}};
  return products;
}

TEST(BlockSumsTest, ProductsAreThoseOfTheDefinition) {
  const auto definition = Definition();
  for (size_t i = 0; i < Products().size(); ++i) {
    const Product& product = Products()[i];
    Matrix w = HostileMatrix(70, product.in, DType::kBF16, 100 + i);
    Matrix in = HostileMatrix(product.rows, product.in, DType::kF32, 200 + i);
    Matrix expected(product.rows, 70);
    const WeightSource source = {{w.view()}, product.leaves, "w"};
    definition->MatMul(in.view(), **definition->Pack(source), expected.view());
    for (const Way& way : Ways()) {
      const auto backend = Make(way);
      Matrix found(product.rows, 70);
      backend->MatMul(in.view(), **backend->Pack(source), found.view());
      EXPECT_TRUE(SameNumbers(found, expected)) << way.set << (way.by_f32 ? " by f32" : "") << ", "
                                                << product.rows << " rows by " << product.in;
    }
  }
}

// An output so large that AMX writes it around the caches, the last group of which is not whole.
TEST(BlockSumsTest, LargeOutputsAreThoseOfTheF32Way) {
  constexpr int64_t kOut = 64 * 30 + 48;
  Matrix w = HostileMatrix(kOut, 70, DType::kBF16, 5);
  Matrix in = HostileMatrix(200, 70, DType::kF32, 6);
  for (const std::vector<int64_t>& leaves : {std::vector<int64_t>{}, {0, 33, 70}}) {
    const WeightSource source = {{w.view()}, leaves, "w"};
    std::vector<Matrix> found;
    for (const Way& way : Ways()) {
      const auto backend = Make(way);
      const auto memory = *backend->Allocate(200 * kOut * 4);
      const TensorView out = {memory->data(), DType::kF32, {}, 200, kOut, kOut};
      backend->MatMul(in.view(), **backend->Pack(source), out);
      Matrix& copy = found.emplace_back(200, kOut);
      for (int64_t r = 0; r < 200; ++r) {
        for (int64_t c = 0; c < kOut; ++c) copy.set(r, c, out.f32(r)[c]);
      }
      EXPECT_TRUE(SameNumbers(copy, found.front())) << way.set << (way.by_f32 ? " by f32" : "");
    }
  }
}

// Infinities and NaN reach what they are multiplied with, and nothing else.
TEST(BlockSumsTest, WhatIsNoNumberStaysInItsRowAndColumn) {
  Matrix w = HostileMatrix(70, 70, DType::kBF16, 1);
  Matrix in = HostileMatrix(20, 70, DType::kF32, 2);
  in.set(3, 65, INFINITY), in.set(9, 69, std::nanf(""));
  w.set(11, 68, -INFINITY), w.set(69, 0, std::nanf(""));
  const auto definition = Definition();
  const WeightSource source = {{w.view()}, {}, "w"};
  Matrix expected(20, 70);
  definition->MatMul(in.view(), **definition->Pack(source), expected.view());
  for (const Way& way : Ways()) {
    const auto backend = Make(way);
    Matrix found(20, 70);
    backend->MatMul(in.view(), **backend->Pack(source), found.view());
    EXPECT_TRUE(SameNumbers(found, expected)) << way.set << (way.by_f32 ? " by f32" : "");
  }
}

// A cache of one sequence of `slots` slots, and its queries: all rows in one step, then each row
// alone.
struct Attending {
  KvShape shape;
  int64_t group;
  int64_t slots;
};

Matrix AttendWith(Backend& backend, const Attending& what, Matrix& q, Matrix& k, Matrix& v,
                  bool alone) {
  KvShape shape = what.shape;
  shape.num_blocks = (what.slots + shape.block_size - 1) / shape.block_size;
  const auto buffer = *backend.Allocate(backend.KvLayerBytes(shape));
  const KvLayer layer = {buffer->data(), {}, shape};
  std::vector<int32_t> blocks;
  for (int64_t i = shape.num_blocks; i > 0; --i) blocks.push_back(static_cast<int32_t>(i - 1));
  const std::vector<int32_t> begin = {0};
  Matrix out(what.slots, q.cols());
  const int64_t rows = alone ? 1 : what.slots;
  for (int64_t first = 0; first < what.slots; first += rows) {
    const std::vector<int32_t> row_begin = {0, static_cast<int32_t>(rows)};
    const std::vector<int32_t> position = {static_cast<int32_t>(first)};
    const AttentionBatch batch = {row_begin, position, begin, blocks};
    backend.WriteKv(k.view().Rows(first, rows), v.view().Rows(first, rows), batch, layer);
    backend.Attention(q.view().Rows(first, rows), layer, batch, 0.3f, out.view().Rows(first, rows));
  }
  return out;
}

TEST(BlockSumsTest, AttentionIsThatOfTheDefinition) {
  const auto definition = Definition();
  uint64_t seed = 0;
  for (const auto& [head_dim, kv_heads, group, slots, block_size] :
       std::vector<std::array<int64_t, 5>>{{128, 2, 2, 150, 16},
                                           {64, 1, 7, 300, 32},
                                           {80, 2, 1, 70, 16},
                                           {16, 1, 4, 135, 64},
                                           {8, 3, 3, 40, 16}}) {
    KvShape shape;
    shape.dtype = DType::kBF16;
    shape.block_size = block_size;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    const Attending what = {shape, group, slots};
    Matrix q = Matrix(slots, kv_heads * group * head_dim).Fill(++seed);
    Matrix k = Matrix(slots, kv_heads * head_dim).Fill(++seed);
    Matrix v = HostileMatrix(slots, kv_heads * head_dim, DType::kF32, ++seed);
    if (head_dim == 64) v.set(45, 3, INFINITY), v.set(170, 9, std::nanf(""));
    Matrix expected = AttendWith(*definition, what, q, k, v, false);
    for (const Way& way : Ways()) {
      for (const bool alone : {false, true}) {
        const auto backend = Make(way);
        EXPECT_TRUE(SameNumbers(AttendWith(*backend, what, q, k, v, alone), expected))
            << way.set << (way.by_f32 ? " by f32" : "") << (alone ? ", rows alone" : "")
            << ", heads of " << head_dim;
      }
    }
  }
}

// 10^8 pairs of operands by each way, against the plain f32 way: random bits of every kind.
TEST(BlockSumsTest, WaysAgreeOnManyPairs) {
  const std::vector<Way> ways = Ways();
  const auto plain = Make(ways.back());
  int64_t pairs = 0;
  for (uint64_t seed = 1; pairs < 100'000'000; ++seed) {
    Matrix w = HostileMatrix(256, 512, DType::kBF16, 2 * seed);
    Matrix in = HostileMatrix(200, 512, DType::kF32, 2 * seed + 1);
    const WeightSource source = {{w.view()}, {}, "w"};
    Matrix expected(200, 256);
    plain->MatMul(in.view(), **plain->Pack(source), expected.view());
    for (const Way& way : ways) {
      const auto backend = Make(way);
      Matrix found(200, 256);
      backend->MatMul(in.view(), **backend->Pack(source), found.view());
      ASSERT_TRUE(SameNumbers(found, expected)) << way.set << ", seed " << seed;
    }
    pairs += 256 * 512 * 200;
  }
}

}  // namespace
}  // namespace tutti::kernels
