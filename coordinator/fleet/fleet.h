// The workers that have joined, and the pipelines to form of them: membership and leases, device
// numbers, the layout, and the idle workers of the next pipeline.
//
// Of pipelines, the fleet sees which wait for workers; it answers with formations, and is told what
// became of their workers and links, so that it chooses others, or waits, where these failed
// (fault_memory.h). It says which workers' leases have run out; the engine loses them, because
// their pipelines end with them.
//
// Its functions are in three files, because it decides on the same members in two ways: which class
// they compute in (fleet_class.cc), and which of them make a pipeline (fleet_forming.cc).
//
// Thread: the engine's.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/fleet/device_numbers.h"
#include "coordinator/fleet/fault_memory.h"
#include "coordinator/fleet/forming.h"
#include "coordinator/fleet/layout_choice.h"
#include "coordinator/fleet/membership.h"
#include "coordinator/fleet/planned_links.h"
#include "proto/peer_messages.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// A pipeline that waits for workers.
struct WaitingPipeline {
  PipelineId id;
  std::optional<Instant> ended;  // when it ended after it had served; none: it never has
};
// The outcome of one attempt to form, for one pipeline.
struct FormingOutcome {
  std::optional<PipelineId> pipeline;   // that waited; none: one more pipeline than there are
  absl::StatusOr<Formation> formation;  // not OK: why it goes on waiting
  std::optional<Notice> notice;         // for the log, where that is news
};
struct FormingResult {
  std::vector<FormingOutcome> outcomes;  // in the order of those that wait, then of new ones
  bool complete = false;                 // no pipeline goes on waiting
};

struct LostWorker {
  LinkKey link;
  absl::Status reason;
};

class Fleet {
 public:
  // REQUIRES: `options` outlives this
  explicit Fleet(const EngineOptions* options);

  // The pipeline that a worker serves is written there by pipelines.
  Membership* membership() { return &membership_; }
  Worker* Find(LinkKey link) { return membership_.Find(link); }

  // ---- membership

  // The worker of that id whose lease has run out though its link is still open: one that comes
  // back must not wait until its old link is seen to be dead. To be lost before HandleJoin.
  std::optional<LostWorker> FindExpiredNamesake(std::string_view worker_id, Instant now);
  // Welcomes the worker, or closes its link with the reason of Membership::Check.
  // `incarnation`: what the welcome says this coordinator is.
  void HandleJoin(const WorkerJoined& event, uint32_t incarnation, Instant now,
                  std::vector<Action>* actions);
  // Any frame of a worker renews its lease.
  void RenewLease(Worker* worker, Instant now) { worker->last_heard = now; }
  // DEADLINE_EXCEEDED: its executor is stuck. FAILED_PRECONDITION: its progress went back.
  // INVALID_ARGUMENT: times below 0, or an activity that is no line of text.
  absl::Status HandleBeat(Worker* worker, const v1::Beat& beat, Instant now);
  // For so long up to now nobody was heard, through no fault of the workers: see Stalled.
  void Forgive(Duration stall, Instant now);
  // The worker has left. Its pipeline, if it has one, is for the caller to end.
  void Remove(LinkKey link, Instant now);
  // The worker was told to stop: it is not chosen any more.
  void HandleLeaving(Worker* worker) {
    worker->leaving = true;
    may_form_ = true;
  }
  // An operator wants nothing of it any more, or wants it again; remembered for when it comes back.
  void SetDrained(Worker* worker, bool drained);
  // No lease runs out before. Leases renewed since the last UpdateLeasesUntil count as they were.
  Instant leases_until() const { return leases_until_; }
  // The workers whose leases have run out, in order of joining. The caller removes them all, and
  // then calls UpdateLeasesUntil.
  std::vector<LostWorker> FindExpired(Instant now);
  void UpdateLeasesUntil();

  // ---- the numerics class (fleet_class.cc)

  // The state of pipelines and streams: what the class depends on beside the workers.
  struct ClassUse {
    bool formed = false;   // some pipeline has workers
    bool live = false;     // some stream is bound to a pipeline, or has begun
    std::string begun_in;  // the class that streams go on in, of the first; empty: none has begun
  };
  // A worker is about to join: where nothing has formed and nothing lives, the class is open again.
  void OpenClass(const ClassUse& use, Instant now);
  // Chooses the class from all that have joined, until it is settled: when nobody has joined or
  // left for kJoinQuiet (kJoinWaitMax at most), or a stream lives. True: it is another now, and
  // pipelines that have formed must form anew.
  bool UpdateClass(const ClassUse& use, Instant now, std::vector<Action>* actions);
  bool ClassIsDue(Instant now) const { return class_due_ || now >= class_settles_at_; }
  // A worker has gone of a pipeline that served in the class: where it is chosen again, and all
  // that are there can compute it, it stays. Who has gone for a moment may know no other.
  void KeepClass() { class_kept_ = membership_.numerics_class(); }
  // The workers that cannot compute a settled class, and what they are told.
  std::vector<LostWorker> FindUnable();

