// Products over codes: every kind, every division of the inputs and every shape of tiles against
// the definition, bit by bit; and what must not be seen in a row's bits.
#include "absl/strings/str_cat.h"
#include "kernels/kernels_testing.h"
#include "kernels/limits.h"
#include "kernels/quantised_source.h"
#include "kernels/quantised_strips_testing.h"
#include "kernels/reference/quantised_weight.h"
#include "kernels/tunable.h"

namespace tutti::kernels {
namespace {

constexpr CodeKind kKinds[] = {CodeKind::kInt4, CodeKind::kInt8, CodeKind::kE2m1, CodeKind::kE4m3,
                               CodeKind::kNvfp4};
const char* NameOf(CodeKind kind) {
  constexpr const char* kNames[] = {"int4", "int8", "e2m1", "e4m3", "nvfp4"};
  return kNames[static_cast<size_t>(kind)];
}

// Codes of any value in rows that are longer than they need be, with a gap between rows of scales.
class Codes {
 public:
  struct Shape {
    int64_t out = 0, in = 0;
    CodeKind kind = CodeKind::kInt4;
    DType scale_type = DType::kF16;
    bool zeros = false;
    DType computed_in = DType::kBF16;
  };
  Codes(const Shape& shape, std::vector<int32_t> group_of, uint64_t seed)
      : shape_(shape), group_of_(std::move(group_of)) {
    groups_ = 1 + *std::max_element(group_of_.begin(), group_of_.end());
    Random random(seed);
    codes_.resize(static_cast<size_t>(shape.out * stride()));
    for (uint8_t& code : codes_) code = AnyCode(&random);
    const int64_t scales = shape.out * (groups_ + 3);
    scales_.resize(static_cast<size_t>(scales * DTypeBytes(shape.scale_type)));
    for (int64_t i = 0; i < scales; ++i) {
      const double scale =
          std::ldexp(1 + random.Uniform(), static_cast<int>(random.Between(-9, 0)));
      StoreFromF32(scales_.data(), shape.scale_type, i, static_cast<float>(scale));
      const int64_t most = shape.kind == CodeKind::kInt4 ? 15 : 255;
      zeros_.push_back(static_cast<uint8_t>(random.Between(0, most)));
    }
    // Every positive number of e4m3.
    for (int64_t i = 0; i < shape.out * inner_stride(); ++i) {
      inner_.push_back(static_cast<uint8_t>(random.Between(1, 0x7e)));
    }
  }
  int64_t inner_stride() const { return shape_.in / kInnerInputs + 3; }
  int64_t stride() const { return shape_.in + 5; }

  // Rows [first, first + rows) of inputs [begin, end).
  QuantisedPart Part(int64_t first, int64_t rows, int64_t begin = 0) const {
    QuantisedPart part;
    part.rows = rows;
    part.codes = codes_.data() + first * stride() + begin;
    part.code_stride = stride();
    part.group_stride = groups_ + 3;
    part.scales = scales_.data() + first * part.group_stride * DTypeBytes(shape_.scale_type);
    part.zeros = shape_.zeros ? zeros_.data() + first * part.group_stride : nullptr;
    part.group_of = std::span(group_of_).subspan(static_cast<size_t>(begin));
    if (HasInnerScales(shape_.kind)) part.inner = inner_.data() + first * inner_stride();
    part.inner_stride = inner_stride();
    return part;
  }
  QuantisedSource Source(std::vector<int64_t> leaves = {}) const {
    QuantisedSource source;
    source.kind = shape_.kind;
    source.scale_type = shape_.scale_type;
    source.computed_in = shape_.computed_in;
    source.in_features = shape_.in;
    source.groups = groups_;
    source.parts = {Part(0, shape_.out)};
    source.leaf_begin = std::move(leaves);
    source.name = "w";
    return source;
  }

 private:
  uint8_t AnyCode(Random* random) const {
    const int64_t most = CodeBits(shape_.kind) == 4 ? 15 : 255;
    auto code = static_cast<uint8_t>(random->Between(0, most));
    if (shape_.kind == CodeKind::kE4m3 && (code & 0x7f) == 0x7f) code = 0x7e;
    return code;
  }

