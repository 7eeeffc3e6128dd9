#include "placement/module_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "model/quantise_choice.h"
#include "tests/support/tiny_model.h"

namespace tutti::placement {
namespace {

using ::testing::HasSubstr;

model::ModelConfig Untied(int64_t layers) {
  model::ModelConfig model = tests::TinyModel(layers);
  model.tie_word_embeddings = false;
  return model;
}

std::vector<int32_t> Layers(const ModuleMap& map) {
  std::vector<int32_t> layers;
  for (const ModuleMap::Stage& stage : map.stages) layers.push_back(stage.num_layers);
  return layers;
}

// The refusal of a map with these entries, without braces.
std::string Refusal(const std::string& entries, const model::ModelConfig& model = Untied(4),
                    int64_t num_devices = 2) {
  const auto map = ParseModuleMap("{" + entries + "}", "map.json", model, num_devices);
  EXPECT_FALSE(map.ok()) << entries;
  EXPECT_TRUE(absl::IsInvalidArgument(map.status())) << map.status();
  EXPECT_THAT(map.status().ToString(), HasSubstr("device map map.json"));
  return map.status().ToString();
}

constexpr const char* kEnds = R"("model.embed_tokens": 0, "model.norm": 1, "lm_head": 1)";

TEST(ModuleMapTest, ReadsWhatAccelerateWrites) {
  const std::string text = R"({"model.embed_tokens": 0, "model.layers.0": 0,
      "model.layers.1": 0, "model.layers.2": 1, "model.layers.3": 1, "model.norm": 1,
      "model.rotary_emb": 1, "lm_head": 1})";
  const auto map = ParseModuleMap(text, "map.json", Untied(4), 2);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(Layers(*map), (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(map->stages[1].device.index, 1);
  EXPECT_TRUE(map->notes.empty());
}

TEST(ModuleMapTest, PrefixesStandForWhatIsBelowThem) {
  const auto whole = ParseModuleMap(R"({"": 0})", "map.json", Untied(4), 1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(Layers(*whole), (std::vector<int32_t>{4}));
  const auto most = ParseModuleMap(
      R"({"model": "cuda:0", "model.layers.3": "cuda:1", "model.norm": 1, "lm_head": 1})",
      "map.json", Untied(4), 2);
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(Layers(*most), (std::vector<int32_t>{3, 1}));
  const auto parts = ParseModuleMap(
      R"({"model.embed_tokens": 0, "model.layers": 0, "model.layers.1.mlp": 0, "model.norm": 0,
          "lm_head": "cuda"})",
      "map.json", Untied(4), 2);
  EXPECT_TRUE(parts.ok()) << parts.status();
}

TEST(ModuleMapTest, DevicesMayBeNamedWhereTheyAreNotCounted) {
  const auto map = ParseModuleMap(
      R"({"model": "w7", "model.layers.2": "w2", "model.layers.3": "w2", "model.norm": "w2",
          "lm_head": "w2"})",
      "map.json", Untied(4), -1);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->stages[0].device, (MappedDevice{-1, "w7"}));
  EXPECT_EQ(Layers(*map), (std::vector<int32_t>{2, 2}));
}

TEST(ModuleMapTest, ATiedHeadMayBeWithTheEmbedding) {
  const std::string text = R"({"model.embed_tokens": 0, "lm_head": 0, "model.layers.0": 0,
      "model.layers.1": 1, "model.norm": 1})";
  const auto map = ParseModuleMap(text, "map.json", tests::TinyModel(2), 2);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->notes.size(), 1u);
  EXPECT_THAT(map->notes[0], HasSubstr("devices 0 and 1 both hold it"));
  const auto refused = ParseModuleMap(text, "map.json", Untied(2), 2);
  EXPECT_THAT(refused.status().ToString(),
              HasSubstr(R"("lm_head" goes to device 0 and "model.layers.1" to 1)"));
  EXPECT_THAT(refused.status().ToString(), HasSubstr(R"(choice is "lm_head": 1)"));
}

// Its codes are made of the embedding, at the end of the model.
TEST(ModuleMapTest, AHeadOfCodesIsNamedAsATiedOne) {
  model::ModelConfig model = tests::TinyModel(2);
  ASSERT_TRUE(model.tie_word_embeddings);
  ASSERT_TRUE(model::ApplyQuantise({"int8", true}, &model).ok());
  const std::string layers = R"({"model.embed_tokens": 0, "model.layers.0": 0,
      "model.layers.1": 1, "model.norm": 1)";
  for (const char* head : {"}", R"(, "lm_head": 1})"}) {
    const auto map = ParseModuleMap(layers + head, "map.json", model, 2);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(Layers(*map), (std::vector<int32_t>{1, 1}));
  }
}

