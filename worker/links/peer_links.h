// The links of an epoch to the neighbours of this worker: to the next stage, from the one before,
// and to the other ranks of its own stage; and beside them what passes between their devices.
//
// Thread: the executor's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "worker/device_links/device_group.h"
#include "worker/device_links/device_links.h"
#include "worker/links/accepted_links.h"
#include "worker/links/dialled_link.h"
#include "worker/links/link_collective.h"
#include "worker/links/link_events.h"
#include "worker/links/peer_finder.h"
#include "worker/links/rank_links.h"

namespace tutti::worker {

class PeerLinks {
 public:
  struct Options {
    PeerRules peers;                       // where others may be dialled
    LinkCollective* collective = nullptr;  // of the factory's runners
    DeviceGroup::Options devices;          // of the factory's backend
    DeviceLinks::Options device_links;     // of the factory's backend
    std::string memory_folder;             // where ranks of one machine meet; empty: nowhere
  };
  struct Events {
    // A frame from the stage before.
    std::function<void(v1::Frame frame, transport::Payload payload)> on_activation;
    // Let something happen within a step, at the latest until `deadline`. ABORTED when the epoch is
    // over.
    std::function<absl::Status(Instant deadline)> wait_for_rank, wait_for_rows;
  };

  // REQUIRES: all outlive this
  PeerLinks(Options options, LinkContext* context, const Clock* clock, Events events);

  // Lets go of the links of an epoch before, and dials and expects those of the shard's neighbours.
  // `memory`: of the shard's runner. `rank_patience`: as RankLinks::Begin. Errors of
  // PeerFinder::Find.
  absl::Status Begin(Epoch epoch, const v1::AssignShard& shard, StageRunner::LinkMemory memory,
                     Duration rank_patience, Instant now);
  void End(const absl::Status& reason);

  void Accept(LinkAccepted accepted, Instant now) {
    strangers_.OnAccepted(std::move(accepted), now);
  }

  // Whether all links of ranks are up: no step may begin before.
  bool ready() const { return ranks_.ready(); }
  // Whether the devices of the ranks still have to look for each other.
  bool must_group() const { return epoch_ != Epoch() && !grouped_; }
  // They do.  REQUIRES: ready().  Errors of DeviceGroup::Form.
  absl::Status Group(const std::function<void()>& progress);
  // The worker that the step in progress waits for; empty when none does.
  const std::string& waiting_for() const { return ranks_.waiting_for(); }

  // To every rank of the next stage that this one feeds.
  void SendToNext(const v1::Frame& frame, const transport::Payload& payload);
  StageRowChannel* row_channel() { return &device_links_; }

  // Errors: the epoch cannot go on without one of the links.
  absl::Status Tick(Instant now);
  Instant next_wake(Instant now) const;

  // The states of links that are others than last time, as frames for the coordinator.
  std::vector<v1::Frame> PopReports();

 private:
  void ExpectPrevious(const std::string& worker_id, std::vector<AcceptedLink*>* expected);
  void AddNext(const std::string& worker_id);
  void TickDevices(Instant now);

  const Options options_;
  LinkContext* const context_;
  const Events events_;

  Epoch epoch_;  // 0: no links
  int num_ranks_ = 1, rank_ = 0;
  PeerFinder finder_;
  AcceptedLinks strangers_;
  std::unique_ptr<AcceptedLink> previous_;          // null: this is the first stage
  std::vector<std::unique_ptr<DialledLink>> next_;  // the ranks of the next stage that we feed
  RankLinks ranks_;
  DeviceGroup group_;
  bool grouped_ = false;  // or could not be, in this epoch
  DeviceLinks device_links_;
};

}  // namespace tutti::worker