  const Shape shape_;
  const std::vector<int32_t> group_of_;
  int64_t groups_ = 0;
  std::vector<uint8_t> codes_, zeros_, inner_;
  std::vector<std::byte> scales_;
};

std::vector<int32_t> GroupsOf(int64_t in, int64_t size) {
  std::vector<int32_t> groups;
  for (int64_t k = 0; k < in; ++k) groups.push_back(static_cast<int32_t>(k / size));
  return groups;
}
std::vector<int32_t> Shuffled(std::vector<int32_t> groups, uint64_t seed) {
  Random random(seed);
  for (size_t i = groups.size() - 1; i > 0; --i) {
    std::swap(groups[i], groups[static_cast<size_t>(random.Between(0, static_cast<int64_t>(i)))]);
  }
  return groups;
}

Matrix Product(Backend& backend, Matrix& in, const Weight& weight) {
  Matrix out(in.rows(), weight.out_features(), DType::kF32, 3);
  backend.MatMul(in.view(), weight, out.view());
  return out;
}

// What the class of `backend` makes of it.
Matrix Expected(Backend& backend, Matrix& in, const QuantisedSource& source) {
  if (backend.name() == "cuda" && source.computed_in != DType::kF32) {
    return ExpectedOfStrips(backend, in, source);
  }
  const auto weight = *ReferenceQuantised::Make(source);
  Matrix out(in.rows(), weight->out_features(), DType::kF32, 3);
  weight->MatMul(in.view(), out.view(), SumOrderOf(backend.numerics_class(), source.computed_in));
  return out;
}

// Rows of all sizes: denormals, ones that rounding makes normal, zeros of both signs.
Matrix WildRows(int64_t rows, int64_t cols, uint64_t seed) {
  Matrix in(rows, cols, DType::kF32, 2);
  Random random(seed);
  return in.Each([&](float) {
    const auto sign = static_cast<uint32_t>(random.Between(0, 1)) << 31;
    const int64_t exponent = random.Chance(0.1)   ? random.Between(0, 1)
                             : random.Chance(0.1) ? random.Between(2, 12)
                                                  : random.Between(115, 130);
    const auto fraction = static_cast<uint32_t>(random.Between(0, (1 << 23) - 1));
    return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent) << 23 | fraction);
  });
}

void SetWay(Backend& backend, int64_t by_f32) {
  Tunable* const tunable = backend.tunable();
  for (size_t k = 0; tunable != nullptr && k < tunable->knobs().size(); ++k) {
    if (tunable->knobs()[k].name.starts_with("f32-")) tunable->SetKnob(k, by_f32);
  }
}

class QuantisedTest : public KernelTest {
 protected:
  void SetUp() override {
    if (tested_->name() == "reference") GTEST_SKIP() << "it is what is compared with";
  }
  // Rows of products of every shape of tiles, and the most of them.
  std::vector<int64_t> RowCounts() const {
    if (tested_->name() == "cuda") return {1, 9, 70, 130};
    return {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 33, 75};
  }
  int64_t MostRows() const { return RowCounts().back(); }
  // `in`'s first rows, in products of few and many rows, by each way to multiply.
  void ExpectDefinition(const QuantisedSource& source, Matrix& in, const std::string& what) {
    Matrix expected = Expected(*tested_, in, source);
    const auto packed = *tested_->PackQuantised(source);
    for (const int64_t by_f32 : {0, 1}) {
      if (by_f32 == 1 && tested_->tunable() == nullptr) break;
      SetWay(*tested_, by_f32);
      for (const int64_t rows : RowCounts()) {
        if (rows > in.rows()) break;
        Matrix out(rows, packed->out_features(), DType::kF32, 1);
        tested_->MatMul(in.view().Rows(0, rows), *packed, out.view());
        for (int64_t r = 0; r < rows; ++r) {
          ASSERT_TRUE(SameBits(out, r, expected, r))
              << what << ", " << rows << " rows, row " << r << ", by f32 " << by_f32;
        }
      }
    }
  }
};

// Leaves that cut groups, some of them empty.
std::vector<int64_t> Leaves(int64_t in) {
  return {0, in / 4, in / 4, in / 2, in / 2 + 1, in - 97, in - 96, in - 33, in};
}

