// The contents that workers of a pipeline keep when one of them is lost, and who is believed to
// have kept it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

class EngineRebuildTest : public EngineTest {
 protected:
  // Two stages have computed a prompt of 40 tokens and its first token.
  void ServeOne(EngineOptions options = TinyEngineOptions(2)) {
    Serve(options, 2);
    Arrive(1, 40, 20);
    Turn();
    const std::vector<v1::StepPlan> plans = PlansTo(1);
    ASSERT_EQ(plans.size(), 1u);
    Send(1, DoneFrame(1));
    v1::Frame result = ResultFrame(epoch(), 1);
    v1::SampledToken* const token = result.mutable_step_result()->add_sampled();
    token->set_sequence(plans[0].scheduled(0).sequence());
    token->set_position(40);
    token->set_token(3);
    Send(2, result);
    ASSERT_EQ(ActionsOf<CloseWorker>().size(), 0u);
  }
  // Worker w2 is lost, and w3 takes its place.
  void Replace() {
    actions_.clear();
    Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
    Join(3, "w3");
    Turn();
  }
  v1::Frame DoneFrame(uint64_t step) {
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_step_done()->set_step(step);
    return frame;
  }
  void ReadyWithKv(uint64_t link, uint64_t kv_epoch, const std::string& kept = "\xff\xff") {
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_shard_ready()->set_kv_epoch(kv_epoch);
    frame.mutable_shard_ready()->set_kept_rows(kept);
    Send(link, frame);
  }
  std::vector<v1::StepPlan> PlansTo(uint64_t link) {
    std::vector<v1::StepPlan> plans;
    for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
      if (send.link == LinkKey(link) && send.frame.has_step_plan()) {
        plans.push_back(send.frame.step_plan());
      }
    }
    return plans;
  }
  v1::AssignShard AssignedTo(uint64_t link) {
    v1::AssignShard shard;
    for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
      if (send.link == LinkKey(link) && send.frame.has_assign_shard()) {
        shard = send.frame.assign_shard();
      }
    }
    return shard;
  }
};

TEST_F(EngineRebuildTest, AStageThatHasKeptItsKvIsNotComputedAgain) {
  ServeOne();
  EXPECT_EQ(AssignedTo(1).kept_blocks(), 64);  // all there are
  EXPECT_EQ(AssignedTo(2).kept_blocks(), 0);   // no stage after it
  EXPECT_EQ(Status().pipelines(0).stages(0).predicted().kept_rows(), 1024 * 64 * 2);
  Replace();
  EXPECT_EQ(AssignedTo(1).kv_epoch(), 1u);
  EXPECT_EQ(AssignedTo(3).kv_epoch(), 0u);
  ReadyWithKv(1, 1);
  ReadyWithKv(3, 0, "");
  Turn();
  const std::vector<v1::StepPlan> plans = PlansTo(1);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].rebuild().first_stage(), 1);
  EXPECT_EQ(plans[0].total_rows(), 32);
  EXPECT_EQ(plans[1].new_sequences(0).cached_tokens(), 32);
}

TEST_F(EngineRebuildTest, AWorkerThatDoesNotConfirmIsNotBelieved) {
  ServeOne();
  Replace();
  ReadyWithKv(1, 0, "");
  ReadyWithKv(3, 0, "");
  Turn();
  const std::vector<v1::StepPlan> plans = PlansTo(1);
  ASSERT_GE(plans.size(), 1u);
  EXPECT_FALSE(plans[0].has_rebuild());
  EXPECT_EQ(plans[0].new_sequences(0).cached_tokens(), 0);
}

