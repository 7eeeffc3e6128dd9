// The requests taken and not ended yet, their deadlines, and the counters of an operator's view.
// Owns the sequences.
//
// Every request taken ends here exactly once.  Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/events.h"
#include "coordinator/sequence.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class RequestTable {
 public:
  // REQUIRES: the request's id is new. The pointer stays good until Finish.
  Sequence* Add(Request request, Instant now);
  Sequence* Find(RequestId id) const;  // null when unknown or ended
  size_t size() const { return sequences_.size(); }

  // Tells the client the end and forgets the sequence. `status` is not OK exactly when `cause` is
  // kError.
  void Finish(Sequence* sequence, FinishCause cause, absl::Status status,
              std::vector<Action>* actions);
  // Ends a request that was never added.
  void Refuse(const Request& request, absl::Status status, std::vector<Action>* actions);
  void CountGenerated(int64_t tokens) { generated_tokens_ += tokens; }

  // Requests in order of arrival.
  std::vector<Sequence*> All() const;
  // The sequences with a deadline at or before `now`, earliest first.
  std::vector<Sequence*> Expired(Instant now) const;
  Instant next_deadline() const;

  // The ends that made room: those who gave way to others made none.
  uint64_t places_freed() const {
    return finished_ + cancelled_ + deadline_exceeded_ + failed_ - gave_way_;
  }

  void FillCounters(v1::RequestCounters* counters) const;

 private:
  // Found by id only, never walked.
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::map<uint64_t, Sequence*> by_arrival_;
  std::set<std::pair<Instant, RequestId>> deadlines_;
  uint64_t arrivals_ = 0;
  uint64_t finished_ = 0;
  uint64_t cancelled_ = 0;
  uint64_t failed_ = 0;
  uint64_t refused_ = 0;
  uint64_t deadline_exceeded_ = 0;
  uint64_t invalid_ = 0;
  uint64_t gave_way_ = 0;  // of failed_
  uint64_t prompt_tokens_ = 0;
  uint64_t generated_tokens_ = 0;
  uint64_t resumed_ = 0;
};

}  // namespace tutti::coordinator
