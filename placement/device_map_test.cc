#include "placement/device_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tutti::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

model::ModelConfig Layers(int64_t count) {
  model::ModelConfig config;
  config.architecture = "Qwen3ForCausalLM";
  config.model_type = "qwen3";
  config.num_layers = count;
  config.num_heads = config.num_kv_heads = 8;
  config.head_dim = 8;
  config.hidden_size = config.intermediate_size = 64;
  config.vocab_size = 1024;
  return config;
}

TEST(DeviceMapTest, ReadsStagesInOrder) {
  const auto map = ParseDeviceMap(R"([{"worker":"b","layers":3},{"worker":"a","layers":1}])",
                                  "map.json", Layers(4), -1);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  ASSERT_EQ(map->stages.size(), 2u);
  EXPECT_THAT(map->stages[0].devices, ElementsAre(MappedDevice{-1, "b"}));
  EXPECT_EQ(map->stages[0].num_layers, 3);
  EXPECT_FALSE(NamesNumbers(*map));
}

TEST(DeviceMapTest, StagesHaveRanksAndDevicesNumbers) {
  const auto map = ParseDeviceMap(R"([{"worker":["w1",0],"layers":3},{"worker":2,"layers":1}])",
                                  "map.json", Layers(4), 3);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  EXPECT_EQ(map->stages[0].ranks(), 2);
  EXPECT_TRUE(NamesNumbers(*map));
  const auto devices = ResolveDevices(*map, {"w0", "w1", "w2"});
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(*devices, ElementsAre(1, 0, 2));
}

TEST(DeviceMapTest, ReadsHuggingFacesMapsToo) {
  const auto map = ParseDeviceMap(
      R"( {"model": "w7", "model.layers.2": "w2", "model.layers.3": "w2", "model.norm": "w2",
          "lm_head": "w2"})",
      "map.json", Layers(4), -1);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  ASSERT_EQ(map->stages.size(), 2u);
  EXPECT_THAT(map->stages[1].devices, ElementsAre(MappedDevice{-1, "w2"}));
  const auto odd = ParseDeviceMap(R"({"": "a worker"})", "map.json", Layers(4), -1);
  EXPECT_THAT(odd.status().ToString(), HasSubstr("\"a worker\" is not a device"));
}

TEST(DeviceMapTest, NamesWhatIsWrong) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {
      {"", "must be a JSON array"},
      {"[]", "must be a JSON array"},
      {"[[[[[[", "must be a JSON array"},
      {"{}", "must be a JSON object"},
      {"[1]", "[0].worker"},
      {R"([{"layers":4}])", "[0].worker"},
      {R"([{"worker":[],"layers":4}])", "[0].worker"},
      {R"([{"worker":"../x","layers":4}])", "[0].worker"},
      {R"([{"worker":-1,"layers":4}])", "[0].worker"},
      {R"([{"worker":99999999999,"layers":4}])", "[0].worker"},
      {R"([{"worker":3,"layers":4}])", "device 3 is not there; there are 3, the nearest is 2"},
      {R"([{"worker":"a"}])", "[0].layers"},
      {R"([{"worker":"a","layers":-1}])", "[0].layers"},
      {R"([{"worker":"a","layers":0}])", "[0].layers"},
      {R"([{"worker":"a","layers":5}])", "[0].layers"},
      {R"([{"worker":["a","b","c"],"layers":4}])", "the nearest that this model takes is"},
      {R"([{"worker":"a","layers":2},{"worker":"a","layers":2}])", "a is named twice"},
      {R"([{"worker":1,"layers":2},{"worker":1,"layers":2}])", "device 1 is named twice"},
      {R"([{"worker":"a","layers":2},{"worker":"b","layers":1}])",
       "add up to 3, the model has 4; the nearest valid choice is [1].layers 2"},
  };
  for (const auto& item : cases) {
    const auto map = ParseDeviceMap(item.text, "map.json", Layers(4), 3);
    ASSERT_FALSE(map.ok()) << item.text;
    EXPECT_THAT(std::string(map.status().message()), HasSubstr(item.words)) << item.text;
    EXPECT_THAT(std::string(map.status().message()), HasSubstr("map.json"));
  }
}

TEST(DeviceMapTest, ADeviceThatIsNotThereIsNamedWithTheNearest) {
  const auto numbered = ParseDeviceMap(R"({"": 5})", "map.json", Layers(4), -1);
  EXPECT_THAT(ResolveDevices(*numbered, {"w0", "w1"}).status().ToString(),
              HasSubstr("device 5 of the device map is not there; there are 2 devices: 0 (w0), 1 "
                        "(w1); the nearest is 1"));
  const auto named = ParseDeviceMap(R"({"": "gpu12"})", "map.json", Layers(4), -1);
  EXPECT_THAT(ResolveDevices(*named, {"gpu1", "node"}).status().ToString(),
              HasSubstr("gpu12 of the device map is not there; there are 2 devices: 0 (gpu1), 1 "
                        "(node); the nearest is gpu1"));
  EXPECT_THAT(ResolveDevices(*named, {}).status().ToString(), HasSubstr("there are 0 devices"));
  const auto twice = ParseDeviceMap(R"([{"worker":"w1","layers":2},{"worker":1,"layers":2}])",
                                    "map.json", Layers(4), -1);
  EXPECT_THAT(ResolveDevices(*twice, {"w0", "w1"}).status().ToString(),
              HasSubstr("names device 1 (w1) twice"));
}

TEST(DeviceMapTest, AValueIsAModeOrAFile) {
  EXPECT_EQ(ReadDeviceMap("", Layers(4), -1)->mode, DeviceMapMode::kAuto);
  EXPECT_EQ(ReadDeviceMap("balanced_low_0", Layers(4), -1)->mode, DeviceMapMode::kBalancedLow0);
  const auto typo = ReadDeviceMap("sequental", Layers(4), -1);
  EXPECT_TRUE(absl::IsNotFound(typo.status())) << typo.status();
  EXPECT_THAT(typo.status().ToString(), HasSubstr("the nearest mode is sequential"));
  const std::string path = testing::TempDir() + "device_map_test.json";
  std::ofstream(path) << R"({"": 0})";
  const auto map = ReadDeviceMap(path, Layers(4), 1);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->stages.size(), 1u);
  std::ofstream(path) << std::string(kModuleMapBytesMax + 1, ' ');
  EXPECT_THAT(ReadDeviceMap(path, Layers(4), 1).status().ToString(), HasSubstr("larger than"));
  EXPECT_FALSE(ReadDeviceMap(testing::TempDir(), Layers(4), 1).ok()) << "a folder";
}

}  // namespace
}  // namespace tutti::placement
