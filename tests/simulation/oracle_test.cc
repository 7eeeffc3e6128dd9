// The simulator's own parts: its answers must be right, and its faults must be faults.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/oracle_model.h"
#include "tests/support/oracle_stage.h"
#include "tests/support/sim_network.h"
#include "worker/sequence_table.h"

namespace tutti::tests {
namespace {

constexpr int32_t kVocab = 97;
constexpr int32_t kLayers = 5;

v1::AssignShard Shard(int32_t first_layer, int32_t num_layers) {
  v1::AssignShard shard;
  shard.set_first_layer(first_layer);
  shard.set_num_layers(num_layers);
  shard.set_has_embedding(first_layer == 0);
  shard.set_has_head(first_layer + num_layers == kLayers);
  shard.set_block_size(16);
  shard.set_num_blocks(8);
  return shard;
}

// Generates from `prompt` over stages of `split` layers, in chunks of `chunk`, with the blocks of
// `table`; `spoil` may touch the batch of each step.
std::vector<TokenId> Generate(const std::vector<TokenId>& prompt, int32_t count,
                              const std::vector<int32_t>& split, int32_t chunk,
                              const std::vector<int32_t>& table,
                              const std::function<void(worker::Batch*)>& spoil = nullptr) {
  std::vector<OracleStage> stages;
  int32_t first_layer = 0;
  for (const int32_t layers : split) {
    stages.emplace_back(Shard(first_layer, layers), kVocab, OracleBugs{});
    first_layer += layers;
  }
  worker::SequenceState sequence;
  sequence.tokens = prompt;
  std::vector<TokenId> output;
  int32_t computed = 0;
  while (static_cast<int32_t>(output.size()) < count) {
    const auto total = static_cast<int32_t>(sequence.tokens.size());
    worker::Batch batch;
    batch.rows = std::min(chunk, total - computed);
    for (int32_t row = 0; row < batch.rows; ++row) {
      batch.tokens.push_back(sequence.tokens[computed + row]);
      batch.positions.push_back(computed + row);
    }
    batch.row_begin = {0, batch.rows};
    batch.first_position = {computed};
    batch.block_begin = {0};
    batch.blocks = table;
    computed += batch.rows;
    if (computed == total) batch.sample_rows = {{batch.rows - 1, &sequence}};
    if (spoil) spoil(&batch);
    std::vector<std::byte> wire;
    std::vector<v1::SampledToken> sampled;
    for (size_t i = 0; i < stages.size(); ++i) {
      std::vector<std::byte> out(i + 1 == stages.size() ? 0 : batch.rows * sizeof(uint64_t));
      EXPECT_TRUE(stages[i].Run(batch, wire, out, &sampled, nullptr).ok());
      wire = std::move(out);
    }
    for (const v1::SampledToken& token : sampled) {
      output.push_back(token.token());
      sequence.tokens.push_back(token.token());
    }
  }
  return output;
}

std::vector<TokenId> Right(const std::vector<TokenId>& prompt, int32_t count) {
  std::vector<TokenId> tokens;
  for (const auto& token : OracleOutput(prompt, count, {}, {}, kLayers, kVocab)) {
    tokens.push_back(token.token());
  }
  return tokens;
}

const std::vector<TokenId> kPrompt = {5,  17, 96, 0, 3,  3,  8,  41, 12, 60,
                                      77, 2,  9,  9, 31, 50, 64, 7,  1,  88};

TEST(OracleTest, StagesAgreeWithTheLoop) {
  const std::vector<TokenId> right = Right(kPrompt, 30);
  EXPECT_EQ(Generate(kPrompt, 30, {5}, 20, {0, 1, 2, 3}), right);
  EXPECT_EQ(Generate(kPrompt, 30, {2, 1, 2}, 7, {6, 1, 7, 0}), right);
  EXPECT_EQ(Generate(kPrompt, 30, {1, 1, 1, 1, 1}, 1, {3, 2, 1, 0}), right);
}

TEST(OracleTest, EveryMistakeShows) {
  const std::vector<TokenId> right = Right(kPrompt, 30);
  const auto spoiled = [&](int at, const std::function<void(worker::Batch*)>& how) {
    int step = 0;
    return Generate(kPrompt, 30, {2, 3}, 8, {0, 1, 2, 3}, [&](worker::Batch* batch) {
      if (++step == at) how(batch);
    });
  };
  EXPECT_EQ(spoiled(99, nullptr), right);
  EXPECT_NE(spoiled(1, [](worker::Batch* b) { b->blocks[0] = 5; }), right)
      << "written to a wrong block";
  EXPECT_NE(spoiled(9, [](worker::Batch* b) { b->blocks[0] = 1; }), right)
      << "read from a wrong block";
  EXPECT_NE(spoiled(1, [](worker::Batch* b) { b->tokens[3] ^= 1; }), right) << "a wrong token";
  EXPECT_NE(spoiled(2, [](worker::Batch* b) { b->positions[0] += 1; }), right)
      << "a wrong position";
}

TEST(OracleTest, SamplingDependsOnItsParametersOnly) {
  v1::SequenceSampling greedy;
  v1::SequenceSampling random;
  random.set_temperature(1);
  random.set_seed(7);
  v1::SequenceSampling other = random;
  other.set_seed(8);
  const auto token = [](const v1::SequenceSampling& sampling, int32_t position, uint64_t counts) {
    return OracleSample(12345, position, counts, {}, sampling, 1 << 30).token();
  };
  EXPECT_EQ(token(greedy, 3, 1), token(greedy, 4, 2));
  EXPECT_EQ(token(random, 3, 1), token(random, 3, 2));
  EXPECT_NE(token(random, 3, 1), token(random, 4, 1));
  EXPECT_NE(token(random, 3, 1), token(other, 3, 1));
  random.set_presence_penalty(1);
  EXPECT_NE(token(random, 3, 1), token(random, 3, 2));
}

TEST(OracleTest, SamplingExcludesTokens) {
  v1::SequenceSampling sampling;
  EXPECT_FALSE(OracleDrawable({}, sampling, 6).has_value());
  sampling.set_min_tokens(2);
  sampling.add_end_ids(5);
  const std::vector<TokenId> output = {1, 2};
  EXPECT_EQ(OracleDrawable(std::span(output).first(1), sampling, 6),
            (std::vector<TokenId>{0, 1, 2, 3, 4}));
  EXPECT_FALSE(OracleDrawable(output, sampling, 6).has_value());
  for (const TokenId id : {1, 2, 4}) sampling.add_allowed_ids(id);
  EXPECT_EQ(OracleDrawable(output, sampling, 6), (std::vector<TokenId>{1, 2, 4}));
  for (const TokenId id : {2, 4}) sampling.add_banned()->add_ids(id);
  sampling.mutable_banned(0)->add_ids(1);
  EXPECT_EQ(OracleDrawable(output, sampling, 6), (std::vector<TokenId>{2}));
}

TEST(OracleTest, OutputEndsAtStopTokensAndLength) {
  const std::vector<TokenId> right = Right(kPrompt, 10);
  const auto stopped = OracleOutput(kPrompt, 10, {right[4]}, {}, kLayers, kVocab);
  EXPECT_LE(stopped.size(), 5u);
  EXPECT_EQ(stopped.back().token(), right[4]);
  EXPECT_EQ(right.size(), 10u);
}

class PipeTest : public testing::Test {
 protected:
  void RunAll() {
    while (queue_.RunNext(queue_.now() + std::chrono::seconds(1))) {
    }
  }
  SimQueue queue_;
  Random random_{1};
  SimPipe pipe_{
      &queue_, &random_, {.least = Duration(1), .most = Duration(1000), .slow_chance = 0.5}};
  std::string arrived_;
};

TEST_F(PipeTest, KeepsTheOrder) {
  for (char c = 'a'; c <= 'z'; ++c) pipe_.Send([this, c] { arrived_ += c; });
  pipe_.Close(false, [this] { arrived_ += '.'; });
  pipe_.Send([this] { arrived_ += "late"; });
  RunAll();
  EXPECT_EQ(arrived_, "abcdefghijklmnopqrstuvwxyz.");
}

TEST_F(PipeTest, LosesMessagesUnderWay) {
  pipe_.Send([this] { arrived_ += 'a'; });
  RunAll();
  pipe_.Send([this] { arrived_ += 'b'; });
  pipe_.Close(true, [this] { arrived_ += '.'; });
  RunAll();
  EXPECT_EQ(arrived_, "a.");
}

TEST_F(PipeTest, HalfOpenTellsNeitherEnd) {
  pipe_.Send([this] { arrived_ += 'a'; });
  pipe_.Swallow();
  pipe_.Close(false, [this] { arrived_ += '.'; });
  RunAll();
  EXPECT_EQ(arrived_, "");
}

}  // namespace
}  // namespace tutti::tests
