// The sequences that may have brought workers down: the losses whose cause is not known yet, the
// sequences that wait to be computed alone and those that are, and the requests that were given up.
//
// A worker that is lost has died, or has only been cut off. Which of the two is known when it joins
// again, as another process or as the same; one that failed of itself has said so. Until then the
// sequences whose rows were under way are accused, no more (suspicion.h): they go on at once, and
// none is given up for what is not known (docs/decisions/0077-guilt.md).
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "coordinator/requests/admission_target.h"
#include "coordinator/requests/poison_list.h"

namespace tutti::coordinator {

// How a pipeline lost a worker.
enum class LossCause {
  kNobody,  // it lost none, or one that was told to go
  kClosed,  // its link closed: the process has ended, or the link was cut
  kSilent,  // nothing was heard of it, or it did not get on: it stands still, or is cut off
  kFailed,  // it failed of itself, or its executor is stuck
};

// What is known of a loss.
struct LossFinding {
  uint64_t loss = 0;
  bool died = false;               // the worker's process
  std::string why;                 // it was lost
  std::vector<RequestId> accused;  // in the order of their running; some may have ended
};
// A loss whose cause is not known.
struct OpenLoss {
  LossFinding finding;
  Instant until;
  bool silent = false;
};

class Suspects {
 public:
  // `key`: see PoisonList.  REQUIRES: `targets` outlives this
  Suspects(const std::vector<AdmissionTarget>* targets, const Hash128& key)
      : targets_(targets), poisons_(key) {}

  // ---- losses

  // A loss of this worker, of which sequences are accused next. None for kNobody.
  std::optional<uint64_t> BeginLoss(LossCause cause, const std::string& worker,
                                    const std::string& why, Instant now);
  // Accuses the sequence if the loss may be its doing. One that is suspected already is judged by
  // steps in which nothing was computed beside it: one that has left meanwhile may still be in a
  // step from before.  REQUIRES: the loss is the last that began; the scheduler's epoch is open
  void Accuse(uint64_t loss, Sequence* sequence, const Scheduler& scheduler);

  // A worker has joined. `same_process`: the one that was lost; else it has been started again.
  std::optional<LossFinding> OnJoined(const std::string& worker, bool same_process);
  // Workers that have not come back within kVerdictPatience: a process that lives dials at once, so
  // whose link had closed has died; of the others nothing is known.
  std::vector<LossFinding> FindOverdue(Instant now);
  // For so long nobody was heard, through no fault of the workers: see Stalled.
  void Forgive(Duration stall);
  // FindOverdue finds nothing before.
  Instant next_deadline() const;

  // ---- those that wait, by arrival

  // REQUIRES: the sequence is bound to no pipeline
  void Wait(Sequence* sequence);
  // It ends, or is no suspect any more. Whether it waited here.
  bool Erase(const Sequence& sequence);
  bool Holds(const Sequence& sequence) const { return waiting_.contains(sequence.arrival); }
  size_t waiting() const { return waiting_.size(); }
  // The first for which nothing is to be found out before it is computed; null: none.
  Sequence* Next() const;
  // What is known of one that waits has changed.
  void Reconsider() { ++version_; }

  // ---- pipelines

  // Whether sequences that are no suspects may be bound to the pipeline.
  bool TakesOthers(size_t target) const {
    return (*targets_)[target].takes_new() && !IsTaken(target) && kept_ != target;
  }
  // The pipeline on which the next will be alone, or waits for another to have been: that with
  // fewest sequences, of those that can hold it.
  std::optional<size_t> FindTarget() const;
  bool IsTaken(size_t target) const { return (*targets_)[target].scheduler->alone() != nullptr; }
  // The sequence leaves those that wait, and has the pipeline for itself.
  void Begin(Sequence* sequence, size_t target);
  // The pipeline, if any, that takes nobody else because the next waits for it.
  void Keep(std::optional<size_t> target);
  // What is alone there is so no more: it has a token, is no suspect, or has left.
  void LetOthersIn(size_t target);
  bool IsAlone(const Sequence& sequence) const {
    return sequence.pipeline >= 0 &&
           (*targets_)[static_cast<size_t>(sequence.pipeline)].scheduler->alone() == &sequence;
  }
  // The pipelines on which what is alone is no suspect any more: its rows were computed.
  std::vector<size_t> FindCleared() const;
  // Another number after every change of what TakesOthers, FindTarget and Next say.
  uint64_t version() const { return version_; }

  // ---- requests that were given up

  // What the client of a guilty sequence is told; `why` its last loss came. Requests like it are
  // refused when a second has been given up.
  absl::Status GiveUp(const Sequence& sequence, const std::string& why, Instant now);
  // INTERNAL: two like it were given up lately.
  absl::Status Check(const Request& request, std::span<const TokenId> prompt, Instant now) const;

 private:
  const std::vector<AdmissionTarget>* const targets_;
  uint64_t last_loss_ = 0;
  // The loss that began last: its worker, and what it will be if anybody is accused of it. None:
  // its cause is known.
  std::optional<std::pair<std::string, OpenLoss>> begun_;
  // Losses whose cause is not known, of which somebody is accused, by worker.
  std::map<std::string, OpenLoss> open_;
  std::map<uint64_t, Sequence*> waiting_;
  size_t trials_ = 0;  // pipelines on which one is alone
  std::optional<size_t> kept_;
  uint64_t version_ = 0;
  PoisonList poisons_;
};

}  // namespace tutti::coordinator
