#include "worker/kernel_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace tutti::worker {
namespace {

using kernels::Knob;
using ::testing::HasSubstr;

constexpr int64_t kDistances[] = {0, 512, 1024, 2048};
constexpr int64_t kSizes[] = {32, 64};

// Two knobs, and a processor of which the test says what each value costs.
class FakeTunable : public kernels::Tunable {
 public:
  std::span<const Knob> knobs() const override { return knobs_; }
  int64_t knob_value(size_t knob) const override { return values_[knob]; }
  void SetKnob(size_t knob, int64_t value) override { values_[knob] = value; }
  std::string TunedFor() const override { return "fake/1"; }

  // The cost of the products that show knob `name`: a factor for a value; 1 where none is given.
  std::map<std::string, std::map<int64_t, double>> cost;
  double Seconds(int64_t rows) {
    ++measured;
    double seconds = 0.002;
    for (size_t k = 0; k < knobs_.size(); ++k) {
      const auto& factors = cost[std::string(knobs_[k].name)];
      const auto found = factors.find(values_[k]);
      if (knobs_[k].rows == rows && found != factors.end()) seconds *= found->second;
    }
    return seconds;
  }
  int measured = 0;

 private:
  const std::vector<Knob> knobs_ = {{"ahead", "", kDistances, 1024, 1},
                                    {"size", "", kSizes, 64, 9}};
  std::vector<int64_t> values_ = {1024, 64};
};

class KernelTunerTest : public ::testing::Test {
 protected:
  std::vector<KnobResult> Tune(const TuneLimits& limits = {}) {
    return TuneKnobs(&tunable_, limits,
                     [this](int64_t rows) { return tunable_.Seconds(rows) * disturb_(); });
  }
  FakeTunable tunable_;
  std::function<double()> disturb_ = [] { return 1.0; };
};

TEST_F(KernelTunerTest, TheQuickestValueIsSet) {
  tunable_.cost["ahead"] = {{0, 0.9}, {512, 0.8}, {2048, 1.3}};
  const auto results = Tune();
  EXPECT_EQ(results[0].chosen, 512);
  EXPECT_EQ(results[0].rounds, kTuneRoundsMax);
  EXPECT_DOUBLE_EQ(results[0].values[1].seconds, 0.0016);
  EXPECT_DOUBLE_EQ(results[0].values[1].of_usual, 0.8);
  EXPECT_EQ(results[1].chosen, 64) << "equal ones";
  EXPECT_EQ(tunable_.knob_value(0), 512);
  EXPECT_EQ(ChoicesText(tunable_), "ahead=512");
}

TEST_F(KernelTunerTest, ALittleIsNotWorthIt) {
  tunable_.cost["ahead"] = {{0, 1 - kTuneGain / 2}, {2048, 1 - kTuneGain / 3}};
  tunable_.cost["size"] = {{32, 1 - 2 * kTuneGain}};
  const auto results = Tune();
  EXPECT_EQ(results[0].chosen, 1024);
  EXPECT_EQ(results[1].chosen, 32);
  EXPECT_EQ(ChoicesText(tunable_), "size=32");
}

TEST_F(KernelTunerTest, AHostThatChangesItsSpeedMovesNothing) {
  // Twice as slow for some 20 measurements, then quick again, from another beginning each time.
  for (int begin = 0; begin < 40; ++begin) {
    int at = begin;
    disturb_ = [&at] { return at++ / 20 % 2 == 0 ? 1.0 : 2.0; };
    for (const KnobResult& result : Tune()) EXPECT_EQ(result.chosen, result.usual) << begin;
  }
}

TEST_F(KernelTunerTest, NoiseMovesNothingAndAGainIsSeenThroughIt) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    disturb_ = [&random] { return 1 + 0.02 * random.Uniform() + (random.Chance(0.05) ? 1 : 0); };
    tunable_.cost = {};
    for (const KnobResult& result : Tune()) EXPECT_EQ(result.chosen, result.usual) << seed;
    tunable_.cost["ahead"] = {{0, 0.75}};
    EXPECT_EQ(Tune()[0].chosen, 0) << seed;
    tunable_.SetKnob(0, 1024);
  }
}

