// The requests taken and not ended yet: refusals at the door, the wait, the pipeline that each is
// bound to, recovery when that pipeline is lost, and their end.
//
//   door      HandleRequest checks a request and queues it
//   binding   BindWaiting gives waiting sequences to pipelines that have room, in the queue's order
//   recovery  RecoverSequences takes back the sequences of a pipeline that ended: they keep their
//             tokens and are bound again before newcomers, but those that may have been the cause
//             are computed alone (suspects.h); SettleWaiting ends those that wait in vain
//   end       End, and its causes here: a cancellation, a deadline
//
// A sequence is in the admission queue (Sequence::pipeline is -1) or bound to one pipeline's
// scheduler, never in both. Of pipelines, admission sees AdmissionTarget and a prompt's entries in
// the KV directory.
//
// Its functions are in four files, because each of its questions is answered beside the others
// from the same queue: the door and the end (admission.cc), who has a place (admission_places.cc),
// losses (admission_recovery.cc), and answers that go on (admission_resume.cc).
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/kv/kv_directory.h"
#include "coordinator/requests/admission_queue.h"
#include "coordinator/requests/admission_target.h"
#include "coordinator/requests/place_pace.h"
#include "coordinator/requests/recovery_log.h"
#include "coordinator/requests/request_table.h"
#include "coordinator/requests/router.h"
#include "coordinator/requests/stranded.h"
#include "coordinator/requests/suspects.h"
#include "coordinator/steps/finished_answers.h"
#include "coordinator/steps_due.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// The error of the streams that another call of the same request takes over: ABORTED.
absl::Status TakenOver();

class Admission {
 public:
  // REQUIRES: all outlive this. `steps_due` gets every pipeline whose sequences come or go here,
  // `answers` what ends well; null: nothing is kept.
  Admission(const EngineOptions* options, const KvDirectory* directory, StepsDue* steps_due,
            FinishedAnswers* answers = nullptr)
      : options_(options),
        directory_(directory),
        steps_due_(steps_due),
        answers_(answers),
        stranded_(options->recovery_timeout),
        suspects_(&targets_, options->prefix_key) {}

  // One more pipeline; the first is pipeline 0.  REQUIRES: the objects it points at outlive this
  void AddTarget(const AdmissionTarget& target) { targets_.push_back(target); }

  // ---- at the door

  // Queues all outputs of the request, or ends them at once. `serving` is OK while some pipeline
  // serves, or has served and is awaited, and else what the request is told.
  // UNAVAILABLE: draining, or nothing serves. INVALID_ARGUMENT: it fits no context, KV pool or
  // plan, or it goes on from tokens that the stream it takes over did not bring. DEADLINE_EXCEEDED:
  // its deadline cannot be met. RESOURCE_EXHAUSTED: it would have to wait, and the queue is full.
  // INTERNAL: one like it was given up lately, see poison_list.h. FAILED_PRECONDITION: it was begun
  // in a numerics class that nothing here computes in, or in one that is not exact, and the client
  // has not agreed to that.
  void HandleRequest(RequestArrived event, const absl::Status& serving, Instant now,
                     std::vector<Action>* actions);
  // No request is taken from now on; those that were go on.
  void Drain() { draining_ = true; }
  // All that were taken end with UNAVAILABLE: the service shuts down.
  void EndAll(std::vector<Action>* actions);
  // The name under which the directory has prompts of this length of the client's cache domain.
  Hash128 DomainOfLength(Hash128 domain, size_t prompt_tokens) const;

  // ---- binding

  // Binds waiting sequences, in the order of the queue, while some pipeline has room for the first.
  // One that is too large for now is overtaken only by owners that have fewer on pipelines, and
  // not for long (AdmissionQueue::FrontOfFewest), so that its turn comes. Ends those whose
  // deadline can no longer be met. Whether any was bound. O(1) while none waits; while some do,
  // O(pipelines) unless the queue, the room of a pipeline or its cached prefixes changed since.
  bool BindWaiting(Instant now, std::vector<Action>* actions);
  // Whether BindWaiting could bind a sequence now, found out without regard to what has changed.
  bool CanBind();

  // ---- recovery (admission_recovery.cc)

  // Recovers the sequences of a pipeline that ended while it served: closes the scheduler's epoch,
  // which hands them back with all their tokens and nothing computed. They go back to the queue,
  // before newcomers. Those that may have been the cause are suspects after kLossesSuspected
  // losses, and end with INTERNAL when they are found to be guilty (suspicion.h).
  // REQUIRES: targets_[lost] was serving
  struct Loss {
    PipelineId pipeline;
    std::string why;
    LossCause cause = LossCause::kNobody;
    std::string worker;  // that was lost
    Duration unheard{};  // of it, before its loss
  };
  void RecoverSequences(const Loss& loss, Instant now, std::vector<Action>* actions);
  // A worker has joined. `same_process`: the one of that name which was there before; else one that
  // was started since.
  void HandleJoin(const std::string& worker, bool same_process, Instant now,
                  std::vector<Action>* actions);
  // Judges where workers have not come back for long.
  void JudgeOverdue(Instant now, std::vector<Action>* actions);
  // For so long nobody was heard, through no fault of the workers: see Stalled.
  void Forgive(Duration stall) { suspects_.Forgive(stall); }
  // JudgeOverdue does nothing before.
  Instant next_verdict() const { return suspects_.next_deadline(); }

