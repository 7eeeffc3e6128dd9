// Support for tests: a worker whose target and draft model count, each in its own way, and a small
// coordinator that plans for it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "worker/runner_testing.h"
#include "worker/stage_worker.h"

namespace tutti::worker {

inline constexpr int32_t kDraftBlockSize = 16;
inline constexpr int32_t kDraftBlocks = 80;
inline constexpr int32_t kDraftBatchTokens = 24;
inline constexpr int32_t kDraftModelLen = 640;

// What a model goes on with behind a token.
using NextToken = std::function<TokenId(TokenId)>;

// A model that draws a function of the last token. It believes nothing but the batch: it keeps each
// row's token in the block that the batch names, and wants to find there, behind a row that is
// sampled, all tokens of the sequence.
class PagedCountingRunner : public StageRunner {
 public:
  // A device that is through with what is begun when somebody waits for it, 3 ms for each Run.
  struct Device {
    ManualClock clock;
    Duration begun{};
    void Await() { clock.Advance(std::exchange(begun, {})); }
  };

  PagedCountingRunner(int32_t vocab_size, NextToken next, Device* device)
      : next_(std::move(next)),
        vocab_size_(vocab_size),
        device_(device),
        slots_(kDraftBlocks * kDraftBlockSize, -1) {}

  ShardMemory memory() const override { return {10, 20, 30}; }
  int64_t activation_row_bytes() const override { return 4; }
  int32_t vocab_size() const override { return vocab_size_; }
  StepWork WorkOf(const Batch& batch) const override {
    return {.all = {.flops = static_cast<double>(batch.rows)}, .largest_slice = {}};
  }
  DraftModel draft() override { return draft_model; }
  std::vector<v1::NumericFault> PopFaults() override { return std::exchange(faults, {}); }

  absl::Status Run(const Batch& batch, std::span<const std::byte>, std::span<std::byte>,
                   std::vector<v1::SampledToken>* sampled,
                   const ProgressCallback& progress) override {
    device_->begun += std::chrono::milliseconds(3);
    rows_of_passes.push_back(batch.rows);
    if (fails) return absl::InternalError("the device is gone");
    EXPECT_LE(batch.rows, max_rows);
    for (size_t s = 0; s < batch.sequences.size(); ++s) {
      for (int32_t row = batch.row_begin[s]; row < batch.row_begin[s + 1]; ++row) {
        EXPECT_LT(batch.tokens[row], vocab_size_);
        EXPECT_EQ(batch.positions[row], batch.first_position[s] + row - batch.row_begin[s]);
        SlotOf(batch, s, batch.positions[row]) = batch.tokens[row];
      }
    }
    progress();
    for (const SampleRow& row : batch.sample_rows) Sample(batch, row, sampled);
    if (!batch.sample_rows.empty()) Await();
    return absl::OkStatus();
  }
  void Await() override { device_->Await(); }

  // Of each Run since the last look.
  std::vector<int32_t> PopRows() { return std::exchange(rows_of_passes, {}); }

  DraftModel draft_model;
  std::vector<v1::NumericFault> faults;
  std::vector<int32_t> rows_of_passes;
  int32_t max_rows = kDraftBatchTokens;  // of a Run
  bool fails = false;
  // Drawn by the next row that is sampled, in place of its token.
  std::optional<TokenId> next_draw;

 private:
  TokenId& SlotOf(const Batch& batch, size_t s, int32_t position) {
    const size_t block = batch.block_begin[s] + position / kDraftBlockSize;
    const size_t end =
        s + 1 < batch.block_begin.size() ? batch.block_begin[s + 1] : batch.blocks.size();
    EXPECT_LT(block, end) << "position " << position << " has no slot";
    return slots_[batch.blocks[block] * kDraftBlockSize + position % kDraftBlockSize];
  }

  void Sample(const Batch& batch, const SampleRow& row, std::vector<v1::SampledToken>* sampled) {
    const bool wrong = row.goes_on != nullptr && sampled->back().token() != row.guess;
    v1::SampledToken& token = sampled->emplace_back();
    token.set_sequence(row.sequence->id.value());
    if (wrong) return token.set_token(kTokenNotDrawn);
    const size_t s = std::upper_bound(batch.row_begin.begin(), batch.row_begin.end(), row.row) -
                     batch.row_begin.begin() - 1;
    const auto known = static_cast<int32_t>(row.sequence->tokens.size());
    for (int32_t position = 0; position < known; ++position) {
      EXPECT_EQ(SlotOf(batch, s, position), row.sequence->tokens[position])
          << "sequence " << token.sequence() << ", position " << position;
    }
    token.set_position(batch.positions[row.row] + 1);
    token.set_token(next_draw.value_or(next_(batch.tokens[row.row])));
    next_draw.reset();
  }

