#include "metrics/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "metrics/buckets.h"
#include "metrics/process_metrics.h"

namespace tutti::metrics {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Written(const Histogram& histogram) {
  Exposition text;
  histogram.Write({{"a", "b"}}, &text);
  return text.Release();
}

TEST(Histogram, CountsUpToAndWithEachBound) {
  Histogram histogram({1, 2.5});
  histogram.Observe(0.5);
  histogram.Observe(1);
  histogram.Observe(2, 3);
  histogram.Observe(100);
  EXPECT_EQ(Written(histogram),
            "_bucket{a=\"b\",le=\"1.0\"} 2\n"
            "_bucket{a=\"b\",le=\"2.5\"} 5\n"
            "_bucket{a=\"b\",le=\"+Inf\"} 6\n"
            "_sum{a=\"b\"} 107.5\n"
            "_count{a=\"b\"} 6\n");
}

TEST(Histogram, CountsEverythingOnceFromSeveralThreads) {
  Histogram histogram(FirstTokenBounds());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&histogram] {
      for (int value = 0; value < 1000; ++value) histogram.Observe(value);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(histogram.count(), 4000U);
  EXPECT_THAT(Written(histogram), HasSubstr("_sum{a=\"b\"} 1998000\n"));
}

TEST(Buckets, OfTokensGoUpToTheLongestContext) {
  EXPECT_THAT(TokenBounds(100), ElementsAre(1, 2, 5, 10, 20, 50, 100));
  EXPECT_THAT(TokenBounds(40), ElementsAre(1, 2, 5, 10, 20));
  EXPECT_LE(TokenBounds(INT32_MAX).size(), kBoundsMax);
}

TEST(ProcessMetrics, TellOfThisProcess) {
  Exposition text;
  WriteProcess("test", &text);
  WriteCertificates({{"public", ""}, {"peer", "/nonexistent.pem"}}, &text);
  const std::string all = text.Release();
  EXPECT_THAT(all, HasSubstr("tutti_build_info{program=\"test\",build=\""));
  for (const char* name : {"process_start_time_seconds", "process_resident_memory_bytes",
                           "process_open_fds", "process_max_fds", "process_cpu_seconds_total"}) {
    EXPECT_THAT(all, HasSubstr(std::string("\n") + name + " "));
  }
  EXPECT_THAT(all, ::testing::Not(HasSubstr("tutti_certificate_expiry_time_seconds{")));
}

}  // namespace
}  // namespace tutti::metrics