TEST_P(QuantisedTest, BitsAreThoseOfTheDefinition) {
  constexpr int64_t kIn = 392, kOut = 70;
  constexpr DType kScaleTypes[] = {DType::kF16, DType::kBF16, DType::kF32};
  uint64_t seed = 1;
  for (const CodeKind kind : kKinds) {
    for (const bool zeros : {false, true}) {
      if (zeros && !IsInteger(kind)) continue;
      for (const DType computed_in : {DType::kBF16, DType::kF32}) {
        for (const bool whole : {false, true}) {
          const DType scale_type = kScaleTypes[seed++ % 3];
          const Codes codes({kOut, kIn, kind, scale_type, zeros, computed_in},
                            whole ? GroupsOf(kIn, 128) : Shuffled(GroupsOf(kIn, 56), seed), seed);
          Matrix in = WildRows(MostRows(), kIn, seed);
          for (const auto& leaves : {std::vector<int64_t>{}, Leaves(kIn)}) {
            ExpectDefinition(codes.Source(leaves), in,
                             absl::StrCat(NameOf(kind), zeros ? " with zeros, " : ", ",
                                          std::string(DTypeName(scale_type)), ", ",
                                          std::string(DTypeName(computed_in))));
          }
        }
      }
    }
  }
}

TEST_P(QuantisedTest, GroupsOfAnySize) {
  for (const int64_t in : {1, 31, 64, 129, 640}) {
    for (const int64_t size : {int64_t{16}, int64_t{32}, int64_t{64}, int64_t{128}, in}) {
      const Codes codes({130, in, CodeKind::kInt4, DType::kF16, true}, GroupsOf(in, size), 5);
      Matrix rows = WildRows(33, in, 6);
      ExpectDefinition(codes.Source(), rows, absl::StrCat(in, " inputs, groups of ", size));
    }
  }
}

TEST_P(QuantisedTest, OneScaleForAllInputs) {
  for (const CodeKind kind : kKinds) {
    const Codes codes({70, 200, kind, DType::kF16, IsInteger(kind)}, GroupsOf(200, 200), 5);
    Matrix rows = WildRows(MostRows(), 200, 6);
    ExpectDefinition(codes.Source(), rows, NameOf(kind));
  }
}

TEST_P(QuantisedTest, SumsAreNearTheExactOnes) {
  for (const CodeKind kind : kKinds) {
    const Codes codes({100, 512, kind, DType::kBF16, false}, GroupsOf(512, 128), 3);
    Matrix in = Matrix(9, 512).Fill(3, DType::kBF16);
    const auto source = codes.Source();
    Matrix found = Product(*tested_, in, **tested_->PackQuantised(source));
    Matrix exact = Product(*reference_, in, **reference_->PackQuantised(source));
    float largest = 0;
    for (int64_t n = 0; n < 100; ++n) largest = std::max(largest, std::abs(exact.at(0, n)));
    EXPECT_TRUE(Near(found, exact, 1e-5 * largest)) << NameOf(kind);
  }
}

TEST_P(QuantisedTest, RowsDoNotSeeEachOtherOrTheThreads) {
  constexpr int64_t kIn = 517, kOut = 300;
  const Codes codes({kOut, kIn, CodeKind::kInt4, DType::kF16, true}, GroupsOf(kIn, 64), 1);
  Matrix in = WildRows(400, kIn, 2);
  for (int64_t k = 0; k < kIn; ++k) in.set(5, k, k % 2 ? INFINITY : NAN);
  for (const auto& leaves : {std::vector<int64_t>{}, Leaves(kIn)}) {
    const auto source = codes.Source(leaves);
    Matrix all = Product(*tested_, in, **tested_->PackQuantised(source));
    for (const int threads : {1, 3}) {
      const auto other = Tested(GetParam(), threads);
      const auto packed = *other->PackQuantised(source);
      // On a CPU also few rows behind a whole block of them.
      const bool cpu = tested_->name() == "cpu";
      for (const int64_t rows : {int64_t{1}, int64_t{7}, int64_t{30}, int64_t{100}, kRowBlock + 1,
                                 kRowBlock + 8, kRowBlock + 12, int64_t{399}}) {
        if (!cpu && rows > 100 && rows < 399) continue;
        Matrix out(rows, kOut);
        other->MatMul(in.view().Rows(1, rows), *packed, out.view());
        for (int64_t r = 0; r < rows; ++r) {
          if (1 + r == 5) continue;  // NaN payloads are not promised
          ASSERT_TRUE(SameBits(out, r, all, 1 + r)) << threads << " threads, " << rows << " rows";
        }
      }
    }
  }
}

