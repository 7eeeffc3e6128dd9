// Support for tests: a model that counts, and the frames that make a stage worker run it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "proto/peer_messages.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

// Rows wide enough that a step of four does not fit one chunk.
inline constexpr int64_t kRowBytes = 400'000;
inline constexpr int32_t kVocab = 1000;

// A "model" whose activation is the token plus one for each stage, and which samples that sum.
class CountingRunner : public StageRunner {
 public:
  CountingRunner(const v1::AssignShard& shard, std::atomic<int>* alive)
      : shard_(shard), alive_(alive) {
    ++*alive_;
  }
  ~CountingRunner() override { --*alive_; }

  ShardMemory memory() const override { return {1, 2, 3}; }
  int64_t activation_row_bytes() const override { return kRowBytes; }
  int32_t vocab_size() const override { return kVocab; }
  absl::Status Run(const Batch& batch, std::span<const std::byte> input,
                   std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                   const ProgressCallback& progress) override {
    EXPECT_EQ(input.size(), shard_.has_embedding() ? 0u : batch.rows * kRowBytes);
    EXPECT_EQ(output.size(), shard_.has_head() ? 0u : batch.rows * kRowBytes);
    std::vector<int32_t> values(batch.rows);
    for (int32_t row = 0; row < batch.rows; ++row) {
      values[row] = batch.tokens[row];
      if (!input.empty()) std::memcpy(&values[row], &input[row * kRowBytes], 4);
      if (values[row] == 666) return absl::InternalError("the device is gone");
      if (values[row] == 600) {
        faults_.emplace_back().set_sequence(7);
        faults_.back().set_layer(shard_.first_layer());
      }
      ++values[row];
      if (output.empty()) continue;
      std::memset(&output[row * kRowBytes], values[row], kRowBytes);
      std::memcpy(&output[row * kRowBytes], &values[row], 4);
    }
    for (int32_t layer = 0; layer < shard_.num_layers(); ++layer) progress();
    if (!shard_.has_head()) return absl::OkStatus();
    for (const SampleRow& row : batch.sample_rows) {
      v1::SampledToken& token = sampled->emplace_back();
      token.set_sequence(batch.tokens[row.row] == 13 ? 13 : 1);
      token.set_token(batch.tokens[row.row] == 13 ? -1 : values[row.row]);
    }
    return absl::OkStatus();
  }

  std::vector<v1::NumericFault> PopFaults() override { return std::exchange(faults_, {}); }

 private:
  const v1::AssignShard shard_;
  std::atomic<int>* const alive_;
  std::vector<v1::NumericFault> faults_;
};

inline v1::Frame AssignFrame(uint64_t epoch, int32_t stage, int32_t stages) {
  v1::Frame frame;
  frame.set_epoch(epoch);
  v1::AssignShard* shard = frame.mutable_assign_shard();
  shard->set_stage(stage);
  shard->set_num_stages(stages);
  shard->set_num_ranks(1);
  shard->set_first_layer(stage * 2);
  shard->set_num_layers(2);
  shard->set_has_embedding(stage == 0);
  shard->set_has_head(stage == stages - 1);
  shard->set_block_size(16);
  shard->set_num_blocks(4);
  shard->set_max_batch_tokens(8);
  shard->set_max_sequences(4);
  shard->set_max_model_len(64);
  if (stage > 0) shard->set_previous_worker_id("before");
  return frame;
}

// Step `step` computes one new sequence, numbered like the step, as a whole, and finishes that of
// the step before.
inline v1::Frame PlanFrame(uint64_t epoch, uint64_t step, const std::vector<int32_t>& tokens) {
  v1::Frame frame;
  frame.set_epoch(epoch);
  v1::StepPlan* plan = frame.mutable_step_plan();
  plan->set_step(step);
  if (step > 1) plan->add_finished(step - 1);
  v1::NewSequence* added = plan->add_new_sequences();
  added->set_sequence(step);
  for (int32_t token : tokens) added->add_tokens(token);
  added->set_prompt_tokens(tokens.size());
  v1::ScheduledSequence* scheduled = plan->add_scheduled();
  scheduled->set_sequence(step);
  scheduled->set_count(tokens.size());
  scheduled->add_new_blocks(0);
  scheduled->set_sample(true);
  scheduled->set_expected_tokens(tokens.size());
  scheduled->set_expected_blocks(1);
  plan->set_total_rows(tokens.size());
  return frame;
}

}  // namespace tutti::worker
