#include "worker/shard_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

v1::AssignShard Whole() {
  v1::AssignShard shard;
  shard.set_num_stages(1);
  shard.set_num_ranks(1);
  shard.set_num_layers(4);
  shard.set_has_embedding(true);
  shard.set_has_head(true);
  shard.set_block_size(16);
  shard.set_num_blocks(8);
  shard.set_max_batch_tokens(32);
  shard.set_max_sequences(4);
  shard.set_max_model_len(64);
  return shard;
}

TEST(ValidateShard, NamesTheField) {
  EXPECT_TRUE(ValidateShard(Whole()).ok());
  const auto says = [](auto change) {
    v1::AssignShard shard = Whole();
    change(&shard);
    return std::string(ValidateShard(shard).message());
  };
  EXPECT_THAT(says([](auto* s) { s->set_num_stages(0); }), HasSubstr("num_stages is 0"));
  EXPECT_THAT(says([](auto* s) { s->set_stage(1); }), HasSubstr("stage is 1, not in [0, 0]"));
  EXPECT_THAT(says([](auto* s) { s->set_stage(-1); }), HasSubstr("stage is -1"));
  EXPECT_THAT(says([](auto* s) { s->set_num_ranks(0); }), HasSubstr("num_ranks is 0"));
  EXPECT_THAT(says([](auto* s) { s->set_num_ranks(3); }), HasSubstr("num_ranks is 3"));
  EXPECT_THAT(says([](auto* s) { s->set_num_ranks(2); }), HasSubstr("0 workers for 2 ranks"));
  EXPECT_THAT(says([](auto* s) { s->set_rank(1); }), HasSubstr("rank is 1"));
  EXPECT_THAT(says([](auto* s) { s->set_first_layer(-1); }), HasSubstr("first_layer is -1"));
  EXPECT_THAT(says([](auto* s) {
                s->set_first_layer(INT32_MAX);
                s->set_num_layers(1);
              }),
              HasSubstr("num_layers is 1"));
  EXPECT_THAT(says([](auto* s) { s->set_block_size(0); }), HasSubstr("block_size is 0"));
  EXPECT_THAT(says([](auto* s) { s->set_block_size(24); }), HasSubstr("multiple of 16"));
  EXPECT_THAT(says([](auto* s) { s->set_num_blocks(0); }), HasSubstr("num_blocks is 0"));
  EXPECT_THAT(says([](auto* s) { s->set_max_batch_tokens(1 << 20); }),
              HasSubstr("max_batch_tokens is 1048576"));
  EXPECT_THAT(says([](auto* s) { s->set_max_sequences(0); }), HasSubstr("max_sequences is 0"));
  EXPECT_THAT(says([](auto* s) { s->set_max_model_len(0); }), HasSubstr("max_model_len is 0"));
  EXPECT_THAT(says([](auto* s) { s->set_has_head(false); }), HasSubstr("no head"));
  EXPECT_THAT(says([](auto* s) {
                s->set_num_stages(2);
                s->set_has_head(false);
                s->set_draft(true);
              }),
              HasSubstr("draft is set for rank 0 of stage 0 of 2"));
  EXPECT_THAT(says([](auto* s) {
                s->set_num_ranks(2);
                s->set_rank(1);
                s->add_rank_worker_ids("a");
                s->add_rank_worker_ids("b");
                s->set_draft(true);
              }),
              HasSubstr("draft is set for rank 1 of stage 0 of 1"));
}

TEST(SameContents, LooksAtWhatIsLoadedAndNotAtNeighbours) {
  v1::AssignShard other = Whole();
  other.set_pipeline(3);
  other.set_previous_worker_id("a");
  other.add_next_worker_ids("b");
  EXPECT_TRUE(SameContents(Whole(), other));
  other.set_num_blocks(9);
  EXPECT_FALSE(SameContents(Whole(), other));
  other = Whole();
  other.set_first_layer(1);
  EXPECT_FALSE(SameContents(Whole(), other));
  other = Whole();
  other.set_numerics_class("another");
  EXPECT_FALSE(SameContents(Whole(), other)) << "its K/V would be of other bits";
  other = Whole();
  other.set_quantise("int8");
  EXPECT_FALSE(SameContents(Whole(), other));
  other = Whole();
  other.set_quantise_head(true);
  EXPECT_FALSE(SameContents(Whole(), other));
  other = Whole();
  other.set_draft(true);
  EXPECT_TRUE(ValidateShard(other).ok());
  EXPECT_FALSE(SameContents(Whole(), other));
}

}  // namespace
}  // namespace tutti::worker
