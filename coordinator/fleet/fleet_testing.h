// The fleet alone: pipelines are numbers, and formations end at the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/engine_testing.h"
#include "coordinator/fleet/fleet.h"

namespace tutti::coordinator {

class FleetTest : public testing::Test {
 protected:
  void Start() { fleet_ = std::make_unique<Fleet>(&options_); }
  void Join(uint64_t link, const std::string& id, int64_t memory_bytes = int64_t{1} << 30) {
    fleet_->HandleJoin({LinkKey(link), TinyHello(id, memory_bytes)}, 0, now_, &actions_);
  }
  Worker* Find(uint64_t link) { return fleet_->Find(LinkKey(link)); }
  void Hear(uint64_t link) { fleet_->RenewLease(Find(link), now_); }
  // One attempt; the workers of a formation become busy, as pipelines make them.
  FormingResult Form(const std::vector<WaitingPipeline>& waiting,
                     const Fleet::FormedPipelines& formed = {}) {
    FormingResult result = fleet_->Form(waiting, formed, now_, &actions_);
    for (const FormingOutcome& outcome : result.outcomes) {
      if (!outcome.formation.ok()) continue;
      for (size_t i = 0; i < outcome.formation->workers.size(); ++i) {
        Worker* const worker = outcome.formation->workers[i];
        worker->stage = worker->held_stage = static_cast<int32_t>(i);
        worker->holds_shard = true;
      }
    }
    return result;
  }
  static WaitingPipeline Wants(uint32_t pipeline) { return {PipelineId(pipeline), {}}; }
  static std::vector<std::string> Names(const FormingOutcome& outcome) {
    std::vector<std::string> names;
    if (!outcome.formation.ok()) return {std::string(outcome.formation.status().message())};
    for (const Worker* worker : outcome.formation->workers) names.push_back(worker->id());
    return names;
  }

  Instant now_ = Instant() + std::chrono::hours(1);
  EngineOptions options_ = TinyEngineOptions(/*stages=*/2);
  std::unique_ptr<Fleet> fleet_;
  std::vector<Action> actions_;
};

}  // namespace tutti::coordinator
