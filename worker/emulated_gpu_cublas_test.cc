// Whole models in the class that multiplies many rows by cuBLASLt, on the emulated GPU and by a
// library that computes on the host: near the exact class, and not equal to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/emulated/emulated_backend.h"
#include "worker/class_offers.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

constexpr char kClass[] = "cuda-emulated-cublas";
constexpr int kPrompt = 140;  // rows of one step; from 128 on they are many

class EmulatedCublasTest : public ::testing::TestWithParam<std::string> {
 protected:
  EmulatedCublasTest() { setenv("TUTTI_CUBLASLT_LIBRARY", TUTTI_CUBLASLT, 1); }

  std::vector<float> LastLogits(const std::string& numerics_class, int32_t chunk) {
    TestPipeline pipeline({.model_dir = GoldenDir(GetParam()),
                           .backend = "cuda-emulated",
                           .numerics_class = numerics_class,
                           .max_batch_tokens = kPrompt});
    std::vector<TokenId> prompt;
    for (int t = 0; t < kPrompt; ++t) {
      prompt.push_back(static_cast<TokenId>((7 * t + t * t) % pipeline.config().vocab_size));
    }
    std::vector<float> logits = pipeline.LastLogits(prompt, chunk);
    kernels_ = pipeline.launches(0).kernels;
    return logits;
  }
  static double Distance(const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max<double>(most, std::abs(a[i] - b[i]));
    return most;
  }
  static double Spread(const std::vector<float>& logits) {
    const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
    return *most - *least;
  }

  int64_t kernels_ = 0;  // started by the last pipeline
};

TEST_P(EmulatedCublasTest, LogitsAreNearThoseOfTheExactClass) {
  const std::vector<float> exact = LastLogits("", kPrompt);
  const int64_t of_exact = kernels_;
  const std::vector<float> many = LastLogits(kClass, kPrompt);
  ASSERT_EQ(many.size(), exact.size());
  EXPECT_LT(Distance(many, exact), 0.02 * Spread(exact));
  if (GetParam() == "grouped-tied-f16") {
    EXPECT_NE(many, exact) << "the library was not asked";
  } else {
    // bf16 rounds away at every layer's end what the sums of so small a model differ by. Its rows
    // need no scaling kernels, so the library's products are kernels less.
    EXPECT_LT(kernels_, of_exact) << "the library was not asked";
  }
}

// Few rows a step are multiplied as ever.
TEST_P(EmulatedCublasTest, FewRowsAtATimeHaveTheBitsOfTheExactClass) {
  EXPECT_EQ(LastLogits(kClass, 70), LastLogits("", 70));
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedCublasTest,
                         ::testing::Values("grouped-tied-bf16", "grouped-tied-f16"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
                           return name;
                         });

TEST(EmulatedCublasOfferTest, IsOfferedAsNotExactAndAlone) {
  setenv("TUTTI_CUBLASLT_LIBRARY", TUTTI_CUBLASLT, 1);
  for (const bool exact : {true, false}) {
    const auto backend =
        *kernels::cuda::OpenEmulatedBackend({.numerics_class = exact ? "" : kClass}, 0);
    v1::Hello hello;
    OfferClasses(
        backend.get(), {}, [] { return MeasuredSpeed{}; }, &hello);
    ASSERT_EQ(hello.numerics_size(), 1);
    EXPECT_EQ(hello.numerics(0).inexact(), !exact);
    EXPECT_EQ(hello.numerics_class(), exact ? "cuda-emulated" : kClass);
  }
}

}  // namespace
}  // namespace tutti::worker
