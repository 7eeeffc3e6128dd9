#include "model/quantise_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checkpoint_testing.h"
#include "model/quantised_roles.h"
#include "model/weight_map.h"

namespace tutti::model {
namespace {

using testing::HasSubstr;

std::string Refusal(const QuantiseChoice& choice, ModelConfig config) {
  return std::string(ApplyQuantise(choice, &config).message());
}

TEST(QuantiseChoiceTest, Schemes) {
  EXPECT_EQ(ParseQuantiseScheme("int8")->bits, 8);
  EXPECT_EQ(ParseQuantiseScheme("int4-g128")->group_size, 128);
  EXPECT_EQ(ParseQuantiseScheme("int4-g32")->group_size, 32);
  for (const char* bad : {"", "int4", "int3-g128", "int4-g", "int4-g12", "int4-g0", "int4-g032",
                          "int4-g +32", "fp8"}) {
    EXPECT_THAT(std::string(ParseQuantiseScheme(bad).status().message()),
                HasSubstr("give int8, or int4-g128"))
        << bad;
  }
}

TEST(QuantiseChoiceTest, WhatCannotBeMadeIsRefusedByName) {
  const ModelConfig config = TinyConfig();
  EXPECT_THAT(Refusal({"", true}, config), HasSubstr("--quantize-head"));
  EXPECT_THAT(Refusal({"int5"}, config), HasSubstr("int4-g128"));
  EXPECT_THAT(Refusal({"int4-g4096"}, config), HasSubstr("q_proj.weight\": has"));
  ModelConfig quantised = config;
  quantised.quant = QuantFormats({QuantConfig()}, UsualQuantisedRoles());
  EXPECT_THAT(Refusal({"int8"}, quantised), HasSubstr("quantised already"));
  ModelConfig same = config;
  EXPECT_TRUE(ApplyQuantise({}, &same).ok());
  EXPECT_TRUE(same.quant.empty());
  EXPECT_EQ(ServedFingerprint("f", same), "f");
}

TEST(QuantiseChoiceTest, AHeadOfCodesIsMadeOfTheEmbedding) {
  ModelConfig config = TinyConfig();
  config.tie_word_embeddings = true;
  const std::string embedding = WeightOf(config, Role::kEmbedding, -1).name;
  const size_t tensors = ListCheckpointTensors(config).size();
  ASSERT_TRUE(ApplyQuantise({"int4-g8", true}, &config).ok());
  EXPECT_EQ(WeightOf(config, Role::kHead, -1).name, embedding);
  EXPECT_EQ(ListCheckpointTensors(config).size(), tensors) << "it is there once";
  EXPECT_TRUE(config.makes_codes(Role::kHead, -1));
  EXPECT_FALSE(config.makes_codes(Role::kEmbedding, -1));
  EXPECT_EQ(ServedFingerprint("f", config), "f-int4-g8-head");
}

TEST(QuantiseChoiceTest, PartsAreMadeOfWholeGroups) {
  ModelConfig config = TinyConfig();
  ModelConfig rows = config;
  ASSERT_TRUE(ApplyQuantise({"int4-g8"}, &config).ok());
  ASSERT_TRUE(ApplyQuantise({"int8"}, &rows).ok());
  const WeightSpec spec = WeightOf(config, Role::kDown, 0);
  for (int rank = 0; rank < 8; ++rank) {
    const ShardTensor part = ShareTensor(config, spec, 8, rank);
    const Range cols = ColsOfCodes(config, part);
    EXPECT_EQ(cols.begin % 8, 0);
    EXPECT_EQ(cols.end % 8, 0);
    EXPECT_LE(cols.begin, part.cols.begin);
    EXPECT_GE(cols.end, part.cols.end);
    EXPECT_LT(cols.size(), part.cols.size() + 16);
    EXPECT_EQ(ColsOfCodes(rows, part).size(), spec.shape[1]) << "a scale of the whole row";
  }
}

}  // namespace
}  // namespace tutti::model
