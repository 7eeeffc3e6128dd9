// Joined operators give the bits of their parts, called one by one on the same backend.
#include "kernels/joined_operators.h"

#include <utility>

#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

constexpr float kEpsilon = 1e-6f;

// A matrix in the backend's memory, of f32.
class DeviceMatrix {
 public:
  DeviceMatrix(Backend* backend, Matrix host) : backend_(backend), host_(std::move(host)) {
    const int64_t stride = host_.view().row_stride;
    buffer_ = *backend->Allocate(std::max<int64_t>(host_.rows() * stride, 1) * 4);
    view_ = {buffer_->data(), DType::kF32, backend->device(), host_.rows(), host_.cols(), stride};
    if (host_.rows() > 0) backend->Convert(host_.view(), view_);
  }
  TensorView view() const { return view_; }
  Matrix Read() {
    Matrix read = host_;
    if (host_.rows() > 0) backend_->Convert(view_, read.view());
    return read;
  }

 private:
  Backend* backend_;
  Matrix host_;
  std::unique_ptr<DeviceBuffer> buffer_;
  TensorView view_;
};

class JoinedOperatorsTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Weight> Pack(Matrix values, std::vector<int64_t> leaves) {
    WeightSource source{.parts = {values.view()}, .leaf_begin = std::move(leaves), .name = "test"};
    auto weight = backend_->Pack(source);
    CHECK(weight.ok()) << weight.status();
    return *std::move(weight);
  }
  DeviceMatrix OnDevice(Matrix host) { return {backend_.get(), std::move(host)}; }
  DeviceMatrix Filled(int64_t rows, int64_t cols, uint64_t seed) {
    return OnDevice(Matrix(rows, cols, DType::kF32, gap_).Fill(seed));
  }
  // What lies between rows: where it is no multiple of four, no row but the first begins at 16
  // bytes.
  int64_t gap_ = 3;

  std::unique_ptr<Backend> backend_ = TestedAlone(GetParam());
  JoinedOperators plain_{backend_.get()};
  JoinedOperators* joined_ = JoinedOperators::Of(backend_.get(), &plain_);
};

::testing::AssertionResult Same(DeviceMatrix& a, DeviceMatrix& b) {
  Matrix left = a.Read(), right = b.Read();
  for (int64_t r = 0; r < left.rows(); ++r) {
    if (!SameBits(left, r, right, r)) return ::testing::AssertionFailure() << "row " << r;
  }
  return ::testing::AssertionSuccess();
}

struct Shape {
  int64_t rows, cols, out;
  std::vector<int64_t> leaves;  // of cols
  int64_t gap = 3;
};
// Few rows and many; leaves that are ragged, empty, and whole chunks; rows that all begin at 16
// bytes and rows that do not.
std::vector<Shape> Shapes() {
  std::vector<Shape> shapes = {{1, 64, 40, {0, 64}},
                               {3, 75, 33, {0, 10, 20, 20, 31, 40, 50, 60, 75}},
                               {17, 96, 24, {0, 32, 64, 64, 96}},
                               {128, 40, 20, {0, 3, 40}},
                               {129, 100, 44, {0, 4, 40, 40, 100}}};
  for (const size_t i : {0, 2, 4}) {
    shapes.push_back(shapes[i]);
    shapes.back().gap = 4;
  }
  return shapes;
}
constexpr DType kTypes[] = {DType::kBF16, DType::kF16, DType::kF32};

// Values that f16 cannot hold among those it can.
Matrix WithLargeRows(Matrix m) {
  if (m.rows() > 2) m.set(2, 1, 3e7f);
  if (m.rows() > 1) m.set(1, 0, -65519.9f);
  return m;
}

// Among rows of numbers, those that hold what is none.
Matrix WithNoNumbers(Matrix m) {
  if (m.rows() > 4) {
    m.set(4, 2, std::nanf("")), m.set(3, 0, HUGE_VALF), m.set(3, 3, -HUGE_VALF);
  }
  return m;
}

TEST_P(JoinedOperatorsTest, ActivationIsThatOfItsParts) {
  for (const auto& [rows, cols, out, leaves, gap] : Shapes()) {
    gap_ = gap;
    for (const DType type : kTypes) {
      Matrix weights(out, cols, type);
      weights.Fill(1, type);
      const auto weight = Pack(weights, leaves);
      DeviceMatrix gate_up =
          OnDevice(WithNoNumbers(WithLargeRows(Matrix(rows, 2 * cols, DType::kF32, gap_).Fill(2))));
      DeviceMatrix memory = Filled(rows, cols, 9), plain = Filled(rows, out, 8),
                   joined = Filled(rows, out, 7);
      backend_->SiluMul(gate_up.view(), memory.view());
      backend_->MatMul(memory.view(), *weight, plain.view());
      joined_->SiluMul(gate_up.view(), {memory.view(), weight.get()});
      joined_->MatMul({memory.view(), weight.get()}, joined.view());
      EXPECT_TRUE(Same(plain, joined)) << rows << " " << DTypeName(type);
    }
  }
}