TEST(ModuleMapTest, UnknownModules) {
  const std::string layers = R"("model.layers": 0, "model.norm": 0, "lm_head": 0, )";
  EXPECT_THAT(Refusal(layers + R"("model.embed_token": 0)"),
              HasSubstr(R"(no module "model.embed_token"; the nearest is "model.embed_tokens")"));
  EXPECT_THAT(Refusal(layers + R"("model.layers.4": 0)"), HasSubstr(R"("model.layers.)"));
  EXPECT_THAT(Refusal(layers + R"("transformer.h.0": 0)"), HasSubstr("the nearest is"));
  EXPECT_THAT(Refusal(layers + R"("model.layers.0.self_attn.qproj": 0)"),
              HasSubstr(R"(nearest is "model.layers.0.self_attn.q_proj")"));
}

TEST(ModuleMapTest, EveryModuleHasOneDevice) {
  EXPECT_THAT(Refusal(absl::StrCat(
                  R"("model.layers.0": 0, "model.layers.1": 0, "model.layers.3": 1, )", kEnds)),
              HasSubstr("\"model.layers.2.input_layernorm\" is given no device; the nearest valid "
                        "choice is \"model.layers.2.input_layernorm\": 0"));
  EXPECT_THAT(Refusal(R"("model.layers": 0, "model.norm": 0, "lm_head": 0)"),
              HasSubstr(R"("model.embed_tokens" is given no device)"));
  EXPECT_THAT(Refusal(R"("model": 0)"), HasSubstr(R"("lm_head" is given no device)"));
  EXPECT_THAT(Refusal(R"("": 0, "model.layers.1": 0, "model.layers.1": 1)"),
              HasSubstr(R"("model.layers.1" is given twice)"));
}

TEST(ModuleMapTest, LayersAreNotSplit) {
  const std::string text = Refusal(absl::StrCat(R"("model.layers": 0, "model.layers.3": 1, )",
                                                R"("model.layers.1.mlp": 1, )", kEnds));
  EXPECT_THAT(text, HasSubstr("model.layers.1.mlp"));
  EXPECT_THAT(text, HasSubstr("a layer is never split"));
  EXPECT_THAT(text, HasSubstr(R"(nearest valid choice is "model.layers.1": 0)"));
}

TEST(ModuleMapTest, LayersOfADeviceFollowEachOther) {
  EXPECT_THAT(Refusal(absl::StrCat(R"("model.layers": 0, "model.layers.1": 1, )", kEnds)),
              HasSubstr(R"("model.layers.2" goes back to device 0, after device 1)"));
  EXPECT_THAT(Refusal(R"("": 0, "model.norm": 1)"),
              HasSubstr(R"("model.norm" goes to device 1 and "model.layers.3" to 0)"));
  EXPECT_THAT(Refusal(R"("": 0, "model.embed_tokens": 1)"),
              HasSubstr(R"(nearest valid choice is "model.embed_tokens": 0)"));
}

TEST(ModuleMapTest, Devices) {
  EXPECT_THAT(Refusal(R"("": "cpu")"), HasSubstr("nothing is offloaded"));
  EXPECT_THAT(Refusal(R"("": "disk")"), HasSubstr("give a number from 0 to 1"));
  EXPECT_THAT(Refusal(R"("": 2)"), HasSubstr("goes to device 2; there are 2, the last is 1"));
  EXPECT_THAT(Refusal(R"("": "cuda:7")"), HasSubstr("goes to device 7"));
  EXPECT_THAT(Refusal(R"("": -1)"), HasSubstr("-1 is not a device"));
  EXPECT_THAT(Refusal(R"("": 1e30)"), HasSubstr("is not a device"));
  EXPECT_THAT(Refusal(R"("": 18446744073709551615)"), HasSubstr("is not a device"));
  EXPECT_THAT(Refusal(R"("": [0])"), HasSubstr("is not a device"));
  EXPECT_THAT(Refusal(R"("": "w1")"), HasSubstr(R"("w1" is not a device)"));
}

TEST(ModuleMapTest, NotAMap) {
  for (const char* text : {"", "[]", "{}", "{", "1", "{\"\": }"}) {
    const auto map = ParseModuleMap(text, "map.json", Untied(4), 2);
    EXPECT_THAT(map.status().ToString(), HasSubstr("must be a JSON object")) << text;
  }
  const std::string deep = "{\"\": " + std::string(100'000, '[') + "}";
  EXPECT_FALSE(ParseModuleMap(deep, "map.json", Untied(4), 2).ok());
  const std::string large(kModuleMapBytesMax + 1, ' ');
  EXPECT_THAT(ParseModuleMap(large, "map.json", Untied(4), 2).status().ToString(),
              HasSubstr("larger than"));
}

}  // namespace
}  // namespace tutti::placement
