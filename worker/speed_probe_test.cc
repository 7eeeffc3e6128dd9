#include "worker/speed_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/several_classes.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

class SharedSpeedTest : public ::testing::Test {
 protected:
  SharedSpeedTest() { unlink(file_.c_str()); }
  ~SharedSpeedTest() override { unlink(file_.c_str()); }
  absl::StatusOr<MeasuredSpeed> Ask(const std::string& key) {
    return SharedSpeed(file_, key, [this]() -> absl::StatusOr<MeasuredSpeed> {
      ++measured_;
      return MeasuredSpeed{1e10 * measured_, 5e10};
    });
  }
  const std::string file_ = absl::StrCat(::testing::TempDir(), "speed_probe_test.", getpid());
  int measured_ = 0;
};

TEST_F(SharedSpeedTest, EqualWorkersAreToldTheSame) {
  EXPECT_DOUBLE_EQ(Ask("cpu/1")->read_bytes_per_second, 1e10);
  EXPECT_DOUBLE_EQ(Ask("cpu/1")->read_bytes_per_second, 1e10);
  EXPECT_EQ(measured_, 1);
  EXPECT_DOUBLE_EQ(Ask("cpu/2")->read_bytes_per_second, 2e10) << "of other threads";
  EXPECT_DOUBLE_EQ(Ask("cpu/1")->flops_per_second, 5e10);
  EXPECT_EQ(measured_, 2);
}