// A product's leaves, the residual and its norm, and the product after it.
TEST_P(JoinedOperatorsTest, ResidualAndNormAreThoseOfTheirParts) {
  for (const auto& [rows, cols, width, leaves, gap] : Shapes()) {
    gap_ = gap;
    for (const DType type : kTypes) {
      for (const DType round_to : {DType::kF32, type}) {
        Matrix first(width, cols, type), second(50, width, type);
        const auto before = Pack(first.Fill(1, type), leaves);
        const auto after = Pack(second.Fill(2, type), {});
        DeviceMatrix in = OnDevice(WithLargeRows(Matrix(rows, 2 * cols).Fill(3)));
        DeviceMatrix norm = Filled(1, width, 4), rows_in = Filled(rows, cols, 5);
        DeviceMatrix residual[2] = {Filled(rows, width, 6), Filled(rows, width, 6)};
        DeviceMatrix delta = Filled(rows, width, 7), normed = Filled(rows, width, 8);
        DeviceMatrix out[2] = {Filled(rows, 50, 9), Filled(rows, 50, 10)};
        for (int i = 0; i < 2; ++i) {
          JoinedOperators* const operators = i == 0 ? &plain_ : joined_;
          const ProductRows activated = {rows_in.view(), before.get()};
          const NextNorm next = {norm.view(), kEpsilon, {normed.view(), after.get()}};
          operators->SiluMul(in.view(), activated);
          operators->AddProduct(activated, delta.view(), residual[i].view(), round_to, next);
          operators->MatMul(next.out, out[i].view());
        }
        EXPECT_TRUE(Same(residual[0], residual[1])) << rows << " " << DTypeName(type);
        EXPECT_TRUE(Same(out[0], out[1])) << rows << " " << DTypeName(type);
      }
    }
  }
}

// Rows from elsewhere are added; the norm goes into a product or into any memory, which may be
// that of the rows added; a residual may have no norm.
TEST_P(JoinedOperatorsTest, ResidualsOfRanksAndEndsOfStages) {
  // The last three by 16 bytes, more than once through a block's threads.
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{0, 70},   {1, 70},   {9, 70},    {130, 70},
                                                    {130, 72}, {1, 4200}, {129, 2052}};
  for (const auto& [rows, cols] : kSizes) {
    gap_ = cols == 70 ? 3 : 4;
    Matrix values(20, cols, DType::kBF16);
    const auto weight = Pack(values.Fill(1, DType::kBF16), {});
    DeviceMatrix norm = Filled(1, cols, 2);
    DeviceMatrix added = Filled(rows, cols, 3), memory = Filled(rows, cols, 4);
    std::vector<DeviceMatrix> residual, normed, out;
    for (JoinedOperators* const operators : {&plain_, joined_}) {
      residual.push_back(Filled(rows, cols, 5));
      normed.push_back(Filled(rows, cols, 6));
      out.push_back(Filled(rows, 20, 7));
      const TensorView x = residual.back().view(), anybody = normed.back().view();
      const ProductRows product = {memory.view(), weight.get()};
      operators->Norm(x, {norm.view(), kEpsilon, product});
      operators->MatMul(product, out.back().view());
      operators->AddResidual(x, anybody, DType::kBF16, {norm.view(), kEpsilon, {anybody}});
      operators->AddResidual(x, added.view(), DType::kF32, {});
    }
    EXPECT_TRUE(Same(residual[0], residual[1])) << rows << " " << cols;
    EXPECT_TRUE(Same(normed[0], normed[1])) << rows << " " << cols;
    EXPECT_TRUE(Same(out[0], out[1])) << rows << " " << cols;
  }
}

struct HeadsCase {
  DType dtype;
  int64_t heads, kv_heads, head_dim;
  bool bias, norm;
};

// Rows of sequences in blocks of 16 slots, in no order.
struct Sequences {
  std::vector<int32_t> row_begin, first_position;
  std::vector<int32_t> blocks, block_begin, positions;

  Sequences(std::vector<int32_t> row_begins, std::vector<int32_t> first_positions)
      : row_begin(std::move(row_begins)), first_position(std::move(first_positions)) {
    for (size_t s = 0; s < first_position.size(); ++s) {
      const int32_t rows = row_begin[s + 1] - row_begin[s];
      block_begin.push_back(static_cast<int32_t>(blocks.size()));
      for (int32_t i = 0; i < (first_position[s] + rows + 15) / 16; ++i) {
        blocks.push_back((7 * static_cast<int32_t>(blocks.size()) + 3) % 40);
      }
      for (int32_t i = 0; i < rows; ++i) positions.push_back(first_position[s] + i);
    }
  }
  int64_t rows() const { return row_begin.back(); }
  AttentionBatch batch() const { return {row_begin, first_position, block_begin, blocks}; }
};

