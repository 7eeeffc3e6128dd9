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

  bool serving() const { return scheduler->kv_slots() > 0; }
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
  // A pipeline began to serve, or ended: the next BindWaiting looks again.
  void HandleRoomChange() { may_bind_ = true; }

  // ---- at the door

  // Queues the request, or ends it at once. `why_not_serving` is "" while some pipeline serves.
  // UNAVAILABLE: draining, or nothing serves. INVALID_ARGUMENT: it fits no context or KV pool.
  // DEADLINE_EXCEEDED: its deadline cannot be met. RESOURCE_EXHAUSTED: the queue is full.
  void HandleRequest(Request request, const std::string& why_not_serving, Instant now,
                     std::vector<Action>* actions);
  // No request is taken from now on; those that were go on.
  void Drain() { draining_ = true; }
  // The name under which the directory has prompts of this length of the client's cache domain.
  Hash128 DomainOfLength(Hash128 domain, size_t prompt_tokens) const;

  // ---- binding

  // Binds waiting sequences, in the order of the queue, while some pipeline has room for the first.
  // One that is too large for now is not overtaken, so that its turn comes. Ends those whose
  // deadline can no longer be met. O(1) unless something came, left or made room since.
  void BindWaiting(Instant now, std::vector<Action>* actions);

  // ---- recovery

  // Recovers the sequences of a pipeline that ended while it served: closes the scheduler's
  // epoch, which hands them back with all their tokens and nothing computed. Those whose client has
  // seen nothing yet go back to the queue and begin again elsewhere; the others end with
  // UNAVAILABLE and `why`, and so do waiting ones that fit no pipeline that still serves.
  // REQUIRES: targets_[lost] was serving
  void RecoverSequences(PipelineId lost, const std::string& why, std::vector<Action>* actions);

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
  // Requests waiting in the queue, and the counters of requests.
  void FillStatus(v1::GetStatusResponse* status) const;

 private:
  absl::Status CheckRequest(const Request& request, const std::string& why_not_serving,
                            Instant now) const;
  absl::Status CheckDeadline(const Request& request, std::span<const TokenId> tokens,
                             Instant now) const;
  void LowerDefaultLength(Request* request) const;
  int64_t LargestPool() const;
  std::vector<int64_t> CachedTokens(const Request& request, std::span<const TokenId> tokens) const;

  std::optional<size_t> TargetOfGroup(const Sequence& sequence) const;
  bool FindRoom(const Sequence& sequence);
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
  bool may_bind_ = false;            // room became free, or a request came
  std::vector<PipelineLoad> loads_;  // of all targets, as FindRoom saw them for one sequence
};

}  // namespace tutti::coordinator