TEST_P(QuantisedTest, LeavesAddUpInTheTreeThatRanksUse) {
  constexpr int64_t kIn = 800, kOut = 70;
  const std::vector<int64_t> leaves = {0, 100, 210, 300, 395, 500, 600, 690, kIn};
  enum class Groups : uint8_t { kInOrder, kOfAnyOrder, kWithInnerScales };
  for (const Groups what : {Groups::kInOrder, Groups::kOfAnyOrder, Groups::kWithInnerScales}) {
    const bool inner = what == Groups::kWithInnerScales;
    const auto groups = GroupsOf(kIn, inner ? kIn : 160);
    const Codes codes({kOut, kIn, inner ? CodeKind::kNvfp4 : CodeKind::kInt8, DType::kF16, !inner},
                      what == Groups::kOfAnyOrder ? Shuffled(groups, 9) : groups, 4);
    Matrix in = WildRows(4, kIn, 8);
    Matrix whole = Product(*tested_, in, **tested_->PackQuantised(codes.Source(leaves)));
    std::vector<Matrix> part;
    for (int rank = 0; rank < 4; ++rank) {
      const int64_t begin = leaves[2 * rank], end = leaves[2 * rank + 2];
      QuantisedSource source = codes.Source({0, leaves[2 * rank + 1] - begin, end - begin});
      source.in_features = end - begin;
      source.first_input = begin;
      source.parts = {codes.Part(0, kOut, begin)};
      source.parts[0].group_of = source.parts[0].group_of.first(static_cast<size_t>(end - begin));
      part.emplace_back(4, kOut);
      tested_->MatMul(in.view().Columns(begin, end - begin), **tested_->PackQuantised(source),
                      part.back().view());
    }
    for (int64_t r = 0; r < 4; ++r) {
      for (int64_t n = 0; n < kOut; ++n) {
        ASSERT_EQ((part[0].at(r, n) + part[1].at(r, n)) + (part[2].at(r, n) + part[3].at(r, n)),
                  whole.at(r, n))
            << static_cast<int>(what);
      }
    }
  }
}

TEST_P(QuantisedTest, StacksPartsAndSections) {
  const Codes q({40, 96, CodeKind::kInt4, DType::kF16, true}, Shuffled(GroupsOf(96, 32), 1), 1);
  const Codes v({30, 96, CodeKind::kInt4, DType::kF16, true}, Shuffled(GroupsOf(96, 32), 2), 2);
  QuantisedSource source = q.Source();
  source.parts = {q.Part(0, 25), q.Part(25, 15), v.Part(0, 30)};
  EXPECT_EQ(tested_->PackQuantised(source).status().code(), absl::StatusCode::kInvalidArgument)
      << "parts of one section have the same groups";
  source.parts.back().section = 1;
  const auto packed = *tested_->PackQuantised(source);
  EXPECT_EQ(packed->out_features(), 70);
  Matrix in = WildRows(20, 96, 3);
  Matrix both = Product(*tested_, in, *packed);
  Matrix first = Product(*tested_, in, **tested_->PackQuantised(q.Source()));
  Matrix second = Product(*tested_, in, **tested_->PackQuantised(v.Source()));
  for (int64_t r = 0; r < 20; ++r) {
    for (int64_t n = 0; n < 70; ++n) {
      ASSERT_EQ(both.at(r, n), n < 40 ? first.at(r, n) : second.at(r, n - 40)) << r << ", " << n;
    }
  }
}

