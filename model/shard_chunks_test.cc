#include "model/shard_chunks.h"

#include <gtest/gtest.h>

#include "model/checkpoint_testing.h"

namespace tutti::model {
namespace {

// Its matrices are a few chunks long each.
ModelConfig LargeTinyConfig() {
  ModelConfig config = TinyConfig();
  config.hidden_size = 512;
  config.intermediate_size = 2048;
  config.vocab_size = 4096;
  return config;
}

struct ShardChunksTest : testing::Test {
  ShardChunksTest() {
    dir.Write("model.safetensors", FileOf(TensorsOf(config)));
    checkpoint = *Checkpoint::Open(dir.path());
  }
  std::vector<ChunkRange> Of(const StageShare& share, int ranks = 1, int rank = 0) const {
    return ShardChunks(*checkpoint, config, share, ranks, rank);
  }
  static int64_t Count(const std::vector<ChunkRange>& chunks) {
    int64_t count = 0;
    for (const ChunkRange& range : chunks) count += range.count;
    return count;
  }
  bool Covers(const std::vector<ChunkRange>& chunks, int64_t begin, int64_t end) const {
    for (const ChunkRange& range : chunks) {
      if (range.first * kDigestChunkBytes <= begin &&
          end <= (range.first + range.count) * kDigestChunkBytes) {
        return true;
      }
    }
    return false;
  }

  const ModelConfig config = LargeTinyConfig();
  TempDir dir;
  std::unique_ptr<Checkpoint> checkpoint;
};

TEST_F(ShardChunksTest, TheWholeModelIsAllChunks) {
  const std::vector<ChunkRange> all =
      Of({.first_layer = 0, .num_layers = 3, .has_embedding = true, .has_head = true});
  EXPECT_EQ(Count(all), ChunkCount(checkpoint->files()[0].bytes()));
}

TEST_F(ShardChunksTest, AStageHasTheChunksOfItsTensorsAndNoOthers) {
  const StageShare middle = {.first_layer = 1, .num_layers = 1};
  const std::vector<ChunkRange> chunks = Of(middle);
  std::vector<bool> needed(static_cast<size_t>(ChunkCount(checkpoint->files()[0].bytes())));
  for (const WeightSpec& spec : ListWeights(config, middle)) {
    const TensorInfo* const tensor = checkpoint->Find(spec.name);
    ASSERT_NE(tensor, nullptr) << spec.name;
    EXPECT_TRUE(Covers(chunks, tensor->offset, tensor->offset + tensor->bytes)) << spec.name;
    for (int64_t at = tensor->offset / kDigestChunkBytes;
         at <= (tensor->offset + tensor->bytes - 1) / kDigestChunkBytes; ++at) {
      needed[static_cast<size_t>(at)] = true;
    }
  }
  EXPECT_EQ(Count(chunks), std::count(needed.begin(), needed.end(), true));
  EXPECT_LT(Count(chunks), ChunkCount(checkpoint->files()[0].bytes()) / 2);
}

TEST_F(ShardChunksTest, ARankHasFewerThanItsStage) {
  const StageShare share = {.first_layer = 0, .num_layers = 1, .has_embedding = true};
  EXPECT_LT(Count(Of(share, 4, 1)), Count(Of(share)));
}

}  // namespace
}  // namespace tutti::model
