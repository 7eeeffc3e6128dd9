// Rows to draw from are asked about in one go: a kernel for each question, and one wait.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/cuda/emulated/emulated_backend.h"

namespace tutti::kernels::cuda {
namespace {

constexpr int64_t kRows = 16, kVocab = 8192, kWanted = 64;

class SelectionTest : public ::testing::Test {
 protected:
  SelectionTest() {
    logits_ = *backend_->Allocate(kRows * kVocab * 4);
    host_.resize(kRows * kVocab);
    for (size_t i = 0; i < host_.size(); ++i) host_[i] = std::sin(static_cast<float>(i * i % 9973));
    Upload();
    std::iota(rows_.begin(), rows_.end(), 0);
  }
  TensorView View(void* data, Device device) const {
    return {.data = data,
            .dtype = DType::kF32,
            .device = device,
            .rows = kRows,
            .cols = kVocab,
            .row_stride = kVocab};
  }
  void Upload() {
    backend_->Convert(View(host_.data(), Device()), View(logits_->data(), backend_->device()));
  }
  // The kernels that selecting from all rows took.
  int64_t Select() {
    const int64_t before = backend_->launch_counts().kernels;
    out_.assign(kRows * kWanted, Candidate{.id = 77});
    backend_->TopCandidatesOfRows(View(logits_->data(), backend_->device()), rows_, kWanted, out_);
    return backend_->launch_counts().kernels - before;
  }

  const std::unique_ptr<Backend> backend_ = MakeEmulatedBackend();
  std::unique_ptr<DeviceBuffer> logits_;
  std::vector<float> host_;
  std::vector<int32_t> rows_ = std::vector<int32_t>(kRows);
  std::vector<Candidate> out_;
};

TEST_F(SelectionTest, TakesOneKernelForAllRows) {
  Select();  // starts what was queued before
  EXPECT_EQ(Select(), 1);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < kWanted; ++i) {
      const Candidate& found = out_[static_cast<size_t>(r * kWanted + i)];
      ASSERT_EQ(found.logit, host_[static_cast<size_t>(r * kVocab + found.id)]);
    }
  }
}

TEST_F(SelectionTest, ARowOfEqualsTakesNoMore) {
  Select();
  std::fill_n(host_.begin() + 3 * kVocab, kVocab, 1.0f);
  Upload();
  Select();  // starts what was queued before
  EXPECT_EQ(Select(), 1);
  for (int32_t i = 0; i < kWanted; ++i) {
    EXPECT_EQ(out_[static_cast<size_t>(3 * kWanted + i)].id, i) << "of equals the first";
  }
}

TEST_F(SelectionTest, ASummaryTakesOneKernelForEachQuestion) {
  const std::vector<double> temperatures(2 * kRows, 1);
  const std::vector<ColumnRange> ranges = {{0, 1000}, {1000, kVocab - 1000}};
  std::vector<Candidate> bests(kRows), lists(kRows * kWanted);
  std::vector<double> sums(temperatures.size() * ranges.size());
  const auto summarize = [&] {
    const int64_t before = backend_->launch_counts().kernels;
    backend_->Summarize(View(logits_->data(), backend_->device()),
                        {temperatures, ranges, rows_, kWanted}, {bests, sums, lists});
    return backend_->launch_counts().kernels - before;
  };
  summarize();  // starts what was queued before
  EXPECT_EQ(summarize(), 3);
}

}  // namespace
}  // namespace tutti::kernels::cuda
