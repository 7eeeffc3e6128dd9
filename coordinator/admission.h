// The requests taken and not ended yet: refusals at the door, the wait, the pipeline that each is
// bound to, recovery when that pipeline is lost, and their end.
//
//   door      HandleRequest checks a request and queues it
//   binding   BindWaiting gives waiting sequences to pipelines that have room, in the queue's order
//   recovery  RecoverSequences decides what becomes of the sequences of a pipeline that ended
//   end       End, and its causes here: a cancellation, a deadline
//
// A sequence is in the admission queue (Sequence::pipeline is -1) or bound to one pipeline's
// scheduler, never in both. Of pipelines, admission sees AdmissionTarget and a prompt's entries in
// the KV directory.
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/admission_queue.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/kv/kv_directory.h"
#include "coordinator/request_table.h"
#include "coordinator/router.h"
#include "coordinator/scheduler.h"
#include "coordinator/step_rate.h"
#include "coordinator/steps_due.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// A pipeline as admission sees it: a scheduler that sequences are bound to, and how fast prompts
// are computed there.
struct AdmissionTarget {
  Scheduler* scheduler = nullptr;  // its epoch is open exactly while the pipeline serves
  const StepRate* rate = nullptr;
  const bool* accepting = nullptr;  // false: it retires, and others take what is new; null: true

  bool serving() const { return scheduler->kv_slots() > 0; }
  bool takes_new() const { return serving() && (accepting == nullptr || *accepting); }
  // Whether the sequence, alone there, could ever run to its end.
  bool CanHold(const Sequence& sequence) const {
    return serving() && scheduler->kv_slots() >= sequence.kv_slots_max();
  }
};

class Admission {
 public:
  // REQUIRES: all three outlive this. `steps_due` gets every pipeline whose sequences come or go
  // here.
  Admission(const EngineOptions* options, const KvDirectory* directory, StepsDue* steps_due)
      : options_(options), directory_(directory), steps_due_(steps_due) {}

  // One more pipeline; the first is pipeline 0.  REQUIRES: the objects it points at outlive this
  void AddTarget(const AdmissionTarget& target) { targets_.push_back(target); }

  // ---- at the door

  // Queues all outputs of the request, or ends them at once. `why_not_serving` is "" while some
  // pipeline serves.
  // UNAVAILABLE: draining, or nothing serves. INVALID_ARGUMENT: it fits no context, KV pool or
  // plan. DEADLINE_EXCEEDED: its deadline cannot be met. RESOURCE_EXHAUSTED: it would have to wait,
  // and the queue is full.
  void HandleRequest(RequestArrived event, const std::string& why_not_serving, Instant now,
                     std::vector<Action>* actions);
  // No request is taken from now on; those that were go on.
  void Drain() { draining_ = true; }
  // All that were taken end with UNAVAILABLE: the service shuts down.
  void EndAll(std::vector<Action>* actions);
  // The name under which the directory has prompts of this length of the client's cache domain.
  Hash128 DomainOfLength(Hash128 domain, size_t prompt_tokens) const;

  // ---- binding

  // Binds waiting sequences, in the order of the queue, while some pipeline has room for the first.
  // One that is too large for now is not overtaken, so that its turn comes. Ends those whose
  // deadline can no longer be met. Whether any was bound. O(1) while none waits; while some do,
  // O(pipelines) unless the queue, the room of a pipeline or its cached prefixes changed since.
  bool BindWaiting(Instant now, std::vector<Action>* actions);
  // Whether BindWaiting could bind a sequence now, found out without regard to what has changed.
  bool CanBind();

  // ---- recovery

  // Recovers the sequences of a pipeline that ended while it served: closes the scheduler's
  // epoch, which hands them back with all their tokens and nothing computed. Those whose client has
  // seen nothing yet go back to the queue and begin again elsewhere; the others end with
  // UNAVAILABLE and `why`, and so do waiting ones that fit no pipeline that still serves.
  // REQUIRES: targets_[lost] was serving
  void RecoverSequences(PipelineId lost, const std::string& why, std::vector<Action>* actions);

  // Ends the waiting sequences that fit no pipeline that serves, and have no other to wait for.
  void EndUnservable(const std::string& why, std::vector<Action>* actions);

  // ---- the end

  void HandleCancellation(const RequestCancelled& event, std::vector<Action>* actions);
  void ExpireDeadlines(Instant now, std::vector<Action>* actions);
  // The sequence leaves wherever it is, and its client is told. `status` is not OK exactly when
  // `cause` is kError. The sequence is gone afterwards.
  void End(Sequence* sequence, FinishCause cause, absl::Status status,
           std::vector<Action>* actions);
  void CountGenerated(int64_t tokens) { requests_.CountGenerated(tokens); }

  // The earliest deadline of a request: ExpireDeadlines does nothing before.
  Instant next_deadline() const { return requests_.next_deadline(); }
  size_t waiting() const { return queue_.size(); }
  // Requests waiting in the queue, and the counters of requests.
  void FillStatus(v1::GetStatusResponse* status) const;

 private:
  absl::Status CheckRequest(const Request& request, const std::string& why_not_serving,
                            Instant now) const;
  absl::Status CheckDeadline(const Request& request, std::span<const TokenId> tokens,
                             Instant now) const;
  absl::Status TakePlaces(const Request& request, int64_t outputs, Instant now,
                          std::vector<Action>* actions);
  int64_t OutputsWithRoom(const Request& request, int64_t outputs) const;
  void LowerDefaultLength(Request* request) const;
  int64_t LargestPool() const;
  std::vector<int64_t> CachedTokens(const Request& request, std::span<const TokenId> tokens) const;

  std::optional<size_t> TargetOfGroup(const Sequence& sequence) const;
  bool FindRoom(const Sequence& sequence);
  uint64_t RoomVersion() const;
  size_t Route(const Sequence& sequence) const;
  void Bind(Sequence* sequence, size_t target);
  void Unbind(Sequence* sequence);

  const EngineOptions* const options_;
  const KvDirectory* const directory_;
  StepsDue* const steps_due_;
  std::vector<AdmissionTarget> targets_;  // by pipeline id
  RequestTable requests_;
  AdmissionQueue queue_;
  bool draining_ = false;
  // Versions of the queue and of all targets at which the first in line was found to have no room.
  // Compared, so that no change can be forgotten: everything that makes room changes one of them.
  struct Versions {
    uint64_t queue = 0;
    uint64_t room = 0;
    bool operator==(const Versions&) const = default;
  };
  std::optional<Versions> no_room_;
  std::vector<PipelineLoad> loads_;  // of all targets, as FindRoom saw them for one sequence
};

}  // namespace tutti::coordinator
