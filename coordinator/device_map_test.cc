#include "coordinator/device_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using ::testing::HasSubstr;

ModelConfig Layers(int64_t count) {
  ModelConfig config;
  config.num_layers = count;
  config.num_heads = config.num_kv_heads = 8;
  config.head_dim = 8;
  config.hidden_size = config.intermediate_size = 64;
  config.vocab_size = 1024;
  return config;
}

TEST(DeviceMapTest, ReadsStagesInOrder) {
  const auto map = ParseDeviceMap(R"([{"worker":"b","layers":3},{"worker":"a","layers":1}])",
                                  "map.json", Layers(4));
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  ASSERT_EQ(map->size(), 2u);
  EXPECT_EQ((*map)[0].worker_id, "b");
  EXPECT_EQ((*map)[0].num_layers, 3);
}

TEST(DeviceMapTest, NamesWhatIsWrong) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {
      {"", "must be a JSON array"},
      {"{}", "must be a JSON array"},
      {"[]", "must be a JSON array"},
      {"[1]", "[0].worker"},
      {R"([{"layers":4}])", "[0].worker"},
      {R"([{"worker":"../x","layers":4}])", "[0].worker"},
      {R"([{"worker":"a"}])", "[0].layers"},
      {R"([{"worker":"a","layers":-1}])", "[0].layers"},
      {R"([{"worker":"a","layers":0}])", "[0].layers"},
      {R"([{"worker":"a","layers":5}])", "[0].layers"},
      {R"([{"worker":"a","layers":2},{"worker":"a","layers":2}])", "'a' is named twice"},
      {R"([{"worker":"a","layers":2},{"worker":"b","layers":1}])", "add up to 3, the model has 4"},
  };
  for (const auto& item : cases) {
    const auto map = ParseDeviceMap(item.text, "map.json", Layers(4));
    ASSERT_FALSE(map.ok()) << item.text;
    EXPECT_THAT(std::string(map.status().message()), HasSubstr(item.words)) << item.text;
    EXPECT_THAT(std::string(map.status().message()), HasSubstr("map.json"));
  }
}

}  // namespace
}  // namespace tutti