TEST_F(KernelTunerTest, TimeIsBounded) {
  double spent = 0;
  const auto tune = [&](double seconds, double each) {
    spent = 0;
    return TuneKnobs(&tunable_, {.seconds = seconds}, [&](int64_t rows) {
      const double took = tunable_.Seconds(rows) / 0.002 * each;
      spent += took;
      return took;
    });
  };
  tunable_.cost["ahead"] = {{0, 0.5}};
  tunable_.cost["size"] = {{32, 0.5}};
  const auto quick = tune(1, 0.001);
  EXPECT_EQ(quick[0].rounds, kTuneRoundsMax);
  EXPECT_LT(spent, 0.2);
  const auto medium = tune(1, 0.03);
  EXPECT_LT(medium[0].rounds, kTuneRoundsMax);
  EXPECT_GE(medium[0].rounds, kTuneRoundsMin);
  EXPECT_EQ(medium[0].chosen, 0);
  EXPECT_LT(spent, 1.2) << "the last round may be longer than what is left";
  tunable_.SetKnob(0, 1024);
  tunable_.SetKnob(1, 64);
  // A machine so slow that no knob gets its rounds: one look at each, and the usual values.
  const auto slow = tune(1, 0.2);
  for (const KnobResult& result : slow) {
    EXPECT_EQ(result.rounds, 0);
    EXPECT_EQ(result.chosen, result.usual);
  }
  EXPECT_EQ(ChoicesText(tunable_), "usual");
}

TEST_F(KernelTunerTest, ChoicesAreReadAsTheyAreWritten) {
  tunable_.SetKnob(0, 2048);
  tunable_.SetKnob(1, 32);
  const std::string text = ChoicesText(tunable_);
  EXPECT_EQ(text, "ahead=2048,size=32");
  ASSERT_TRUE(SetChoices("usual", &tunable_).ok());
  EXPECT_EQ(ChoicesText(tunable_), "usual");
  ASSERT_TRUE(SetChoices(text, &tunable_).ok());
  EXPECT_EQ(ChoicesText(tunable_), text);
  for (const char* wrong : {"", "ahead", "ahead=", "ahead=3", "size=32,ahead=x", "speed=1", "=1",
                            "size=32,", "ahead=99999999999999999999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SetChoices(wrong, &tunable_))) << wrong;
    EXPECT_EQ(ChoicesText(tunable_), text) << "nothing changes at " << wrong;
  }
  ASSERT_TRUE(SetChoices("size=32", &tunable_).ok());
  EXPECT_EQ(ChoicesText(tunable_), "size=32") << "what is not named is as usual";
}

class TuneAtStartTest : public ::testing::Test {
 protected:
  void TearDown() override { unlink(file_.c_str()); }
  const std::string file_ = absl::StrCat(::testing::TempDir(), "kernel_tuner_test.", getpid());
};

TEST_F(TuneAtStartTest, EqualWorkersOfAMachineMeasureOnce) {
  const auto first = *kernels::CreateBackend("cpu", {.num_threads = 1});
  EXPECT_THAT(TuneAtStart(first.get(), DType::kBF16, file_), HasSubstr("kernels measured in"));
  const auto second = *kernels::CreateBackend("cpu", {.num_threads = 1});
  const std::string choices = ChoicesText(*first->tunable());
  EXPECT_EQ(TuneAtStart(second.get(), DType::kBF16, file_),
            absl::StrCat("kernels as measured before: ", choices));
  EXPECT_EQ(ChoicesText(*second->tunable()), choices);
}

TEST_F(TuneAtStartTest, WhatWasLeftIsTakenAndWhatIsNoneIsNot) {
  auto backend = *kernels::CreateBackend("cpu", {.num_threads = 1});
  auto* const tunable = backend->tunable();
  ASSERT_NE(tunable, nullptr);
  ASSERT_FALSE(TuneAtStart(backend.get(), DType::kBF16, file_).empty());
  std::string key;
  std::ifstream(file_) >> key;
  std::ofstream(file_) << key << " ahead-1=0,ahead-13=0\n";
  EXPECT_THAT(TuneAtStart(backend.get(), DType::kBF16, file_), HasSubstr("ahead-1=0,ahead-13=0"));
  EXPECT_EQ(ChoicesText(*tunable), "ahead-1=0,ahead-13=0");
  std::ofstream(file_) << key << " ahead-1=7\n";
  EXPECT_THAT(TuneAtStart(backend.get(), DType::kBF16, file_), HasSubstr("kernels measured in"));
}

TEST_F(TuneAtStartTest, AFileThatCannotBeUsedIsLeftOut) {
  const auto backend = *kernels::CreateBackend("cpu", {.num_threads = 1});
  EXPECT_THAT(TuneAtStart(backend.get(), DType::kBF16, "/nonexistent/file"),
              HasSubstr("kernels measured in"));
}

TEST_F(TuneAtStartTest, ABackendWithoutKnobsHasNothingToChoose) {
  const auto reference = *kernels::CreateBackend("reference", {});
  EXPECT_EQ(TuneAtStart(reference.get(), DType::kBF16, ""), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(TuneBackend(reference.get(), DType::kBF16, {}).status()));
}

}  // namespace
}  // namespace tutti::worker