class JoinedHeadsTest : public JoinedOperatorsTest {
 protected:
  void ExpectThoseOfTheirParts(const HeadsCase& c, const Sequences& sequences) {
    const int64_t width = c.heads * c.head_dim, all = width + 2 * c.kv_heads * c.head_dim;
    const int64_t rows = sequences.rows();
    const KvShape shape = {c.dtype, 16, 40, c.kv_heads, c.head_dim};
    const AttentionBatch batch = sequences.batch();
    std::vector<float> frequency(static_cast<size_t>(c.head_dim / 2));
    for (size_t i = 0; i < frequency.size(); ++i) frequency[i] = 1 / (1 + 0.37f * i);
    DeviceMatrix bias = Filled(1, all, 1), query_norm = Filled(1, c.head_dim, 2),
                 key_norm = Filled(1, c.head_dim, 3);
    const HeadTurn turn = {.bias = c.bias ? bias.view() : TensorView(),
                           .query_norm = c.norm ? query_norm.view() : TensorView(),
                           .key_norm = c.norm ? key_norm.view() : TensorView(),
                           .epsilon = kEpsilon,
                           .positions = sequences.positions,
                           .inverse_frequency = frequency};
    std::vector<int64_t> leaves;
    for (int64_t leaf = 0; leaf <= 8; ++leaf) {
      leaves.push_back(c.heads * leaf / 8 * c.head_dim);
    }
    Matrix values(30, width, c.dtype);
    const auto weight = Pack(values.Fill(4, c.dtype), leaves);
    const int64_t words = backend_->KvLayerBytes(shape) / 4;
    DeviceMatrix cache[2] = {Filled(1, words, 5), Filled(1, words, 5)};
    Matrix before(rows, all, DType::kF32, gap_);
    before.Fill(6);
    // Values that some caches cannot hold, and what no cache does.
    before.set(2, all - 1, 3e7f), before.set(3, all - 2, HUGE_VALF);
    before.set(1, all - 3, std::nanf(""));
    DeviceMatrix qkv[2] = {OnDevice(before), OnDevice(before)};
    DeviceMatrix attended = Filled(rows, width, 7);
    DeviceMatrix out[2] = {Filled(rows, 30, 8), Filled(rows, 30, 9)};
    DeviceMatrix queries[2] = {Filled(rows, width, 1), Filled(rows, width, 2)};
    for (int i = 0; i < 2; ++i) {
      JoinedOperators* const operators = i == 0 ? &plain_ : joined_;
      const KvLayer layer = {cache[i].view().data, backend_->device(), shape};
      const TensorView q = qkv[i].view().Columns(0, width);
      operators->TurnAndWriteKv(qkv[i].view(), turn, batch, layer);
      backend_->Convert(q, queries[i].view());
      const ProductRows product = {attended.view(), weight.get()};
      operators->Attention(q, layer, batch, 0.2f, product);
      operators->MatMul(product, out[i].view());
    }
    const std::string which = std::string(DTypeName(c.dtype)) + " " + std::to_string(c.head_dim);
    EXPECT_TRUE(Same(queries[0], queries[1])) << which;
    EXPECT_TRUE(Same(cache[0], cache[1])) << which;
    EXPECT_TRUE(Same(out[0], out[1])) << which;
  }
};

// Three sequences: one token far from its start, some of a prompt, one token at its start.
TEST_P(JoinedHeadsTest, AreThoseOfTheirParts) {
  const HeadsCase cases[] = {
      {DType::kBF16, 8, 2, 32, false, true},   {DType::kBF16, 3, 1, 24, true, true},
      {DType::kF16, 6, 2, 16, true, false},    {DType::kF32, 4, 4, 12, false, true},
      {DType::kBF16, 16, 2, 128, false, true}, {DType::kF16, 2, 1, 64, true, true},
      {DType::kBF16, 2, 2, 256, true, false},  {DType::kF32, 4, 2, 64, false, true}};
  for (const HeadsCase& c : cases) {
    ExpectThoseOfTheirParts(c, Sequences({0, 1, 4, 5}, {300, 20, 0}));
  }
}

// A prompt whose rows fill units of the cache, one whose rows do not, and a token between them.
TEST_P(JoinedHeadsTest, OfManyRowsAreThoseOfTheirParts) {
  const HeadsCase cases[] = {{DType::kBF16, 9, 1, 64, false, true},
                             {DType::kF16, 2, 1, 64, true, false},
                             {DType::kBF16, 2, 2, 128, true, true},
                             {DType::kF32, 1, 1, 64, true, true},
                             {DType::kBF16, 2, 1, 32, false, true}};
  for (const HeadsCase& c : cases) {
    ExpectThoseOfTheirParts(c, Sequences({0, 98, 99, 133}, {32, 200, 20}));
  }
}

INSTANTIATE_KERNEL_TEST(JoinedHeadsTest);
INSTANTIATE_KERNEL_TEST(JoinedOperatorsTest);

}  // namespace
}  // namespace tutti::kernels