TEST_P(QuantisedTest, HoldsCodesInTheirBits) {
  const auto bytes = [&](const Codes& codes) {
    return (*tested_->PackQuantised(codes.Source()))->bytes();
  };
  const auto groups = GroupsOf(1024, 128);
  // Tables of strips, on GPUs.
  const int64_t tables = tested_->name() == "cuda" ? GpuTableBytes({.strips = 8}) : 0;
  // Codes, scales of 16 bits and zero points of 8 for each group of 128.
  EXPECT_EQ(bytes(Codes({256, 1024, CodeKind::kInt4, DType::kF16, false}, groups, 1)),
            tables + 256 * (1024 / 2 + 8 * 2));
  EXPECT_EQ(bytes(Codes({256, 1024, CodeKind::kInt4, DType::kF16, true}, groups, 1)),
            tables + 256 * (1024 / 2 + 8 * 3));
  EXPECT_EQ(bytes(Codes({256, 1024, CodeKind::kE4m3, DType::kF32, false}, groups, 1)),
            tables + 256 * (1024 + 8 * 4));
  // Inner scales of 8 bits for each 16, and one of 32.
  EXPECT_EQ(
      bytes(Codes({256, 1024, CodeKind::kNvfp4, DType::kF32, false}, GroupsOf(1024, 1024), 1)),
      tables + 256 * (1024 / 2 + 1024 / 16 + 4));
  QuantisedSource planned = Codes({1, 32, CodeKind::kInt4}, GroupsOf(32, 32), 1).Source();
  const Codes kept({1, 32, CodeKind::kInt4}, GroupsOf(32, 32), 1);
  planned = kept.Source();
  planned.bytes_at_least = 123456;
  EXPECT_EQ((*tested_->PackQuantised(planned))->bytes(), 123456);
}

TEST_P(QuantisedTest, RefusesBadSources) {
  const Codes codes({4, 64, CodeKind::kInt4}, GroupsOf(64, 32), 1);
  const auto code = [&](const QuantisedSource& source) {
    return tested_->PackQuantised(source).status().code();
  };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  QuantisedSource source = codes.Source({0, 32});
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "leaves do not cover the input";
  source = codes.Source();
  source.groups = 1;
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "a group that there is not";
  source = codes.Source();
  source.in_features = 65;
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "groups of other inputs";
  const uint8_t zeros[8] = {};
  source = codes.Source();
  source.kind = CodeKind::kE2m1;
  source.parts[0].zeros = zeros;
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "zero points of floats";
  source.parts[0].zeros = nullptr;
  source.kind = CodeKind::kNvfp4;
  EXPECT_EQ(code(source), absl::StatusCode::kInvalidArgument) << "no inner scales";
}

INSTANTIATE_KERNEL_TEST(QuantisedTest);

TEST(CodeValueTest, EveryCodeIsExactInBf16) {
  for (int code = 0; code < 256; ++code) {
    for (int zero = 0; zero < 256; ++zero) {
      const float value =
          CodeValue(CodeKind::kInt8, static_cast<uint8_t>(code), static_cast<uint8_t>(zero));
      ASSERT_EQ(RoundTo(DType::kBF16, value), value);
    }
    if ((code & 0x7f) == 0x7f) continue;
    const float value = CodeValue(CodeKind::kE4m3, static_cast<uint8_t>(code), 0);
    ASSERT_EQ(RoundTo(DType::kBF16, value), value);
  }
  EXPECT_EQ(CodeValue(CodeKind::kE4m3, 0x7e, 0), 448);
  EXPECT_EQ(CodeValue(CodeKind::kE4m3, 0x01, 0), 0x1p-9f);
  EXPECT_EQ(CodeValue(CodeKind::kE2m1, 15, 0), -6);
  EXPECT_EQ(CodeValue(CodeKind::kInt4, 0, 15), -15);
  for (int code = 0; code < 16; ++code) {
    for (int inner = 1; inner < 0x7f; ++inner) {
      const float value = CodeValue(CodeKind::kNvfp4, static_cast<uint8_t>(code), 0) *
                          InnerScale(static_cast<uint8_t>(inner));
      ASSERT_EQ(RoundTo(DType::kBF16, value), value);
    }
  }
}

}  // namespace
}  // namespace tutti::kernels
