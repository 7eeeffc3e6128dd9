// What sampling asks of rows at once is what its parts answer.
#include <limits>

#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
const float kNothing = std::nanf("");

class SummariesTest : public KernelTest {};

TEST_P(SummariesTest, BestsAreThoseOfArgMaxWithTheirValues) {
  // So long that a device looks through parts of a row.
  Matrix x = Matrix(7, 9001, DType::kF32, 2).Fill(1);
  x.set(0, 9000, 5);
  x.set(1, 4095, 5), x.set(1, 4096, 5), x.set(1, 8999, 5);
  x.set(2, 7000, kNothing);
  x.set(3, 2047, kInfinite);
  for (int64_t i = 0; i < 9001; ++i) {
    x.set(4, i, -kInfinite), x.set(5, i, i < 6000 ? -kInfinite : -0.0f);
  }
  x.set(5, 8000, 0.0f);  // equal to -0
  std::vector<int32_t> ids(7);
  tested_->ArgMax(x.view(), ids);
  EXPECT_THAT(std::vector(ids.begin(), ids.begin() + 6),
              ::testing::ElementsAre(9000, 4095, -1, -1, -1, 6000));
  for (int64_t rows : {0, 1, 7}) {
    std::vector<Candidate> bests(static_cast<size_t>(rows), Candidate{.id = 77});
    tested_->Bests(x.view().Rows(0, rows), bests);
    for (int64_t r = 0; r < rows; ++r) {
      const auto& [id, logit] = bests[static_cast<size_t>(r)];
      EXPECT_EQ(id, ids[static_cast<size_t>(r)]);
      if (id >= 0) {
        EXPECT_EQ(logit, x.at(r, id));
      }
    }
  }
}

// Rows of numbers that sampling meets, and of some that it should not.
Matrix LogitsToSummarize(int64_t rows, int64_t cols) {
  Matrix x = Matrix(rows, cols, DType::kF32, 5).Fill(1);
  x.Each([](float y) { return std::round(y * 3000) / 100; });
  for (int64_t i = 0; i < cols; ++i) {
    x.set(1, i, 1);                                     // all equal
    x.set(2, i, i % (cols / 3) == 7 ? i : -kInfinite);  // a mask that leaves few
    if (i >= 30) x.set(3, i, kNothing);
  }
  x.set(4, cols / 2, kInfinite), x.set(4, 5, -kInfinite), x.set(4, 6, -0.0f), x.set(4, 7, 0.0f);
  return x;
}

TEST_P(SummariesTest, AreThoseOfTheirParts) {
  struct Case {
    int64_t rows, cols, places;
  };
  // Parts of parts of a long row; more rows than are summarized together.
  for (const auto& [rows, cols, places] :
       {Case{6, 20000, 64}, Case{5, 9000, 1024}, Case{260, 48, 64}, Case{5, 3000, 1200}}) {
    Matrix x = LogitsToSummarize(rows, cols);
    const std::vector<ColumnRange> ranges = {{0, cols / 2}, {cols / 2, 0}, {cols / 2, cols / 3}};
    std::vector<double> temperatures(static_cast<size_t>(2 * rows), 1);
    temperatures[1] = 0;
    for (int64_t r = 0; r < rows; ++r) temperatures[static_cast<size_t>(rows + r)] = r % 3;
    std::vector<int32_t> listed = {4, 2, 0, 3, 3, 1};
    for (int32_t r = 5; r < rows; ++r) listed.push_back(r);
    std::vector<Candidate> bests[2], lists[2];
    std::vector<double> sums[2];
    for (int i = 0; i < 2; ++i) {
      bests[i].assign(static_cast<size_t>(rows), Candidate{.id = 77});
      lists[i].assign(listed.size() * static_cast<size_t>(places), Candidate{.id = 77});
      sums[i].assign(temperatures.size() * ranges.size(), 77);
      const LogitQuestions questions = {temperatures, ranges, listed, places};
      const LogitAnswers answers = {bests[i], sums[i], lists[i]};
      if (i == 0) {
        tested_->Summarize(x.view(), questions, answers);
      } else {
        tested_->Backend::Summarize(x.view(), questions, answers);
        reference_->TopCandidatesOfRows(x.view(), listed, places, lists[1]);
      }
    }
    for (size_t r = 0; r < bests[0].size(); ++r) {
      ASSERT_EQ(bests[0][r].id, bests[1][r].id) << r;
      if (bests[0][r].id >= 0) {
        ASSERT_EQ(bests[0][r].logit, bests[1][r].logit);
      }
    }
    for (size_t i = 0; i < sums[0].size(); ++i) {
      if (temperatures[i / ranges.size()] == 0) continue;
      ASSERT_EQ(std::memcmp(&sums[0][i], &sums[1][i], sizeof(double)), 0) << i;
    }
    for (size_t i = 0; i < lists[0].size(); ++i) {
      ASSERT_EQ(lists[0][i].id, lists[1][i].id) << cols << ", place " << i;
      if (lists[0][i].id >= 0) {
        ASSERT_EQ(lists[0][i].logit, lists[1][i].logit);
      }
    }
  }
}

INSTANTIATE_KERNEL_TEST(SummariesTest);

}  // namespace
}  // namespace tutti::kernels