  const NextToken next_;
  const int32_t vocab_size_;
  Device* const device_;
  std::vector<TokenId> slots_;
};

inline TokenId OneMore(TokenId token) { return (token + 1) % kVocab; }

struct TestedDraft {
  int32_t vocab_size = kVocab;
  NextToken next = OneMore;
  int32_t max_model_len = kDraftModelLen;
  int32_t max_batch_tokens = kDraftBatchTokens;
  bool is_there = true;
};

// A last stage of one, with a draft model beside it.
class DraftingWorker : private StageOutbox {
 public:
  explicit DraftingWorker(const TestedDraft& draft = {})
      : draft(draft.vocab_size, draft.next, &device_),
        worker_(
            [this](const v1::AssignShard& shard,
                   const ShardProgressCallback&) -> absl::StatusOr<std::unique_ptr<StageRunner>> {
              auto runner = std::make_unique<PagedCountingRunner>(kVocab, OneMore, &device_);
              target = runner.get();
              target->max_rows = max_batch_tokens_;
              if (shard.draft()) runner->draft_model = draft_model_;
              return runner;
            },
            this, &device_.clock),
        draft_model_{.runner = &this->draft, .max_model_len = draft.max_model_len},
        is_there_(draft.is_there),
        max_batch_tokens_(draft.max_batch_tokens) {
    this->draft.max_rows = max_batch_tokens_;
    BeginEpoch();
  }

  // With the same shard, and no sequences.
  void BeginEpoch() {
    v1::Frame frame = AssignFrame(++epoch_, 0, 1);
    v1::AssignShard* const shard = frame.mutable_assign_shard();
    shard->set_num_blocks(kDraftBlocks);
    shard->set_max_batch_tokens(max_batch_tokens_);
    shard->set_max_model_len(kDraftModelLen);
    shard->set_draft(is_there_);
    shard->set_kv_epoch(epoch_ - 1);
    worker_.OnCoordinatorFrame(std::move(frame));
    EXPECT_EQ(worker_.status(), absl::OkStatus());
    ready = told_.back().shard_ready();
    sequences_.clear();
    finished_.clear();
    step_ = 0;
  }

  // A sequence's part of the next step.
  struct Part {
    uint64_t sequence = 1;
    std::optional<int32_t> drafts;
    std::vector<TokenId> guesses;
    int32_t chunk = 0;        // tokens at most; 0: all that are not computed
    int32_t more_blocks = 0;  // than it needs
  };

  // A sequence begins, or again, in these blocks if they are given.
  void Begin(uint64_t id, std::vector<TokenId> tokens, std::vector<int32_t> blocks = {},
             int32_t cached = 0) {
    End(id);
    Sequence& sequence = sequences_[id];
    sequence.tokens = std::move(tokens);
    sequence.blocks = std::move(blocks);
    sequence.cached = sequence.computed = cached;
  }
  void End(uint64_t id) {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return;
    if (found->second.told > 0) finished_.push_back(id);
    sequences_.erase(found);
  }

  v1::StepResult Step(const std::vector<Part>& parts) {
    v1::Frame frame;
    frame.set_epoch(epoch_);
    v1::StepPlan* const plan = frame.mutable_step_plan();
    plan->set_step(++step_);
    for (const uint64_t id : std::exchange(finished_, {})) plan->add_finished(id);
    for (const Part& part : parts) Plan(part, plan);
    worker_.OnCoordinatorFrame(std::move(frame));
    told_.clear();
    passes_begun = 0;
    EXPECT_TRUE(worker_.RunOneStep([] {},
                                   [this](StageWorker::Works who, const StageRunner::StepWork&) {
                                     passes_begun += who == StageWorker::Works::kDraftModel;
                                   }));
    if (!told_.back().has_step_result()) return {};
    const v1::StepResult result = told_.back().step_result();
    for (const v1::SampledToken& token : result.sampled()) Take(token);
    return result;
  }