  // Looks at all that wait, after a pipeline began or ceased to serve. Those that none can hold end
  // with UNAVAILABLE: at once where no other will come (`may_come`), else when they have waited for
  // options.recovery_timeout. `why` says what is missing.
  void SettleWaiting(bool may_come, const std::string& why, Instant now,
                     std::vector<Action>* actions);
  // SettleWaiting ends nobody before.
  Instant stranded_until() const { return stranded_.until(); }
  // A sequence has got a token.
  void HandleProgress(Sequence* sequence, Instant now, std::vector<Action>* actions);
  RecoveryLog* recoveries() { return &recoveries_; }

  // ---- the end

  void HandleCancellation(const RequestCancelled& event, Instant now, std::vector<Action>* actions);
  void ExpireDeadlines(Instant now, std::vector<Action>* actions);
  // The sequence leaves wherever it is, and its client is told. `status` is not OK exactly when
  // `cause` is kError. The sequence is gone afterwards.
  void End(Sequence* sequence, FinishCause cause, absl::Status status,
           std::vector<Action>* actions);

  // The earliest deadline of a request: ExpireDeadlines does nothing before.
  Instant next_deadline() const { return requests_.next_deadline(); }
  int64_t charged_tokens() const { return queue_.charged(); }
  // Whether any sequence is bound to a pipeline, or has begun; of the first that has, *numerics is
  // the class, in which alone it goes on.
  bool AnyLives(std::string* numerics) const;
  size_t waiting() const { return queue_.size() + suspects_.waiting() + stranded_.size(); }
  // Requests waiting in the queue, and the counters of requests.
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;

 private:
  absl::Status CheckRequest(const Request& request, const absl::Status& serving, Instant now) const;
  // Checks of answers that go on (admission_resume.cc).
  absl::Status CheckNumerics(const Request& request) const;
  absl::Status CheckOutput(const Request& request, int64_t output) const;
  absl::Status TakeOver(const RequestArrived& event, const std::vector<Request>& outputs,
                        std::vector<Action>* actions);
  void FollowGroup(Sequence* sequence) const;
  absl::Status CheckDeadline(const Request& request, std::span<const TokenId> tokens,
                             Instant now) const;
  bool BindAsRoomAllows(Instant now, std::vector<Action>* actions);
  int64_t MaxWaiting(Instant now) const;
  absl::Status TakePlaces(const Request& request, int64_t outputs, Instant now,
                          std::vector<Action>* actions);
  // Requests that wait and have never run, and those that cannot be held for now.
  int64_t Newcomers() const { return static_cast<int64_t>(queue_.newcomers() + stranded_.size()); }
  bool AnyCanHold(const Sequence& sequence) const;
  int64_t OutputsWithRoom(const Request& request, int64_t outputs) const;
  void LowerDefaultLength(Request* request) const;
  int64_t LargestPool() const;
  int64_t LargestPoolAwaited() const;
  std::vector<int64_t> CachedTokens(const Request& request, std::span<const TokenId> tokens) const;

  bool BindSuspects(Instant now, std::vector<Action>* actions);
  void Judge(const LossFinding& finding, Instant now, std::vector<Action>* actions);
  void Release(Sequence* sequence, Instant now);
  void LetOthersIn(size_t target);
  void Empty(size_t target);
  std::optional<size_t> TargetOfGroup(const Sequence& sequence) const;
  bool FindRoom(const Sequence& sequence);
  void ObservePace(Instant now);
  static bool IsDeadline(const Sequence& sequence, Instant now);
  Sequence* FindNext(std::optional<size_t>* target);
  size_t Route(const Sequence& sequence) const;
  void Bind(Sequence* sequence, size_t target);
  void Unbind(Sequence* sequence);
  void KeepAnswer(const Sequence& sequence);

  const EngineOptions* const options_;
  const KvDirectory* const directory_;
  StepsDue* const steps_due_;
  FinishedAnswers* const answers_;
  std::vector<AdmissionTarget> targets_;  // by pipeline id
  RequestTable requests_;
  PlacePace pace_;
  AdmissionQueue queue_;
  bool draining_ = false;
  int64_t pool_awaited_ = 0;  // the largest pool of the pipelines that ended while they served
  Stranded stranded_;
  RecoveryLog recoveries_;
  Suspects suspects_;

  // Versions of the queue and of all targets at which those whose turn it was had no room.
  // Compared, so that no change can be forgotten: everything that makes room changes one of them.
  struct Versions {
    uint64_t queue = 0;
    uint64_t room = 0;  // of all targets: they only grow, so the sum is the same only while each is
    uint64_t taking = 0;  // which targets take what is new, a digit each
    uint64_t suspects = 0;
    bool operator==(const Versions&) const = default;
  };
  Versions CurrentVersions() const;
  std::optional<Versions> no_room_;
  std::vector<PipelineLoad> loads_;  // of all targets, as FindRoom saw them for one sequence
};

}  // namespace tutti::coordinator