TEST_F(EngineRebuildTest, AWorkerThatCameBackHasNothing) {
  ServeOne();
  actions_.clear();
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Join(3, "w1");
  Join(4, "w2");
  Turn();
  EXPECT_EQ(AssignedTo(3).kv_epoch(), 0u);
  EXPECT_EQ(AssignedTo(4).kv_epoch(), 0u);
  // One that says so all the same is not believed.
  ReadyWithKv(3, 1);
  ReadyWithKv(4, 1);
  Turn();
  EXPECT_FALSE(PlansTo(3)[0].has_rebuild());
}

TEST_F(EngineRebuildTest, ItCanBeSwitchedOff) {
  EngineOptions options = TinyEngineOptions(2);
  options.partial_recompute = false;
  ServeOne(options);
  EXPECT_EQ(AssignedTo(1).kept_blocks(), 0);
  Replace();
  EXPECT_EQ(AssignedTo(1).kv_epoch(), 0u);
}

TEST_F(EngineRebuildTest, MemoryThatIsToldIsSetApart) {
  EngineOptions options = TinyEngineOptions(2);
  options.kept_rows_bytes = 3 * 16 * 64 * 2 + 5;
  ServeOne(options);
  EXPECT_EQ(AssignedTo(1).kept_blocks(), 3);
  EXPECT_EQ(Status().pipelines(0).stages(0).predicted().budget(),
            (int64_t{1} << 30) - options.kept_rows_bytes);
}

TEST_F(EngineRebuildTest, AnotherClassOfNumbersBeginsAnew) {
  EngineOptions options = TinyEngineOptions(2);
  options.mix_numerics = true;
  ServeOne(options);
  actions_.clear();
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  v1::Hello other = TinyHello("w3");
  other.set_numerics_class("other");
  other.set_mix_numerics(true);
  Give(WorkerJoined{LinkKey(3), other});
  Turn();
  ReadyWithKv(1, 1);
  ReadyWithKv(3, 0, "");
  Arrive(2, 41, 20);
  Turn();
  const std::vector<v1::StepPlan> plans = PlansTo(1);
  ASSERT_GE(plans.size(), 1u);
  EXPECT_FALSE(plans[0].has_rebuild());
}

// The last stage has no part in it, and answers at once.
TEST_F(EngineRebuildTest, ARebuildIsDoneWhenTheStageThatComputesItSaysSo) {
  for (const bool done : {false, true}) {
    actions_.clear();
    Serve(TinyEngineOptions(3), 3);
    Arrive(1, 40, 20);
    Turn();
    const uint64_t sequence = PlansTo(1).at(0).scheduled(0).sequence();
    for (const uint64_t link : {1, 2}) Send(link, DoneFrame(1));
    v1::Frame result = ResultFrame(epoch(), 1);
    v1::SampledToken* const token = result.mutable_step_result()->add_sampled();
    token->set_sequence(sequence);
    token->set_position(40);
    token->set_token(3);
    Send(3, result);
    Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
    Join(4, "w4");
    Turn();
    const uint64_t second = epoch();
    ReadyWithKv(1, 1);
    ReadyWithKv(4, 0, "");
    ReadyWithKv(3, 1, "");
    actions_.clear();
    Turn();
    EXPECT_EQ(PlansTo(1).at(0).rebuild().last_stage(), 1);
    Send(3, ResultFrame(epoch(), 1));
    Send(1, DoneFrame(1));
    if (done) Send(4, DoneFrame(1));
    Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
    Join(5, "w5");
    Turn();
    ReadyWithKv(4, second, "");
    ReadyWithKv(3, 1, "");
    ReadyWithKv(5, 0, "");
    actions_.clear();
    Turn();
    EXPECT_EQ(PlansTo(4).at(0).rebuild().last_stage(), done ? 0 : 1);
  }
}

TEST_F(EngineRebuildTest, ABitMapThatIsTooLargeIsRefused) {
  ServeOne();
  Replace();
  ReadyWithKv(1, 1, std::string(9, '\xff'));
  EXPECT_EQ(ActionsOf<CloseWorker>().size(), 1u);
}

}  // namespace
}  // namespace tutti::coordinator