  // What the only draft of a step says.
  std::vector<TokenId> DraftsOf(const std::vector<Part>& parts) {
    const v1::StepResult result = Step(parts);
    if (result.drafted().empty()) return {};
    EXPECT_EQ(result.drafted_size(), 1);
    EXPECT_EQ(result.drafted(0).position(),
              static_cast<int32_t>(tokens(result.drafted(0).sequence()).size()));
    return {result.drafted(0).tokens().begin(), result.drafted(0).tokens().end()};
  }

  const std::vector<TokenId>& tokens(uint64_t id) const { return sequences_.at(id).tokens; }
  const std::vector<int32_t>& blocks(uint64_t id) const { return sequences_.at(id).blocks; }
  std::string failure() const { return told_.back().failure().message(); }

 private:
  struct Sequence {
    std::vector<TokenId> tokens, guesses;
    std::vector<int32_t> blocks;
    size_t told = 0;  // tokens
    size_t told_blocks = 0;
    int32_t cached = 0, computed = 0;
  };

  void ToCoordinator(v1::Frame frame) override { told_.push_back(std::move(frame)); }
  void ToNextStage(v1::Frame, transport::Payload) override {}

  void Plan(const Part& part, v1::StepPlan* plan) {
    Sequence& sequence = sequences_.at(part.sequence);
    v1::ScheduledSequence* const scheduled = plan->add_scheduled();
    scheduled->set_sequence(part.sequence);
    const auto total = static_cast<int32_t>(sequence.tokens.size());
    if (sequence.told == 0) {
      v1::NewSequence* const added = plan->add_new_sequences();
      added->set_sequence(part.sequence);
      added->mutable_tokens()->Add(sequence.tokens.begin(), sequence.tokens.end());
      added->set_prompt_tokens(total);
      added->set_cached_tokens(sequence.cached);
    } else {
      scheduled->mutable_new_tokens()->Add(sequence.tokens.begin() + sequence.told,
                                           sequence.tokens.end());
    }
    sequence.told = sequence.tokens.size();
    sequence.guesses = part.guesses;
    const auto guesses = static_cast<int32_t>(part.guesses.size());
    int32_t count = total - sequence.computed;
    if (part.chunk > 0) count = std::min(count, part.chunk);
    scheduled->set_first(sequence.computed);
    scheduled->set_count(count + guesses);
    scheduled->mutable_guesses()->Add(part.guesses.begin(), part.guesses.end());
    sequence.computed += count;
    scheduled->set_sample(sequence.computed == total);
    const int32_t slots = sequence.computed + guesses;
    const size_t blocks = (slots + kDraftBlockSize - 1) / kDraftBlockSize + part.more_blocks;
    while (sequence.blocks.size() < blocks) sequence.blocks.push_back(next_block_++);
    scheduled->mutable_new_blocks()->Add(sequence.blocks.begin() + sequence.told_blocks,
                                         sequence.blocks.end());
    sequence.told_blocks = sequence.blocks.size();
    scheduled->set_expected_tokens(total);
    scheduled->set_expected_blocks(static_cast<int32_t>(sequence.blocks.size()));
    if (part.drafts.has_value()) scheduled->set_drafts(*part.drafts);
    plan->set_total_rows(plan->total_rows() + count + guesses);
  }

  void Take(const v1::SampledToken& token) {
    Sequence& sequence = sequences_.at(token.sequence());
    const size_t right = sequence.tokens.size() - sequence.told;
    if (right < sequence.guesses.size() && sequence.guesses[right] == token.token()) {
      ++sequence.computed;
    }
    sequence.tokens.push_back(token.token());
  }

  PagedCountingRunner::Device device_;

 public:
  PagedCountingRunner draft;
  PagedCountingRunner* target = nullptr;  // owned by the worker
  v1::ShardReady ready;
  int passes_begun = 0;

 private:
  std::deque<v1::Frame> told_;
  StageWorker worker_;
  StageRunner::DraftModel draft_model_;
  const bool is_there_;
  const int32_t max_batch_tokens_;
  std::map<uint64_t, Sequence> sequences_;
  std::vector<uint64_t> finished_;
  uint64_t epoch_ = 0, step_ = 0;
  int32_t next_block_ = 0;
};

}  // namespace tutti::worker
