// A fixture for layouts that depend on the workers that join: the workers of a test join and leave
// by name, and the test reads how the layers were dealt out and what the engine said.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/engine.h"
#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

inline constexpr int64_t kMiB = int64_t{1} << 20;

class EngineLayoutTest : public testing::Test {
 protected:
  EngineLayoutTest() { options_.max_batch_tokens = 32; }

  void Start() { engine_ = std::make_unique<Engine>(options_); }
  void Turn() { engine_->Advance(now_, &actions_); }
  // Waits in steps, so that no lease runs out.
  void Wait(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      for (const auto& [id, link] : link_of_) {
        v1::Frame frame;
        frame.mutable_beat();
        engine_->Handle(WorkerFrame{link, frame}, now_, &actions_);
      }
      now_ = std::min(end, now_ + kJoinQuiet / 4);
      Turn();
    }
  }
  // Waits until the layout is decided: no worker joins or leaves for kJoinQuiet.
  void WaitUntilDecided() { Wait(kJoinQuiet * 5 / 4); }
  virtual v1::Hello HelloOf(const std::string& id, int64_t memory) { return TinyHello(id, memory); }
  void Join(const std::string& id, int64_t memory = 1024 * kMiB) {
    const LinkKey link(++last_link_);
    link_of_[id] = link;
    engine_->Handle(WorkerJoined{link, HelloOf(id, memory)}, now_, &actions_);
    Turn();
  }
  void Lose(const std::string& id) {
    engine_->Handle(WorkerLost{link_of_[id], absl::UnavailableError("gone")}, now_, &actions_);
    link_of_.erase(id);
    Turn();
  }
  v1::GetStatusResponse Status() {
    v1::GetStatusResponse status;
    engine_->FillStatus(now_, &status);
    return status;
  }
  std::string WhyNot() { return Status().why_not_serving(); }
  // "w0: 5, w1: 3": the number of layers of each worker, rank by rank.
  std::vector<std::string> Stages(int pipeline = 0) {
    std::vector<std::string> stages;
    const v1::GetStatusResponse status = Status();
    for (const v1::StageStatus& stage : status.pipelines(pipeline).stages()) {
      stages.push_back(absl::StrCat(stage.worker().worker_id(), ": ", stage.num_layers()));
    }
    return stages;
  }
  std::vector<std::string> Notices() {
    std::vector<std::string> notices;
    for (const Notice& notice : ActionsOf<Notice>(actions_)) notices.push_back(notice.text);
    return notices;
  }
  void Map(const std::string& text) {
    auto map = placement::ParseDeviceMap(text, "map.json", options_.model, -1);
    ASSERT_TRUE(map.ok()) << map.status();
    options_.device_map = *std::move(map);
  }
  void Limit(const std::string& text) { options_.max_memory = *placement::ParseMaxMemory(text); }

  Instant now_ = Instant() + std::chrono::hours(1);
  EngineOptions options_ = TinyEngineOptions(/*stages=*/0, /*layers=*/8);
  std::unique_ptr<Engine> engine_;
  std::vector<Action> actions_;
  std::map<std::string, LinkKey> link_of_;
  uint64_t last_link_ = 0;
};

}  // namespace tutti::coordinator
