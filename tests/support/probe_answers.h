// Answers of workers that have everything right to the probes by which pipelines link, for tests
// whose workers are made by hand and that begin where a pipeline serves.
//
// Thread: one.
#pragma once

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/events.h"

namespace tutti::tests {

class ProbeAnswers {
 public:
  // Takes the probes out of the engine's actions; what their workers answer.
  std::vector<coordinator::WorkerFrame> Take(std::vector<coordinator::Action>* actions) {
    std::vector<coordinator::WorkerFrame> answers;
    std::erase_if(*actions, [&](const coordinator::Action& action) {
      const auto* const send = std::get_if<coordinator::SendToWorker>(&action);
      if (send == nullptr) return false;
      const v1::Frame& frame = send->frame;
      if (frame.has_assign_shard()) {
        const v1::AssignShard& shard = frame.assign_shard();
        tells_[send->link] = shard.stage() + 1 == shard.num_stages() && shard.rank() == 0;
      }
      if (!frame.has_step_plan() || !frame.step_plan().probe()) return false;
      answers.push_back({send->link, Answer(tells_[send->link], frame.epoch())});
      return true;
    });
    return answers;
  }

 private:
  static v1::Frame Answer(bool tells, uint64_t epoch) {
    v1::Frame frame;
    frame.set_epoch(epoch);
    if (tells) {
      frame.mutable_step_result()->mutable_done();
    } else {
      frame.mutable_step_done();
    }
    return frame;
  }

  std::map<coordinator::LinkKey, bool> tells_;  // whether it sends what is sampled
};

}  // namespace tutti::tests
