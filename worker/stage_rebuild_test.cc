// A stage in the place of one that was lost computes its K/V from rows that the stage before has
// kept, while the others compute nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "worker/runner_testing.h"
#include "worker/stage_worker.h"

namespace tutti::worker {
namespace {

// Counts the steps that it runs.
class WatchedRunner : public CountingRunner {
 public:
  WatchedRunner(const v1::AssignShard& shard, std::atomic<int>* alive, int* runs)
      : CountingRunner(shard, alive), runs_(runs) {}
  absl::Status Run(const Batch& batch, std::span<const std::byte> input,
                   std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                   const ProgressCallback& progress) override {
    ++*runs_;
    return CountingRunner::Run(batch, input, output, sampled, progress);
  }

 private:
  int* const runs_;
};

class Stage : public StageOutbox {
 public:
  explicit Stage(const Clock* clock)
      : worker(
            [this](const v1::AssignShard& shard,
                   const ShardProgressCallback&) -> absl::StatusOr<std::unique_ptr<StageRunner>> {
              return std::make_unique<WatchedRunner>(shard, &alive, &runs);
            },
            this, clock) {}
  void ToCoordinator(v1::Frame frame) override { told.push_back(std::move(frame)); }
  void ToNextStage(v1::Frame frame, transport::Payload payload) override {
    sent.emplace_back(std::move(frame), std::move(payload));
  }

  std::atomic<int> alive = 0;
  int runs = 0;
  std::deque<v1::Frame> told;
  std::deque<std::pair<v1::Frame, transport::Payload>> sent;
  StageWorker worker;
};

class StageRebuildTest : public testing::Test {
 protected:
  static constexpr int32_t kStages = 3;

  StageRebuildTest() {
    for (int32_t i = 0; i < kStages; ++i) stages_.push_back(std::make_unique<Stage>(&clock_));
  }

  // The last thing that it told: shard_ready.
  v1::ShardReady Assign(int32_t stage, uint64_t epoch, uint64_t kv_epoch) {
    v1::Frame frame = AssignFrame(epoch, stage, kStages);
    frame.mutable_assign_shard()->set_kv_epoch(kv_epoch);
    frame.mutable_assign_shard()->set_max_batch_tokens(16);
    if (stage + 1 < kStages) {
      frame.mutable_assign_shard()->add_next_worker_ids("next");
      frame.mutable_assign_shard()->set_kept_blocks(4);
    }
    stages_[stage]->worker.OnCoordinatorFrame(std::move(frame));
    const v1::Frame told = stages_[stage]->told.back();
    stages_[stage]->told.clear();
    return told.shard_ready();
  }

  // Every stage gets the plan and does what it can; rows go on between them.
  void Run(const v1::Frame& plan) {
    for (const auto& stage : stages_) stage->worker.OnCoordinatorFrame(plan);
    for (size_t i = 0; i < stages_.size(); ++i) {
      EXPECT_TRUE(stages_[i]->worker.RunOneStep({})) << i;
      EXPECT_EQ(stages_[i]->worker.status(), absl::OkStatus()) << i;
      for (auto& [frame, payload] : stages_[i]->sent) {
        ++frames_;
        stages_[i + 1]->worker.OnActivationFrame(std::move(frame), std::move(payload));
      }
      stages_[i]->sent.clear();
    }
  }

  // Sixteen tokens, a whole block.
  static v1::Frame Prompt(uint64_t epoch, uint64_t step) {
    std::vector<int32_t> tokens(16);
    std::iota(tokens.begin(), tokens.end(), 40);
    return PlanFrame(epoch, step, tokens);
  }
  static v1::Frame Rebuild(uint64_t epoch, uint64_t step, int32_t first, int32_t last) {
    v1::Frame frame = Prompt(epoch, step);
    frame.mutable_step_plan()->mutable_scheduled(0)->set_sample(false);
    frame.mutable_step_plan()->mutable_rebuild()->set_first_stage(first);
    frame.mutable_step_plan()->mutable_rebuild()->set_last_stage(last);
    return frame;
  }
  std::vector<int> TakeRuns() {
    std::vector<int> runs;
    for (const auto& stage : stages_) runs.push_back(std::exchange(stage->runs, 0));
    return runs;
  }

