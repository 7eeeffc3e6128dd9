// What config.json says of attention and of positions beside their sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/config_json_testing.h"

namespace tutti::model {
namespace {

using nlohmann::json;

TEST(DecoderConfig, RopeParametersMayBeByTypeOfLayers) {
  json root = ValidRoot();
  root.erase("rope_theta");
  root["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  auto config = ParseRoot(root);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope.theta, 1e6);
  root["rope_theta"] = 5e5;
  ExpectRootInvalid(root, "rope_theta and rope_parameters.rope_theta differ");
  root.erase("rope_theta");
  root["layer_types"] = {"full_attention", "sliding_attention"};
  ExpectRootUnsupported(root, "\"sliding_attention\" differs from full_attention");
  root.erase("layer_types");
  root["rope_parameters"]["full_attention"]["rope_type"] = "longrope";
  ExpectRootUnsupported(root, "rope_parameters.full_attention: rope_type \"longrope\"");
  root["rope_parameters"].erase("full_attention");
  ExpectRootUnsupported(root, "rope_parameters: has objects, but none for full_attention");
}

TEST(DecoderConfig, DualChunkAttentionIsTheUsualOneUpToItsFirstChunk) {
  json root = ValidRoot();
  root["max_position_embeddings"] = 1010000;
  root["dual_chunk_attention_config"] = {
      {"chunk_size", 262144}, {"local_size", 8192}, {"original_max_position_embeddings", 262144}};
  auto config = ParseRoot(root);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_position_embeddings, 262144 - 8192);
  root["max_position_embeddings"] = 4096;
  EXPECT_EQ(ParseRoot(root)->max_position_embeddings, 4096);
  root["dual_chunk_attention_config"]["local_size"] = 262144;
  ExpectRootInvalid(root, "local_size");
  root["dual_chunk_attention_config"] = json::object();
  ExpectRootInvalid(root, "dual_chunk_attention_config: chunk_size");
}

TEST(DecoderConfig, ASlidingWindowCountsOnlyWhenItSlides) {
  json root = ValidRoot();
  root["sliding_window"] = 32;
  root["use_sliding_window"] = false;
  EXPECT_TRUE(ParseRoot(root).ok());
  root["use_sliding_window"] = true;
  root["max_window_layers"] = 2;
  ExpectRootUnsupported(root, "use_sliding_window");
  root["max_window_layers"] = 3;
  EXPECT_TRUE(ParseRoot(root).ok()) << "no layer beyond the third";
  root.erase("max_window_layers");
  ExpectRootUnsupported(root, "use_sliding_window");
  root["sliding_window"] = nullptr;
  EXPECT_TRUE(ParseRoot(root).ok());
  root["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  ExpectRootUnsupported(root, "\"sliding_attention\"");
  root["sliding_window"] = root["max_position_embeddings"].get<int>() - 1;
  ExpectRootUnsupported(root, "use_sliding_window");
  root["sliding_window"] = root["max_position_embeddings"];
  EXPECT_TRUE(ParseRoot(root).ok()) << "it holds the whole context";
}

}  // namespace
}  // namespace tutti::model
