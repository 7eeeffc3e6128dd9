#include "placement/max_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "placement/placement_testing.h"

namespace tutti::placement {
namespace {

using ::testing::HasSubstr;

TEST(MaxMemoryTest, Reads) {
  const auto limits = ParseMaxMemory("0=20GiB, w7=1.5GiB");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(*limits, (MaxMemory{{"0", 20 * kGiB}, {"w7", kGiB * 3 / 2}}));
}

TEST(MaxMemoryTest, NamesWhatIsWrong) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {{"", "DEVICE=SIZE"},
               {"20GiB", "DEVICE=SIZE"},
               {"0=", "DEVICE=SIZE"},
               {"=1GiB", "DEVICE=SIZE"},
               {"0=20Gibi", "20Gibi"},
               {"0=1GiB,0=2GiB", "device 0 is given twice"},
               {"0=1GiB,cpu=64GiB", "nothing is offloaded to \"cpu\""},
               {"disk=1TB", "nothing is offloaded"}};
  for (const auto& item : cases) {
    const auto limits = ParseMaxMemory(item.text);
    EXPECT_THAT(limits.status().ToString(), HasSubstr(item.words)) << item.text;
  }
}

TEST(MaxMemoryTest, LimitsAndLeavesOut) {
  const std::vector<DeviceSpec> devices = {
      {"w1", 24 * kGiB, {}}, {"w2", 8 * kGiB, {}}, {"w3", 8 * kGiB, {}}};
  EXPECT_EQ(LimitMemory({}, devices)->size(), 3u);
  const auto limited = LimitMemory({{"0", 10 * kGiB}, {"w3", 20 * kGiB}}, devices);
  ASSERT_TRUE(limited.ok()) << limited.status();
  ASSERT_EQ(limited->size(), 2u);
  EXPECT_EQ((*limited)[0].memory_bytes, 10 * kGiB);
  EXPECT_EQ((*limited)[1].memory_bytes, 8 * kGiB) << "a limit adds nothing";
  for (const char* name : {"3", "w4", "-1", "99999999999999999999"}) {
    EXPECT_THAT(LimitMemory({{name, kGiB}}, devices).status().ToString(),
                HasSubstr(std::string("no device ") + name));
  }
}

}  // namespace
}  // namespace tutti::placement
