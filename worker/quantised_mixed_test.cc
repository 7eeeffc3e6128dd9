// Checkpoints whose matrices have several formats, by layer and role: logits against the same
// numbers in f32, one voice over every layout, bytes held against those planned; and those that are
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files_testing.h"
#include "model/config_json.h"
#include "model/fingerprint.h"
#include "worker/plain_checkpoint_testing.h"
#include "worker/quantised_checkpoint_testing.h"
#include "worker/quantised_formats_testing.h"
#include "worker/quantised_voice_testing.h"

namespace tutti::worker {
namespace {

using model::Role;
using nlohmann::json;
using testing::HasSubstr;

bool IsAttention(Role role) {
  return role == Role::kQuery || role == Role::kKey || role == Role::kValue ||
         role == Role::kAttentionOutput;
}
bool IsOfLayers(Role role) { return role != Role::kEmbedding && role != Role::kHead; }

// Groups of compressed-tensors, each with a format of its own.
json Groups(const std::vector<json>& configs) {
  json all = {{"quant_method", "compressed-tensors"}, {"format", "mixed-precision"}};
  for (const json& config : configs) {
    json group = config["config_groups"]["group_0"];
    group["format"] = config["format"];
    all["config_groups"]["group_" + std::to_string(all["config_groups"].size())] = group;
  }
  return all;
}

json Dynamic(const json& overrides) {
  json config = GptqConfig(4, 32, true);
  config["dynamic"] = overrides;
  return config;
}

struct Case {
  std::string name;
  std::string from;  // a folder with a checkpoint in f32
  json quantization;
  FormatChoice choice;
};

class QuantisedMixedTest : public ::testing::Test {
 protected:
  // Three layers each, and two of the experts'.
  std::vector<Case> Cases() const {
    const json fp8 = {
        {"quant_method", "compressed-tensors"},
        {"format", "float-quantized"},
        {"config_groups",
         {{"group_0",
           {{"targets", {"Linear"}}, {"weights", {{"num_bits", 8}, {"strategy", "channel"}}}}}}}};
    return {
        {"first and last layers left as they were", made_, Fp8(48),
         [](Role role, int64_t layer) { return IsOfLayers(role) && layer == 1 ? 0 : -1; }},
        {"only MLPs", made_, Packed(4, 32, false),
         [](Role role, int64_t) { return IsOfLayers(role) && !IsAttention(role) ? 0 : -1; }},
        {"8 bits and other groups for some", made_,
         Dynamic({{"-:.*0.*", json::object()}, {"+:.*down.*", {{"bits", 8}, {"group_size", 16}}}}),
         [](Role role, int64_t layer) {
           if (!IsOfLayers(role) || (layer == 0 && IsAttention(role))) return -1;
           return role == Role::kDown && layer > 0 ? 1 : 0;
         }},
        {"attention in FP8, MLPs in int4, the last layer in int8", made_,
         Groups({fp8, Packed(4, 32, true), Packed(8, 16, true)}),
         [](Role role, int64_t layer) {
           return !IsOfLayers(role) ? -1 : layer == 2 ? 2 : IsAttention(role) ? 0 : 1;
         }},
        {"with zero points and without", made_,
         Groups({Packed(4, 32, false), Packed(4, 32, true), Nvfp4()}),
         [](Role role, int64_t layer) { return !IsOfLayers(role) ? -1 : static_cast<int>(layer); }},
        {"rows that are rounded by some products", made_,
         Groups({Integers(true), Packed(8, 16, true)}),
         [](Role role, int64_t layer) {
           if (!IsOfLayers(role)) return -1;
           return IsAttention(role) && layer < 2 ? 1 : 0;
         }},
        {"an embedding, and the head tied to it", made_, Packed(8, 16, true),
         [](Role role, int64_t layer) { return role == Role::kEmbedding || layer >= 0 ? 0 : -1; }},
        {"an embedding and a head", experts_, Groups({Packed(4, 8, false), Packed(8, 16, true)}),
         [](Role role, int64_t) {
           return role == Role::kEmbedding ? 0 : role == Role::kHead ? 1 : -1;
         }},
        {"a head, and experts of one layer", experts_, Packed(4, 8, true),
         [](Role role, int64_t layer) {
           return role == Role::kHead || (layer == 1 && role != Role::kRouter) ? 0 : -1;
         }},
    };
  }
  QuantisedCopy Make(const Case& one, const std::string& dtype) {
    return MakeMixedCopy(one.from, one.quantization, dir_.File(one.name), dtype, one.choice);
  }

