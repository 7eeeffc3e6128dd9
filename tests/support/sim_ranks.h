// What a simulated rank does with the other ranks of its stage: after its own work for a step it
// tells rank ^ 1 and then rank ^ 2, as the real ones do (worker/links/link_collective.h), and waits for
// what each of them tells.
//
// They tell a digest of everything their step had: tokens, places, blocks, what came out. So ranks
// that are given different steps, or the same in another order, or that hold different caches, are
// found in the step in which it shows.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/sim_network.h"
#include "tests/support/sim_options.h"
#include "tests/support/sim_queue.h"
#include "tutti/v1/peer.pb.h"

namespace tutti::tests {

class SimWorker;
class SimWorld;

struct SimRankFrame {
  uint64_t epoch = 0;
  int32_t from = 0;  // rank
  uint64_t step = 0;
  uint64_t digest = 0;
};

class SimRanks {
 public:
  // REQUIRES: all pointers outlive this.
  SimRanks(const SimOptions* options, SimQueue* queue, Random* random, SimWorld* world)
      : options_(options), queue_(queue), random_(random), world_(world) {}

  // A new epoch has new links; what is still under way on the old ones arrives late.
  void Begin(uint64_t epoch, const v1::AssignShard& shard);
  // The links close; what is under way on them arrives, or is lost.
  void End(bool lose);

  // Our own work for the next step is done.
  void BeginStep(uint64_t digest);
  // Exchanges as far as what has come allows. False: waits for another rank.
  bool GoOn();
  void AbortStep() { step_.reset(); }
  // The rank that the step waits for; null: none.
  const SimWorker* waiting_for() const;
  // REQUIRES: waiting_for() is not null
  Instant waiting_since() const { return step_->since; }

  void Take(const SimRankFrame& frame);
  // The way to one of the others accepts everything and delivers nothing; who hears nothing now.
  // Null: it is alone.
  SimWorker* CutLink();

  uint64_t exchanges() const { return exchanges_; }

 private:
  struct Partner {
    int32_t rank = 0;
    SimWorker* worker = nullptr;
    uint64_t incarnation = 0;
    std::unique_ptr<SimPipe> pipe;
  };
  struct Step {
    uint64_t digest = 0;
    size_t next = 0;    // of partners_, to exchange with
    bool told = false;  // ... it has been told, and we wait for it
    Instant since{};
  };

  void Tell(Partner* partner);
  bool Hear(const Partner& partner);

  const SimOptions* const options_;
  SimQueue* const queue_;
  Random* const random_;
  SimWorld* const world_;

  uint64_t epoch_ = 0;
  int32_t stage_ = 0;
  int32_t rank_ = 0;
  std::vector<Partner> partners_;  // in the order of exchanges
  std::deque<SimRankFrame> heard_;
  uint64_t steps_ = 0;  // of this epoch
  std::optional<Step> step_;
  uint64_t exchanges_ = 0;
};

}  // namespace tutti::tests
