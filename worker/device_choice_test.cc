#include "worker/device_choice.h"

#include <unistd.h>

#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti::worker {
namespace {

using kernels::GpuList;
using ::testing::AllOf;
using ::testing::HasSubstr;

GpuList FourGpus() {
  GpuList list;
  for (int i = 0; i < 4; ++i) {
    list.gpus.push_back({.index = i,
                         .id = absl::StrCat("GPU-", i),
                         .name = "NVIDIA H200",
                         .memory_bytes = int64_t{141} << 30});
  }
  return list;
}

GpuList NoDriver() { return {.problem = "this machine has no NVIDIA driver"}; }

class DeviceChoiceTest : public ::testing::Test {
 protected:
  DeviceChoiceTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  absl::StatusOr<DeviceChoice> Choose(const std::string& device, const GpuList& gpus,
                                      bool share = false) {
    return ChooseDevice({device, share}, gpus, [this](const std::string& id) {
      return DeviceClaim::Take(folder_, id, "worker w0");
    });
  }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/device_choice_", getpid());
};

TEST_F(DeviceChoiceTest, WorkersThatAreToldNothingTakeAGpuEach) {
  std::vector<DeviceChoice> held;
  for (const char* device : {"cuda:0", "cuda:1", "cuda:2", "cuda:3"}) {
    auto choice = Choose("auto", FourGpus());
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->device, device);
    EXPECT_THAT(choice->reason, HasSubstr("NVIDIA H200"));
    held.push_back(*std::move(choice));
  }
  const auto fifth = Choose("auto", FourGpus());
  EXPECT_EQ(fifth.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(fifth.status().message()),
              AllOf(HasSubstr("cuda:3: worker w0 has it"), HasSubstr("--share-devices"),
                    HasSubstr("--device cpu")));
  held.erase(held.begin() + 2);
  EXPECT_EQ(Choose("auto", FourGpus())->device, "cuda:2") << "a worker that ended gives it back";
}

TEST_F(DeviceChoiceTest, AGpuThatMayNotServeIsPassedOver) {
  GpuList gpus = FourGpus();
  gpus.gpus[0].problem = "GPU 0 (GT 710) has compute capability 3.5";
  EXPECT_EQ(Choose("auto", gpus)->device, "cuda:1");
  EXPECT_EQ(WhyNoGpu(gpus), "");
}

TEST_F(DeviceChoiceTest, TheCpuServesWhereNoGpuMay) {
  const auto choice = Choose("auto", NoDriver());
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->device, "cpu");
  EXPECT_THAT(choice->reason, HasSubstr("no NVIDIA driver"));
  GpuList old = FourGpus();
  for (auto& gpu : old.gpus) gpu.problem = absl::StrCat("GPU ", gpu.index, " is too old");
  EXPECT_THAT(Choose("auto", old)->reason,
              AllOf(HasSubstr("GPU 0 is too old"), HasSubstr("GPU 3 is too old")));
}

TEST_F(DeviceChoiceTest, CudaMeansAGpuAndNothingElse) {
  EXPECT_EQ(Choose("cuda", FourGpus())->device, "cuda:0");
  const auto none = Choose("cuda", NoDriver());
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no NVIDIA driver"));
}

TEST_F(DeviceChoiceTest, ANamedGpuServesOneWorkerUnlessItIsShared) {
  const auto first = Choose("cuda:1", FourGpus());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->reason, "");
  const auto second = Choose("cuda:1", FourGpus());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("cuda:1"), HasSubstr("--share-devices"), HasSubstr("worker w0")));
  EXPECT_EQ(Choose("cuda:1", FourGpus(), /*share=*/true)->device, "cuda:1");
}

TEST_F(DeviceChoiceTest, NoNumberOfAGpuEvadesItsHolder) {
  const auto first = Choose("cuda:0", FourGpus());
  ASSERT_TRUE(first.ok());
  for (const char* device : {"cuda:0", "cuda:00", "cuda:+0"}) {
    EXPECT_EQ(Choose(device, FourGpus()).status().code(), absl::StatusCode::kAlreadyExists)
        << device;
  }
}

TEST_F(DeviceChoiceTest, WithoutAFolderToTellOthersItServesAllTheSame) {
  const auto nowhere = [](const std::string&) -> absl::StatusOr<DeviceClaim> {
    return absl::FailedPreconditionError("cannot make the folder /tmp/x: Read-only file system");
  };
  for (const char* device : {"auto", "cuda", "cuda:0"}) {
    const auto choice = ChooseDevice({device, false}, FourGpus(), nowhere);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->device, "cuda:0");
    EXPECT_THAT(choice->reason, HasSubstr("not told: cannot make the folder"));
  }
}

TEST_F(DeviceChoiceTest, OtherNamesStayWhatTheyAre) {
  for (const char* device : {"cpu", "reference", "tpu", "cuda:x", "cuda:7"}) {
    const auto choice = Choose(device, FourGpus());
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->device, device);
    EXPECT_FALSE(choice->claim.has_value());
  }
}

TEST_F(DeviceChoiceTest, AnIdIsNoPath) {
  auto claim = DeviceClaim::Take(folder_, "../../etc/passwd\n", "worker w0");
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/device-.._.._etc_passwd_.lock"));
}

TEST(DeviceReportTest, SaysEveryGpuInOneLine) {
  GpuList gpus = FourGpus();
  gpus.gpus.resize(1);
  gpus.gpus[0].name = "bad \xff name\n";
  const std::string report = DeviceReport(gpus);
  EXPECT_EQ(report.find('\n'), std::string::npos);
  EXPECT_THAT(report, AllOf(HasSubstr("\"device\":\"cuda:0\""), HasSubstr("\"id\":\"GPU-0\"")));
  EXPECT_THAT(DeviceReport(NoDriver()), HasSubstr("no NVIDIA driver"));
}

}  // namespace
}  // namespace tutti::worker
