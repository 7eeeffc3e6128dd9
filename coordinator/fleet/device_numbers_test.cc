#include "coordinator/fleet/device_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;

TEST(DeviceNumbersTest, WhoConnectsFirstDoesNotMatterBeforeTheyAreFixed) {
  DeviceNumbers numbers;
  for (const char* id : {"w10", "w2", "w1"}) numbers.Join(id);
  EXPECT_THAT(numbers.names(), ElementsAre("w1", "w2", "w10"));
  numbers.Leave("w1");
  EXPECT_THAT(numbers.names(), ElementsAre("w2", "w10"));
  EXPECT_EQ(numbers.NumberOf("w10"), 1u);
  EXPECT_EQ(numbers.NumberOf("w1"), 2u) << "has none";
}

TEST(DeviceNumbersTest, FixedNumbersStayWithTheirWorkers) {
  DeviceNumbers numbers;
  for (const char* id : {"w2", "w3"}) numbers.Join(id);
  numbers.Fix();
  numbers.Leave("w2");
  numbers.Join("w1");
  numbers.Join("w2");
  numbers.Join("w0");
  EXPECT_THAT(numbers.names(), ElementsAre("w2", "w3", "w1", "w0"));
}

TEST(DeviceNumbersTest, AreBounded) {
  DeviceNumbers numbers;
  numbers.Fix();
  for (size_t i = 0; i < kDeviceNumbersMax + 5; ++i) numbers.Join(absl::StrCat("w", i));
  EXPECT_EQ(numbers.names().size(), kDeviceNumbersMax);
}

}  // namespace
}  // namespace tutti::coordinator
