// The sequences that may bring workers down: those that wait to be computed alone, the pipelines on
// which one is, and the requests that were given up.
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
#include "base/sip_hash.h"
#include "base/status.h"
#include "coordinator/requests/admission_target.h"
#include "coordinator/requests/poison_list.h"

namespace tutti::coordinator {

class Suspects {
 public:
  // `key`: see PoisonList.  REQUIRES: `targets` outlives this
  Suspects(const std::vector<AdmissionTarget>* targets, const Hash128& key)
      : targets_(targets), poisons_(key) {}

  // ---- those that wait, by arrival

  // REQUIRES: the sequence is bound to no pipeline
  void Wait(Sequence* sequence);
  // It ends. Whether it waited here.
  bool Erase(const Sequence& sequence);
  bool Holds(const Sequence& sequence) const { return waiting_.contains(sequence.arrival); }
  size_t waiting() const { return waiting_.size(); }
  // REQUIRES: waiting() > 0
  Sequence* first() const { return waiting_.begin()->second; }

  // ---- pipelines

  // Whether sequences that are no suspects may be bound to the pipeline.
  bool TakesOthers(size_t target) const {
    return (*targets_)[target].takes_new() && !alone_.contains(target) && kept_ != target;
  }
  // The pipeline on which the first will be alone, or waits for another to have been: that with
  // fewest sequences, of those that can hold it.
  std::optional<size_t> FindTarget() const;
  bool IsTaken(size_t target) const { return alone_.contains(target); }
  // The first leaves those that wait, and has the pipeline for itself.
  void Begin(size_t target);
  // The pipeline, if any, that takes nobody else because the first waits for it.
  void Keep(std::optional<size_t> target);
  // What was alone has a token, or has left its pipeline. Nothing if it was not.
  void LetOthersIn(const Sequence* alone);
  void LetOthersIn(size_t target);
  // Another number after every change of what TakesOthers says.
  uint64_t version() const { return version_; }

  // ---- requests that were given up

  // Whether a loss may be this sequence's doing. The last one counts only if no step under way had
  // anything else: one that has left meanwhile may still be in a step from before.
  static bool MayBeCause(const Sequence& sequence, const Scheduler& scheduler);
  // Each of its last losses came while a step with it was under way, the last while it was alone.
  // What its client is told.
  absl::Status GiveUp(const Sequence& sequence, const std::string& why, Instant now);
  // INTERNAL: one like it was given up lately.
  absl::Status Check(const Request& request, std::span<const TokenId> prompt, Instant now) const;

 private:
  const std::vector<AdmissionTarget>* const targets_;
  std::map<uint64_t, Sequence*> waiting_;
  std::map<size_t, const Sequence*> alone_;  // by target
  std::optional<size_t> kept_;
  uint64_t version_ = 0;
  PoisonList poisons_;
};

}  // namespace tutti::coordinator
