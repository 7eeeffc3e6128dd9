#include "client/device_deal.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

MachineDevices Gpus(int count) {
  MachineDevices machine;
  for (int i = 0; i < count; ++i) {
    machine.gpus.push_back({.device = absl::StrCat("cuda:", i),
                            .name = "NVIDIA H200",
                            .memory_bytes = int64_t{141} << 30});
  }
  if (count == 0) machine.problem = "this machine has no NVIDIA driver";
  return machine;
}

TEST(DeviceDealTest, EveryGpuIsUsedWithoutBeingNamed) {
  const auto deal = DealDevices({}, Gpus(4));
  ASSERT_TRUE(deal.ok()) << deal.status();
  EXPECT_THAT(deal->devices, ElementsAre("cuda:0", "cuda:1", "cuda:2", "cuda:3"));
  EXPECT_TRUE(deal->gpus);
  EXPECT_EQ(deal->memory_per_worker, 0) << "each worker takes what its GPU has";
  EXPECT_EQ(deal->reason, "");
}

TEST(DeviceDealTest, WhereThereIsNoGpuTheCpuIsNoNews) {
  MachineDevices machine =
      *ParseDeviceReport(R"({"gpus":[],"problem":"no plug-in","no_gpu":true})");
  EXPECT_EQ(DealDevices({}, machine)->reason, "");
  EXPECT_THAT(std::string(DealDevices({.device = "cuda"}, machine).status().message()),
              HasSubstr("no plug-in"));
  machine = *ParseDeviceReport(R"({"gpus":[],"problem":"no plug-in","no_gpu":false})");
  EXPECT_EQ(DealDevices({}, machine)->reason, "no plug-in");
}

TEST(DeviceDealTest, WorkersGetGpusInOrder) {
  EXPECT_THAT(DealDevices({.device = "cuda", .workers = 2}, Gpus(4))->devices,
              ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(DealDevices({.device = "cuda:2"}, Gpus(4))->devices, ElementsAre("cuda:2"));
}

TEST(DeviceDealTest, GpusThatMayNotServeAreLeftOut) {
  MachineDevices machine = Gpus(3);
  machine.gpus[1].problem = "GPU 1 (GT 710) has compute capability 3.5";
  EXPECT_THAT(DealDevices({}, machine)->devices, ElementsAre("cuda:0", "cuda:2"));
  const auto named = DealDevices({.device = "cuda:1"}, machine);
  EXPECT_EQ(named.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(named.status().message()), HasSubstr("GT 710"));
}

TEST(DeviceDealTest, NoGpuServesTwoWorkersUnasked) {
  const auto many = DealDevices({.workers = 5}, Gpus(4));
  EXPECT_EQ(many.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(many.status().message()),
              AllOf(HasSubstr("--workers 5: 4 GPUs"), HasSubstr("--share-devices"),
                    HasSubstr("start 4 workers")));
  const auto named = DealDevices({.device = "cuda:0", .workers = 4}, Gpus(4));
  EXPECT_THAT(std::string(named.status().message()),
              AllOf(HasSubstr("--device cuda:0 is one GPU"), HasSubstr("--device cuda to deal")));
}

TEST(DeviceDealTest, SharedGpusAreDividedByMemory) {
  const auto deal = DealDevices({.workers = 5, .share = true}, Gpus(2));
  ASSERT_TRUE(deal.ok()) << deal.status();
  EXPECT_THAT(deal->devices, ElementsAre("cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"));
  // Three of them and their contexts fit beside each other.
  EXPECT_LT(3 * (deal->memory_per_worker + (int64_t{768} << 20)), int64_t{141} << 30);
  EXPECT_GT(3 * deal->memory_per_worker, int64_t{120} << 30);
}

// A part of a GPU (MIG) may be smaller than the contexts that are assumed.
TEST(DeviceDealTest, SharersOfASmallGpuGetEqualPartsToo) {
  for (const int64_t mib : {64, 1024, 1536, 3072}) {
    MachineDevices machine = Gpus(1);
    machine.gpus[0].memory_bytes = mib << 20;
    const auto deal = DealDevices({.workers = 2, .share = true}, machine);
    ASSERT_TRUE(deal.ok()) << deal.status();
    EXPECT_GT(deal->memory_per_worker, 0) << mib << " MiB";
    EXPECT_LE(2 * deal->memory_per_worker, mib << 20);
  }
}

TEST(DeviceDealTest, TheCpuServesWhereNoGpuMayAndSaysWhy) {
  const auto deal = DealDevices({.workers = 2}, Gpus(0));
  ASSERT_TRUE(deal.ok());
  EXPECT_THAT(deal->devices, ElementsAre("cpu", "cpu"));
  EXPECT_FALSE(deal->gpus);
  EXPECT_THAT(deal->reason, HasSubstr("no NVIDIA driver"));
  EXPECT_THAT(DealDevices({}, Gpus(0))->devices, ElementsAre("cpu"));
  EXPECT_EQ(DealDevices({.device = "cuda"}, Gpus(0)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(DeviceDealTest, WhoNamesTheCpuHearsNothingOfGpus) {
  const auto deal = DealDevices({.device = "cpu", .workers = 3}, {});
  EXPECT_THAT(deal->devices, ElementsAre("cpu", "cpu", "cpu"));
  EXPECT_EQ(deal->reason, "");
  EXPECT_FALSE(DealsGpus("cpu") || DealsGpus("reference"));
}

TEST(DeviceDealTest, ReadsWhatAWorkerReports) {
  const auto machine = ParseDeviceReport(
      R"({"gpus":[{"device":"cuda:0","id":"GPU-1","memory_bytes":5,"name":"x","problem":""},7],)"
      R"("problem":""})");
  ASSERT_TRUE(machine.ok()) << machine.status();
  ASSERT_EQ(machine->gpus.size(), 1u);
  EXPECT_EQ(machine->gpus[0].memory_bytes, 5);
  for (const char* text : {"", "[]", "{}", "{\"gpus\":3}", "tutti-worker: killed"}) {
    EXPECT_EQ(ParseDeviceReport(text).status().code(), absl::StatusCode::kInternal) << text;
  }
  EXPECT_THAT(std::string(ParseDeviceReport("nonsense").status().message()),
              AllOf(HasSubstr("nonsense"), Not(HasSubstr("\n"))));
}

}  // namespace
}  // namespace tutti::client