  // ---- formations

  // A pipeline ended: its workers are idle again.
  void HandlePipelineEnd() { may_form_ = true; }
  // Whether Form may find something other than last time.
  bool FormingIsDue(Instant now) const { return may_form_ || now >= form_at_ || now >= grow_at_; }
  // The pipelines that have workers.
  struct FormedPipelines {
    bool any = false;  // the layout stays as it is
    bool any_reduced = false;
  };
  // Decides the layout where it is open and chooses workers for those that want them; with
  // --pipelines 0, for as many more as the idle workers allow. Chosen workers stay idle until their
  // pipeline takes them. One that has served and has lacked workers for options.reform_after is
  // made of those that are left, where the plan proves that they hold the model: its formation is
  // `reduced`. While there is such a one, idle workers wait for it to grow (CanGrow), and make no
  // more pipelines.
  FormingResult Form(const std::vector<WaitingPipeline>& waiting, const FormedPipelines& formed,
                     Instant now, std::vector<Action>* actions);
  // Whether a reduced pipeline of these workers could form whole with the idle ones, which have
  // been there for options.reform_after.
  bool CanGrow(const std::vector<Worker*>& workers, Instant now);
  // A reduced pipeline serves, so it may grow: who came while it loaded is looked at now.
  void HandleReducedServes() { may_form_ = true; }
  // Whether a pipeline could form of the idle workers and these, less those that leave.
  bool CanFormWith(const std::vector<Worker*>& workers, Instant now);
  // Whether a pipeline could form of the idle workers and these, less those that are slow; one of
  // fewer stages or ranks too.
  bool CanFormWithoutSlow(const std::vector<Worker*>& workers, Instant now);
  // The fate of the workers and links that were chosen.
  FaultMemory* faults() { return &faults_; }
  // An idle worker lets go of the shard of an earlier epoch, if it holds one.
  static void ReleaseShard(Worker* worker, std::vector<Action>* actions);

  // The earliest time at which FindExpired, FormingIsDue or ClassIsDue may answer otherwise though
  // nothing happens.
  Instant next_deadline() const {
    return std::min({leases_until_, form_at_, grow_at_, class_settles_at_});
  }
  // The layout chosen, and the idle workers.
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;

 private:
  Instant LeaseEnd(const Worker& worker) const;
  Instant ClassQuietAt() const;
  bool EnoughHaveJoined(Instant now);
  absl::Status DecideLayout(const std::vector<Offer>& offers, bool any_formed, Instant now,
                            std::vector<Action>* actions);
  // Offers of those that do not leave and do not pause; those that pause are named in *pausing.
  absl::StatusOr<std::vector<Offer>> UsableOffers(std::vector<Worker*> workers, Instant now,
                                                  std::string* pausing);
  bool LeavesSpares(const std::vector<Offer>& offers) const {
    return !layout_.shape().has_value() ||
           static_cast<int32_t>(offers.size()) >= layout_.shape()->num_workers + options_->spares;
  }
  bool CanForm(std::vector<Worker*> all, const std::vector<Worker*>& workers, Instant now);
  std::vector<Offer> SteadyOf(const std::vector<Offer>& offers, Instant now) const;
  absl::StatusOr<Formation> ChooseWorkers(std::vector<Offer>* offers, bool may_be_fewer,
                                          Instant now);
  absl::StatusOr<Formation> ChooseApart(const PipelineShape& shape,
                                        const std::vector<Offer>& offers, Instant now);
  absl::StatusOr<Formation> ChooseFewer(std::vector<Offer>* offers, Instant now);
  const FaultMemory::LinkFault* FindFault(const Formation& formation, Instant now,
                                          PlannedLink* link) const;
  FormingOutcome Accept(std::optional<PipelineId> pipeline, Formation formation);
  FormingOutcome Refuse(PipelineId pipeline, const absl::Status& why);
  FormingResult RefuseAll(const std::vector<WaitingPipeline>& waiting, const absl::Status& why);

  const EngineOptions* const options_;
  Membership membership_;
  DeviceNumbers numbers_;
  LayoutChoice layout_;
  FaultMemory faults_;
  std::set<std::string> drained_;  // worker ids; at most kDeviceNumbersMax
  Instant members_changed_at_{};
  std::optional<Instant> undecided_since_;  // that a layout waits for a quiet time
  std::string refusal_;                     // the last that was told as a Notice

  bool may_form_ = true;             // workers or pipelines changed since the last Form
  Instant form_at_ = kInstantNever;  // a pause ends, or the fleet has been quiet for long enough
  Instant grow_at_ = kInstantNever;  // CanGrow may answer otherwise
  Instant leases_until_ = kInstantNever;  // no lease runs out before

  bool class_due_ = false;  // workers or pipelines changed since the last UpdateClass
  std::string class_kept_;  // see KeepClass, or that was settled before; empty: none
  std::string class_told_;  // what the log said last
  Instant class_opened_at_{};
  Instant class_settles_at_ = kInstantNever;
};

}  // namespace tutti::coordinator
