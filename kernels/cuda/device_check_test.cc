#include "kernels/cuda/device_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti::kernels::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DeviceFacts Good() {
  return {.index = 1,
          .driver_version = 13000,
          .runtime_version = 13000,
          .device_count = 2,
          .name = "NVIDIA H200",
          .major = 9,
          .minor = 0,
          .built_for = "80,90,90-ptx"};
}

std::string Refusal(const DeviceFacts& facts, absl::StatusCode code,
                    const std::string& wanted = "") {
  const absl::Status status = CheckDevice(facts, wanted);
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(DeviceCheckTest, TheIdIsThatOfNvidiaSmi) {
  std::array<std::byte, 16> id;
  for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(0x10 * i + 0xf - i);
  EXPECT_EQ(IdText(id), "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
}

TEST(DeviceCheckTest, TakesWhatFits) {
  EXPECT_TRUE(CheckDevice(Good(), "").ok());
  EXPECT_TRUE(CheckDevice(Good(), "cuda-sm90").ok());
  DeviceFacts newer = Good();
  newer.driver_version = 14020;
  EXPECT_TRUE(CheckDevice(newer, "").ok());
  newer.driver_version = 13000, newer.runtime_version = 13040;
  EXPECT_TRUE(CheckDevice(newer, "").ok()) << "minor versions are compatible";
}

TEST(DeviceCheckTest, CodeRunsWithinItsMajorVersionAndPtxOnLaterGpus) {
  EXPECT_TRUE(RunsCodeFor("90", 9, 0));
  EXPECT_FALSE(RunsCodeFor("90", 8, 9));
  EXPECT_FALSE(RunsCodeFor("90", 10, 0));
  EXPECT_TRUE(RunsCodeFor("80,90", 8, 6));
  EXPECT_FALSE(RunsCodeFor("86", 8, 0));
  EXPECT_TRUE(RunsCodeFor("90,90-ptx", 12, 0));
  EXPECT_FALSE(RunsCodeFor("90-ptx", 8, 9));
  EXPECT_FALSE(RunsCodeFor("", 9, 0));
}

TEST(DeviceCheckTest, APluginWithoutCodeForTheGpuSaysWhatToBuild) {
  DeviceFacts ampere = Good();
  ampere.name = "NVIDIA A100", ampere.major = 8, ampere.minor = 0, ampere.built_for = "90";
  EXPECT_THAT(Refusal(ampere, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("A100"), HasSubstr("8.0"), HasSubstr("built for 90 only"),
                    HasSubstr("cuda-all")));
}

TEST(DeviceCheckTest, RefusalsNameBothSides) {
  DeviceFacts none = Good();
  none.driver_version = 0;
  EXPECT_THAT(Refusal(none, absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("CUDA 13.0")));
  DeviceFacts old = Good();
  old.driver_version = 12080;
  EXPECT_THAT(Refusal(old, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("12.8"), HasSubstr("13.0")));
  DeviceFacts silent = Good();
  silent.count_error = "initialization error";
  EXPECT_THAT(Refusal(silent, absl::StatusCode::kUnavailable), HasSubstr("initialization error"));
  DeviceFacts empty = Good();
  empty.device_count = 0;
  EXPECT_THAT(Refusal(empty, absl::StatusCode::kUnavailable), HasSubstr("no GPU"));
  DeviceFacts absent = Good();
  absent.index = 2;
  EXPECT_THAT(Refusal(absent, absl::StatusCode::kNotFound),
              AllOf(HasSubstr("no GPU 2"), HasSubstr("sees 2")));
  DeviceFacts turing = Good();
  turing.name = "Tesla T4", turing.major = 7, turing.minor = 5;
  EXPECT_THAT(Refusal(turing, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("Tesla T4"), HasSubstr("7.5"), HasSubstr("8.0")));
  EXPECT_THAT(Refusal(Good(), absl::StatusCode::kFailedPrecondition, "cuda-sm80"),
              AllOf(HasSubstr("cuda-sm80"), HasSubstr("cuda-sm90")));
}

}  // namespace
}  // namespace tutti::kernels::cuda
