// Shared by the tests of the sequence table: a small one, and plans from proto text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "google/protobuf/text_format.h"
#include "worker/sequence_table.h"

namespace tutti::worker {

inline constexpr SequenceLimits kSmallTable = {.vocab_size = 100,
                                               .block_size = 16,
                                               .num_blocks = 8,
                                               .max_batch_tokens = 32,
                                               .max_step_sequences = 2,
                                               .max_known_sequences = 3,
                                               .max_model_len = 40};

inline v1::StepPlan PlanOf(const std::string& text) {
  v1::StepPlan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &plan)) << text;
  return plan;
}

// Sequence 7 with prompt 1 2 3, computed as a whole.
inline v1::StepPlan FirstPlan() {
  return PlanOf(R"(
    step: 1 total_rows: 3
    new_sequences { sequence: 7 tokens: [1, 2, 3] prompt_tokens: 3 }
    scheduled { sequence: 7 first: 0 count: 3 new_blocks: 5 sample: true
                expected_tokens: 3 expected_blocks: 1 })");
}

}  // namespace tutti::worker
