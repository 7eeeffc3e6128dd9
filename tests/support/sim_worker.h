// A simulated worker process: the real StageWorker with an oracle stage, an executor that takes
// time, links that break.
//
// Its functions are in two files, because how long steps take is a question of its own:
// sim_worker_pace.cc.
//
// Thread: one.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "coordinator/events.h"
#include "tests/support/sim_network.h"
#include "tests/support/sim_options.h"
#include "tests/support/sim_queue.h"
#include "tests/support/sim_ranks.h"
#include "worker/stage_worker.h"

namespace tutti::tests {

// Of a worker that was slowed down. Here a step tells nothing before its end, where a real one
// tells of every layer: a longer one could not be told from one that hangs.
inline constexpr Duration kSlowStepMax = std::chrono::milliseconds(1500);

class SimWorker;

// The world around a worker, as it sees it. All calls come at the time of arrival.
class SimWorld {
 public:
  virtual ~SimWorld() = default;
  virtual coordinator::LinkKey NewLink(SimWorker* worker) = 0;
  virtual void Hello(coordinator::LinkKey link, const v1::Hello& hello) = 0;
  virtual void ToEngine(coordinator::LinkKey link, v1::Frame frame) = 0;
  virtual void LinkLost(coordinator::LinkKey link) = 0;
  virtual SimWorker* FindWorker(const std::string& id) = 0;
  // Whether the worker has a stage of a pipeline that serves, as the engine last said.
  virtual bool IsServing(const SimWorker& worker) const = 0;
  virtual void Fail(const std::string& what) = 0;
  // A process has ended.
  virtual void Died(bool of_its_work) = 0;
  // The time for which the engine has stood still since `time`.
  virtual Duration StalledSince(Instant time) const = 0;
};

class SimWorker : public worker::StageOutbox, public SimRankPeer {
 public:
  // REQUIRES: all pointers outlive the worker.
  SimWorker(std::string id, int64_t memory_bytes, const SimOptions* options, SimQueue* queue,
            Random* random, SimWorld* world);

  const std::string& id() const override { return id_; }

  // The world acts on the process.
  void Start();
  void Kill();
  void Hang(Duration how_long);
  void SlowDown(int32_t factor, Duration how_long) {
    slow_factor_ = std::clamp<int32_t>(kSlowStepMax / options_->step_most, 1, factor);
    queue_->After(how_long, [this] { slow_factor_ = 1; });
  }
  // For good, with a place that must be another's by then.
  void SlowDownUntilMoved(int32_t factor, Duration moved_within);
  // Whether it has a place on a pipeline that serves.
  bool serving() const { return up() && world_->IsServing(*this); }
  // One of the links to the next stage accepts everything and delivers nothing, until the next
  // epoch. The worker that hears nothing now; null: there is no such link.
  SimWorker* CutNextLink();
  // The same for one of the links to other ranks of its stage; neither end is more to blame.
  SimWorker* CutRankLink();
  // The same for its frames to the coordinator, until it connects again.
  void CutControlLink();
  // Its link to the coordinator closes at both ends, and it dials again.
  void ResetControlLink();

  // The engine's side of the control link, at arrival.
  void OnFrame(coordinator::LinkKey link, v1::Frame frame);
  void OnClosed(coordinator::LinkKey link);
  // A frame of another rank of its stage, at arrival.
  void OnRankFrame(uint64_t incarnation, const SimRankFrame& frame) override;

  coordinator::LinkKey link() const { return link_; }
  bool up() const { return worker_ != nullptr; }
  // Whether the engine has a reason to take it for dead, now or a moment ago.
  bool excused() const { return excused_; }
  // Since when it has been silent, which only a lease can notice.
  std::optional<Instant> silent_since() const { return silent_since_; }
  const worker::StageWorker* core() const { return worker_.get(); }
  uint64_t incarnation() const override { return incarnation_; }
  uint64_t exchanges() const { return ranks_.exchanges(); }

  // StageOutbox
  void ToCoordinator(v1::Frame frame) override { outgoing_.push_back({.frame = std::move(frame)}); }
  void ToNextStage(v1::Frame frame, transport::Payload payload) override;

 private:
  void Die();
  void End();
  struct Item {
    enum class Kind { kFrame, kActivation, kClosed, kOldFrame } kind = Kind::kFrame;
    coordinator::LinkKey link;
    v1::Frame frame;
    transport::Payload payload;
  };
  struct Outgoing {
    bool to_next = false;
    v1::Frame frame;
    transport::Payload payload;
  };
  // A worker of the next stage that this one feeds.
  struct Next {
    SimWorker* worker = nullptr;
    uint64_t incarnation = 0;
    std::unique_ptr<SimPipe> pipe;
  };

  void OnWelcome(const v1::Welcome& welcome);
  void Connect();
  void AwaitWelcome(coordinator::LinkKey link);
  void ConnectLater();
  void Beat(uint64_t incarnation);
  void FallSilent() {
    excused_ = true;
    if (welcome_ && !silent_since_.has_value()) silent_since_ = queue_->now();
  }
  bool IsClosed() const;
  void Pump();
  bool FinishStep();
  bool EpochEnds() const;
  void GiveUpOnRank();
  Duration Process(Item item);
  Duration ProcessOld(v1::Frame frame);
  Duration StepTime();
  Duration TellPace(Duration computing);
  void BusyFor(Duration time);
  void Flush();
  void SendToEngine(v1::Frame frame);
  void DialNext();
  void CloseNext(bool lose);
  void OnActivation(uint64_t incarnation, v1::Frame frame, transport::Payload payload);

  const std::string id_;
  const int64_t memory_bytes_;
  const SimOptions* const options_;
  SimQueue* const queue_;
  Random* const random_;
  SimWorld* const world_;

  std::unique_ptr<worker::StageWorker> worker_;  // null: the process is not there
  uint64_t incarnation_ = 0;
  std::unique_ptr<SimPipe> to_engine_;
  coordinator::LinkKey link_;
  bool welcome_ = false;
  uint32_t obeyed_ = 0;  // the highest number of a coordinator that has welcomed this process
  std::vector<Next> next_;
  SimRanks ranks_;
  bool dies_ = false;         // the last step run brought it down
  bool strays_ = false;       // its draft model, from what a sequence says
  uint64_t step_digest_ = 0;  // of the last step run
  Epoch failed_epoch_;        // in which it gave up on another rank
  std::deque<Item> inbox_;
  std::vector<Outgoing> outgoing_;  // made by the work under way, sent when it is done
  bool busy_ = false;
  bool hung_ = false;
  bool excused_ = false;
  std::optional<Instant> silent_since_;
  int32_t slow_factor_ = 1;
  std::vector<v1::Frame> said_;  // frames that may be said again in another epoch
};

}  // namespace tutti::tests