TEST_F(SharedSpeedTest, WhatIsNoSpeedIsMeasuredAgain) {
  std::ofstream(file_) << "cpu/1 fast\ncpu/1\n\x01\xff cpu/1 -1B/s@2flop/s\n"
                       << std::string(100'000, 'x');
  EXPECT_DOUBLE_EQ(Ask("cpu/1")->read_bytes_per_second, 1e10);
  EXPECT_DOUBLE_EQ(SharedSpeed("/nonexistent/file", "k",
                               [] {
                                 return absl::StatusOr<MeasuredSpeed>(MeasuredSpeed{3, 4});
                               })
                       ->flops_per_second,
                   4);
}

TEST_F(SharedSpeedTest, WhatWasMeasuredBesideOthersIsForOneStart) {
  const auto busy = [this]() -> absl::StatusOr<MeasuredSpeed> {
    ++measured_;
    return MeasuredSpeed{1e9, 2e9, 0.4};
  };
  EXPECT_DOUBLE_EQ(SharedSpeed(file_, "k", busy)->others_share, 0.4);
  const auto equal = Ask("k");
  EXPECT_DOUBLE_EQ(equal->read_bytes_per_second, 1e9) << "an equal worker of the same start";
  EXPECT_DOUBLE_EQ(equal->others_share, 0.4) << "and it says how it came to be";
  EXPECT_EQ(measured_, 1);
  std::ofstream(file_, std::ios::app) << "k 1000000000B/s@2000000000flop/s!1700000000:0.4\n";
  EXPECT_DOUBLE_EQ(Ask("k")->read_bytes_per_second, 2e10) << "measured again";
  EXPECT_DOUBLE_EQ(Ask("k")->read_bytes_per_second, 2e10);
  EXPECT_EQ(measured_, 2);
}

TEST(MeasureWhenQuiet, TakesTheBestUntilOthersAreDone) {
  int measures = 0, pauses = 0;
  const auto run = [&](std::vector<double> during) {
    measures = pauses = 0;
    bool before = true;
    return MeasureWhenQuiet(
        [&] {
          ++measures;
          return MeasuredSpeed{10.0 * measures, 100.0 / measures};
        },
        [&] {
          before = !before;
          return before ? during[measures - 1] : 1.0;
        },
        [&] { ++pauses; });
  };
  const MeasuredSpeed quiet = run({0.05});
  EXPECT_EQ(measures, 1);
  EXPECT_EQ(pauses, 0);
  EXPECT_EQ(quiet.others_share, 0);
  const MeasuredSpeed later = run({0.9, 0.5, 0.02});
  EXPECT_EQ(measures, 3);
  EXPECT_EQ(later.others_share, 0);
  EXPECT_DOUBLE_EQ(later.read_bytes_per_second, 30);
  EXPECT_DOUBLE_EQ(later.flops_per_second, 100);
  const MeasuredSpeed never = run({0.9, 0.5, 0.4, 0.3});
  EXPECT_EQ(measures, 4);
  EXPECT_DOUBLE_EQ(never.others_share, 0.3);
}

TEST(OthersShare, SeesOthers) {
  OthersShare share;
  // The system counts in hundredths of a second.
  constexpr clock_t kWork = CLOCKS_PER_SEC * 3 / 10;
  const pid_t other = fork();
  if (other == 0) {
    while (clock() < kWork) {
    }
    _exit(0);
  }
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  const double beside = share.Since();
  EXPECT_GT(beside, 0);
  EXPECT_LE(beside, 1);
}

TEST_F(SharedSpeedTest, OneMeasuresAtATime) {
  std::atomic<int> at_once = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&, i] {
      const auto speed = SharedSpeed(file_, absl::StrCat("k", i), [&] {
        EXPECT_EQ(++at_once, 1);
        std::this_thread::yield();
        --at_once;
        return absl::StatusOr<MeasuredSpeed>(MeasuredSpeed{1e9, 1e9});
      });
      EXPECT_TRUE(speed.ok());
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST_F(SharedSpeedTest, ErrorsAreNotKept) {
  const auto failed = SharedSpeed(file_, "k", [] {
    return absl::StatusOr<MeasuredSpeed>(absl::ResourceExhaustedError("no memory"));
  });
  EXPECT_TRUE(absl::IsResourceExhausted(failed.status()));
  EXPECT_TRUE(Ask("k").ok());
}

TEST(SpeedProbeTest, MeasuresInMuchLessThanASecond) {
  auto backend = kernels::CreateBackend("cpu", {.num_threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto start = std::chrono::steady_clock::now();
  const auto speed = MeasureSpeed(backend->get(), DType::kBF16);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->read_bytes_per_second, 1e8);
  EXPECT_LT(speed->read_bytes_per_second, 1e12);
  EXPECT_GT(speed->flops_per_second, 1e8);
  RecordProperty("seconds", absl::StrCat(seconds));
  std::printf("read %.1f GB/s, %.1f Gflop/s, measured in %.2f s\n",
              speed->read_bytes_per_second * 1e-9, speed->flops_per_second * 1e-9, seconds);
}

TEST(SpeedProbeTest, AClassIsComparedWithAnother) {
  const auto backend = *kernels::CreateBackend("cpu", {.num_threads = 1});
  auto* const several = backend->several_classes();
  const std::vector<std::string> classes = several->numerics_classes();
  ASSERT_EQ(classes.size(), 3u);
  const MeasuredSpeed best = {.read_bytes_per_second = 1e10, .flops_per_second = 1e11};
  double ratio[2];
  for (const size_t other : {0, 1}) {
    several->ComputeIn(classes[other]);
    const auto speed = SpeedFrom(classes[1 - other], best, backend.get(), 1, DType::kBF16);
    ASSERT_TRUE(speed.ok()) << speed.status();
    EXPECT_EQ(backend->numerics_class(), classes[other]) << "as before";
    EXPECT_EQ(speed->read_bytes_per_second, 1e10);
    ratio[other] = speed->flops_per_second / best.flops_per_second;
    std::printf("%s: %.2f times the products of %s\n", classes[other].c_str(), ratio[other],
                classes[1 - other].c_str());
  }
  // Each is the inverse of the other, whatever else the machine does.
  EXPECT_GT(ratio[0] * ratio[1], 0.5);
  EXPECT_LT(ratio[0] * ratio[1], 2);
}

TEST(SpeedProbeTest, SpeedsAreToldAsTyped) {
  EXPECT_DOUBLE_EQ(ParseSpeed("900GB/s@71Tflop/s")->flops_per_second, 71e12);
  for (const char* text : {"", "900GB/s", "900GB/s@", "@1Tflop/s", "1GB/s@1Tflop/s@1"}) {
    EXPECT_FALSE(ParseSpeed(text).ok()) << text;
  }
  EXPECT_THAT(ParseSpeed("fast").status().ToString(), HasSubstr("such as 900GB/s@71Tflop/s"));
}

}  // namespace
}  // namespace tutti::worker