  TempDir dir_;
  const std::string made_ = MakePlainModel(dir_.path());
  const std::string experts_ = MakePlainModel(dir_.path(), true);
};

TEST_F(QuantisedMixedTest, GiveTheLogitsOfTheirNumbers) {
  for (const Case& one : Cases()) {
    const QuantisedCopy copy = Make(one, "float32");
    const bool rounds = one.name.starts_with("rows");
    TestPipeline exact({.model_dir = rounds ? copy.codes : copy.plain, .backend = "reference"});
    const auto prompt = Prompt(131, 30, 1);
    const auto expected = exact.Logits(prompt);
    for (const char* backend : {"cpu", "reference"}) {
      TestPipeline codes({.model_dir = copy.codes, .backend = backend});
      EXPECT_LE(LargestDifference(codes.Logits(prompt), expected), 1e-3)
          << one.name << " " << backend;
    }
  }
}

TEST_F(QuantisedMixedTest, OneVoiceAndThePlannedBytesInEveryLayout) {
  for (const Case& one : Cases()) {
    const QuantisedCopy copy = Make(one, "bfloat16");
    TestPipelineOptions options = {.model_dir = copy.codes, .backend = "cpu", .num_blocks = 128};
    std::vector<TestPipelineOptions> others(5, options);
    others[0].layers = {1, 2};
    others[1].layers = {1, 1, 1};
    others[2].ranks = {2};
    others[3].ranks = {4};
    others[4].layers = {2, 1};
    others[4].ranks = {2, 4};
    ExpectOneVoice(options, one.name, others);
    for (const TestPipelineOptions& other : others) ExpectPlannedBytes(other, one.name);
    others[2].roles_unknown = true;
    ExpectOneVoice(options, one.name + ", fetched", {others[2]});
  }
}

TEST_F(QuantisedMixedTest, LayersDifferInBytesAndInFingerprints) {
  std::set<std::string> fingerprints;
  for (const Case& one : Cases()) {
    const QuantisedCopy copy = Make(one, "bfloat16");
    const auto config = model::LoadModelConfig(copy.codes);
    ASSERT_TRUE(config.ok()) << config.status();
    std::set<int64_t> sizes;
    for (int64_t layer = 0; layer < config->num_layers; ++layer) {
      sizes.insert(
          model::ComputeShardBytes(*config, {.first_layer = layer, .num_layers = 1}, 1, 0).layers);
    }
    const bool alike = one.name == "only MLPs" || one.name.starts_with("an embedding");
    EXPECT_EQ(sizes.size() > 1, !alike) << one.name;
    fingerprints.insert(*model::ModelFingerprint(copy.codes));
  }
  EXPECT_EQ(fingerprints.size(), Cases().size());
}

TEST_F(QuantisedMixedTest, PartsOfOneProductThatDifferAreRefusedByName) {
  const json two = Groups({Packed(4, 32, true), Packed(8, 16, true)});
  const auto said = [&](const FormatChoice& choice) {
    return LoadSaid(MakeMixedCopy(made_, two, dir_.File("refused"), "bfloat16", choice).codes);
  };
  EXPECT_THAT(said([](Role role, int64_t layer) {
                return IsOfLayers(role) ? (layer == 1 && role == Role::kValue ? 1 : 0) : -1;
              }),
              HasSubstr("layer 1: of one product (query, key and value, or gate and up) query is "
                        "compressed-tensors int4, groups of 32, value is compressed-tensors int8, "
                        "groups of 16: they are served alike only"));
  EXPECT_THAT(said([](Role role, int64_t layer) {
                return IsOfLayers(role) && (layer != 2 || role != Role::kGate) ? 0 : -1;
              }),
              HasSubstr("layer 2: of one product (query, key and value, or gate and up) gate is "
                        "not quantised, up is compressed-tensors int4"));
  // Formats that tensors do not tell apart: only one of the two rounds rows.
  const json like = Groups({Integers(true), Integers(false)});
  EXPECT_THAT(LoadSaid(MakeMixedCopy(made_, like, dir_.File("like"), "bfloat16",
                                     [](Role role, int64_t) { return IsOfLayers(role) ? 0 : -1; })
                           .codes),
              HasSubstr("fit several formats of config.json"));
  // A format that config.json does not have.
  const QuantisedCopy copy =
      MakeMixedCopy(made_, two, dir_.File("other"), "bfloat16",
                    [](Role role, int64_t) { return IsOfLayers(role) ? 0 : -1; });
  json root = json::parse(ReadWholeFile(copy.codes + "/config.json"));
  root["quantization_config"] = Groups({Packed(4, 16, true), Packed(8, 16, true)});
  std::ofstream(copy.codes + "/config.json") << root.dump();
  EXPECT_THAT(LoadSaid(copy.codes), HasSubstr("fit none of the 2 formats of config.json"));
}

TEST_F(QuantisedMixedTest, ExpertsOfALayerThatDifferAreRefusedByName) {
  const json two = Groups({Packed(4, 8, true), Packed(8, 16, true)});
  int down = 0;
  const QuantisedCopy copy =
      MakeMixedCopy(experts_, two, dir_.File("experts"), "bfloat16", [&](Role role, int64_t) {
        if (role == Role::kExpertDown) return ++down == 3 ? 1 : 0;
        return IsOfLayers(role) && role != Role::kRouter ? 0 : -1;
      });
  EXPECT_THAT(LoadSaid(copy.codes),
              HasSubstr("experts.2.down_proj.weight\" (expert_down) is compressed-tensors int8, "
                        "groups of 16, those of other experts of its layer are"));
}

}  // namespace
}  // namespace tutti::worker
