// The engine goes on after every frame of a worker: at worst the worker is sent away.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <string>

#include "base/random.h"
#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;

class EngineHostileTest : public EngineTest {
 protected:
  int64_t Number() {
    static constexpr int64_t kEdges[] = {0,  1,   2,  3,         5,         -1,        63,
                                         64, 999, -7, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    return kEdges[random_.Between(0, std::size(kEdges) - 1)];
  }
  void FillDone(v1::StepDone* done) {
    done->set_step(Number());
    done->set_compute_us(Number());
    done->set_wait_us(Number());
    done->set_draft_us(Number());
    done->set_draft_passes(static_cast<int32_t>(Number()));
    done->mutable_activation_out()->set_bytes(Number());
  }
  void FillResult(v1::StepResult* result) {
    result->set_step(random_.Chance(0.7) ? 1 : Number());
    FillDone(result->mutable_done());
    for (int64_t n = random_.Between(0, 3); n > 0; --n) {
      v1::SampledToken* const sampled = result->add_sampled();
      sampled->set_sequence(Number());
      sampled->set_position(static_cast<int32_t>(Number()));
      sampled->set_token(static_cast<int32_t>(Number()));
    }
    if (random_.Chance(0.3)) result->add_poisoned(Number());
    for (int64_t n = random_.Between(0, 2); n > 0; --n) {
      v1::DraftedTokens* const drafted = result->add_drafted();
      drafted->set_sequence(Number());
      drafted->set_position(static_cast<int32_t>(Number()));
      drafted->add_tokens(static_cast<int32_t>(Number()));
    }
  }
  // One event; `request` is an id that no event before had.
  void DoSomething(uint64_t request) {
    const auto link = static_cast<uint64_t>(random_.Between(1, 4));
    v1::Frame frame;
    frame.set_epoch(random_.Chance(0.7) ? epoch() : static_cast<uint64_t>(Number()));
    switch (random_.Between(0, 11)) {
      case 0:
      case 1:
        return Join(++links_, "w" + std::to_string(random_.Between(1, 3)));
      case 2:
      case 3:
        return Ready(link);
      case 4:
        return Arrive(request, static_cast<int32_t>(random_.Between(1, 40)), 5);
      case 5:
        FillResult(frame.mutable_step_result());
        return Send(link, frame);
      case 6:
        FillDone(frame.mutable_step_done());
        return Send(link, frame);
      case 7:
        frame.mutable_shard_progress()->set_loaded_bytes(Number());
        frame.mutable_shard_progress()->set_total_bytes(Number());
        return Send(link, frame);
      case 8:
        return Beat(link, static_cast<uint64_t>(Number()));
      case 9:
        if (random_.Chance(0.5)) frame.mutable_activation();
        if (random_.Chance(0.3)) frame.mutable_hello();
        return Send(link, frame);
      case 10:
        frame.mutable_failure()->set_message(std::string(100, '\0'));
        return Send(link, frame);
      default:
        return Give(WorkerLost{LinkKey(link), absl::OkStatus()});
    }
  }

  Random random_{11};
  uint64_t links_ = 0;
};

TEST_F(EngineHostileTest, HostileFrames) {
  int sent_away = 0;
  for (int round = 0; round < 400; ++round) {
    Start(TinyEngineOptions(2));
    links_ = 0;
    for (int i = 0; i < 60; ++i) {
      now_ += milliseconds(random_.Between(0, 300));
      DoSomething(round * 100 + i);
      if (random_.Chance(0.7)) Turn();
      Status();
    }
    sent_away += static_cast<int>(ActionsOf<CloseWorker>().size());
    actions_.clear();
  }
  EXPECT_GT(sent_away, 400);
}

}  // namespace
}  // namespace tutti::coordinator
