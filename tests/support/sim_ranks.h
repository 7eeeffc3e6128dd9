// The exchanges of a simulated rank with the other ranks of its stage: after its own work for a
// step it sends a digest to rank ^ 1 and then to rank ^ 2, in the order of the real ones
// (worker/links/link_collective.h), and waits for the digest of each.
//
// A digest covers everything that the step had: tokens, places, blocks, results. So ranks that are
// given different steps, or the same in another order, or that hold different caches, are found in
// the step in which it shows.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "proto/peer_messages.h"
#include "tests/support/sim_network.h"
#include "tests/support/sim_options.h"
#include "tests/support/sim_queue.h"

namespace tutti::tests {

struct SimRankFrame {
  uint64_t epoch = 0;
  int32_t from = 0;  // rank
  uint64_t step = 0;
  uint64_t digest = 0;
};

// Another rank, at the other end of a link.
class SimRankPeer {
 public:
  virtual const std::string& id() const = 0;
  // Grows with every start and every kill: frames for an earlier one are dropped.
  virtual uint64_t incarnation() const = 0;
  // A frame arrives.
  virtual void OnRankFrame(uint64_t incarnation, const SimRankFrame& frame) = 0;

 protected:
  ~SimRankPeer() = default;
};

class SimRanks {
 public:
  using FailCallback = std::function<void(const std::string&)>;
  using FindPeerCallback = std::function<SimRankPeer*(const std::string& worker_id)>;

  // REQUIRES: all pointers outlive this.
  SimRanks(const SimOptions* options, SimQueue* queue, Random* random, FindPeerCallback find,
           FailCallback fail)
      : options_(options),
        queue_(queue),
        random_(random),
        find_(std::move(find)),
        fail_(std::move(fail)) {}

  // A new epoch has new links; frames still under way on the old ones arrive late.
  void Begin(uint64_t epoch, const v1::AssignShard& shard);
  // The links close; frames under way on them arrive, or are lost.
  void End(bool lose);

  // Our own work for the next step is done.
  void BeginStep(uint64_t digest);
  // Exchanges as far as the frames that have arrived allow. False: waits for another rank.
  bool GoOn();
  void AbortStep() { step_.reset(); }
  // The rank that the step waits for; null: none.
  const SimRankPeer* waiting_for() const;
  // REQUIRES: waiting_for() is not null
  Instant waiting_since() const { return step_->since; }

  // Keeps a frame that has arrived until its exchange.
  void OnFrame(const SimRankFrame& frame);
  // The link to one of the others accepts everything and delivers nothing from now on; that other
  // rank. Null: there is none.
  SimRankPeer* CutLink();

  uint64_t exchanges() const { return exchanges_; }

 private:
  struct Partner {
    int32_t rank = 0;
    SimRankPeer* peer = nullptr;
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
  const FindPeerCallback find_;
  const FailCallback fail_;

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