  ManualClock clock_;
  std::vector<std::unique_ptr<Stage>> stages_;
  int frames_ = 0;
};

TEST_F(StageRebuildTest, OnlyTheStageThatWasLostComputes) {
  for (int32_t i = 0; i < kStages; ++i) EXPECT_EQ(Assign(i, 3, 0).kv_epoch(), 0u);
  Run(Prompt(3, 1));
  EXPECT_EQ(TakeRuns(), (std::vector<int>{1, 1, 1}));

  stages_[1] = std::make_unique<Stage>(&clock_);
  const v1::ShardReady first = Assign(0, 5, 3);
  EXPECT_EQ(first.kv_epoch(), 3u);
  EXPECT_EQ(first.kept_rows(), std::string("\1"));
  EXPECT_EQ(Assign(1, 5, 0).kv_epoch(), 0u);
  EXPECT_EQ(Assign(2, 5, 3).kv_epoch(), 3u);
  frames_ = 0;
  Run(Rebuild(5, 1, 1, 1));
  EXPECT_EQ(TakeRuns(), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(frames_, 8);  // of two rows each, from stage 0
  EXPECT_TRUE(stages_[2]->told.back().has_step_result());
  EXPECT_EQ(stages_[2]->told.back().step_result().sampled_size(), 0);

  // Steps of all stages go on behind it.
  Run(Prompt(5, 2));
  EXPECT_EQ(TakeRuns(), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(stages_[2]->told.back().step_result().sampled(0).token(), 58);

  // The rows that the stage in its place has kept serve the one after it.
  stages_[2] = std::make_unique<Stage>(&clock_);
  Assign(0, 7, 3);
  EXPECT_EQ(Assign(1, 7, 5).kept_rows(), std::string("\1"));
  Assign(2, 7, 0);
  Run(Rebuild(7, 1, 2, 2));
  EXPECT_EQ(TakeRuns(), (std::vector<int>{0, 0, 1}));
}

TEST_F(StageRebuildTest, WithoutKeptRowsTheStagesBeforeComputeToo) {
  for (int32_t i = 0; i < kStages; ++i) Assign(i, 3, 0);
  Run(Rebuild(3, 1, 0, 1));
  EXPECT_EQ(TakeRuns(), (std::vector<int>{1, 1, 0}));
  Run(Rebuild(3, 2, 0, 0));
  EXPECT_EQ(TakeRuns(), (std::vector<int>{1, 0, 0}));
}

TEST_F(StageRebuildTest, RowsThatAreNotKeptAreAContradiction) {
  for (int32_t i = 0; i < kStages; ++i) Assign(i, 3, 0);
  stages_[0]->worker.OnCoordinatorFrame(Rebuild(3, 1, 1, 1));
  stages_[0]->worker.RunOneStep({});
  EXPECT_EQ(stages_[0]->worker.status().code(), absl::StatusCode::kFailedPrecondition);
  stages_[1]->worker.OnCoordinatorFrame(Rebuild(3, 1, 1, 3));
  EXPECT_EQ(stages_[1]->worker.status().code(), absl::StatusCode::kInvalidArgument);
  v1::Frame samples = Rebuild(3, 1, 1, 2);
  samples.mutable_step_plan()->mutable_scheduled(0)->set_sample(true);
  stages_[2]->worker.OnCoordinatorFrame(samples);
  EXPECT_EQ(stages_[2]->worker.status().code(), absl::StatusCode::kInvalidArgument);
  Assign(0, 4, 0);
  v1::Frame drafts = Rebuild(4, 1, 0, 1);
  drafts.mutable_step_plan()->mutable_scheduled(0)->set_drafts(0);
  stages_[0]->worker.OnCoordinatorFrame(drafts);
  EXPECT_THAT(stages_[0]->worker.status().message(), testing::HasSubstr("rebuilds and drafts"));
}

TEST_F(StageRebuildTest, KvIsConfirmedOnlyWhereItIsStillThere) {
  Assign(0, 3, 0);
  EXPECT_EQ(Assign(0, 4, 2).kv_epoch(), 0u) << "of another epoch";
  EXPECT_EQ(Assign(0, 5, 3).kv_epoch(), 0u) << "epoch 4 has begun anew";
  EXPECT_EQ(Assign(0, 6, 5).kv_epoch(), 5u);
  EXPECT_EQ(Assign(0, 7, 5).kv_epoch(), 5u) << "epoch 6 went on with it";
  stages_[0]->worker.OnCoordinatorLost();
  EXPECT_EQ(Assign(0, 8, 5).kv_epoch(), 0u) << "of another coordinator";
  v1::Frame release;
  release.set_epoch(8);
  release.mutable_release();
  stages_[0]->worker.OnCoordinatorFrame(release);
  EXPECT_EQ(Assign(0, 9, 8).kv_epoch(), 0u) << "released";
  stages_[1]->told.clear();
  Assign(1, 9, 0);
  v1::Frame other = AssignFrame(10, 1, kStages);  // of smaller steps
  other.mutable_assign_shard()->set_kv_epoch(9);
  stages_[1]->worker.OnCoordinatorFrame(other);
  EXPECT_EQ(stages_[1]->told.back().shard_ready().kv_epoch(), 0u) << "loaded anew";
}

}  // namespace
}  // namespace tutti::worker
