#include "client/plan_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::client {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kListedGiB = int64_t{1} << 30;

TEST(PlanDevicesTest, ReadsMemoryAndSpeeds) {
  const auto devices = ParseDeviceSpecs("2x24GiB, 1x80GiB@2TB/s@312Tflop/s");
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[1].name, "device 1");
  EXPECT_EQ((*devices)[1].memory_bytes, 24 * kListedGiB);
  EXPECT_FALSE((*devices)[1].speed.known());
  EXPECT_DOUBLE_EQ((*devices)[2].speed.read_bytes_per_second, 2e12);
  EXPECT_DOUBLE_EQ((*devices)[2].speed.flops_per_second, 312e12);
  EXPECT_EQ(ParseDeviceSpecs("10000x24GiB")->size(), 10000u);
}

TEST(PlanDevicesTest, ReadsKinds) {
  const auto devices = ParseDeviceSpecs("cuda:2x80GiB@2TB/s@312Tflop/s, cpu:16GiB,8GiB, cuda:1GiB");
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 5u);
  for (const size_t i : {0, 1, 4}) {
    EXPECT_EQ((*devices)[i].kind, DeviceKind::kCuda);
    EXPECT_LT(placement::UsableBytes((*devices)[i]), (*devices)[i].memory_bytes);
  }
  EXPECT_TRUE((*devices)[0].speed.known());
  for (const size_t i : {2, 3}) {
    EXPECT_EQ((*devices)[i].kind, DeviceKind::kCpu);
    EXPECT_EQ(placement::UsableBytes((*devices)[i]), (*devices)[i].memory_bytes);
  }
}

TEST(PlanDevicesTest, NamesWhatIsWrong) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {{"24Gibi", "24Gibi"},
               {"24GiB@900GB/s", "both speeds or none"},
               {"24GiB@900GB/s@1Tflop/s@2", "both speeds or none"},
               {"24GiB@fast@1Tflop/s", "\"fast\" is not a speed"},
               {"24GiB@-1GB/s@1Tflop/s", "is not a speed"},
               {"24GiB@0GB/s@1Tflop/s", "is not a speed"},
               {"24GiB@900GX/s@1Tflop/s", "unknown unit in \"900GX/s\""},
               {"24GiB@900GB/s@1Tops", "unknown unit in \"1Tops\""},
               {"gpu:24GiB", "\"gpu\" in \"gpu:24GiB\" is not a kind of device"},
               {"cuda:0:24GiB", "0:24GiB"},
               {"cuda:", "\"\""},
               {"20000x24GiB", "more than"},
               {"10000x1GiB,10000x1GiB", "more than"}};
  for (const auto& item : cases) {
    EXPECT_THAT(ParseDeviceSpecs(item.text).status().ToString(), HasSubstr(item.words))
        << item.text;
  }
}

TEST(PlanDevicesTest, Links) {
  EXPECT_DOUBLE_EQ(ParseLink("10Gbit/s")->bytes_per_second, 1.25e9);
  EXPECT_DOUBLE_EQ(ParseLink("3GB/s,5us")->latency_seconds, 5e-6);
  EXPECT_DOUBLE_EQ(ParseLink("1 Gbit/s, 1 ms")->latency_seconds, 1e-3);
  for (const char* text : {"", "fast", "1GB/s,5", "1GB/s,5us,6", "1furlong/s"}) {
    EXPECT_FALSE(ParseLink(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tutti::client
