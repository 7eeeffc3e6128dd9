// The choice of newcomers: whether there is room for a sequence, which of those that wait is next,
// and which of those that run give way to it.
#include <algorithm>

#include "base/check.h"
#include "base/fail_point.h"
#include "coordinator/steps/scheduler.h"

namespace tutti::coordinator {

// Blocks that running sequences and those that go before a newcomer leave for it; none when all
// places are taken.
std::optional<int64_t> Scheduler::BlocksLeft(const Request& request) const {
  const PlaceShares::Demand others = shares_.DemandBefore(request);
  const int64_t sequences = running() + others.sequences;
  if (sequences >= options_.max_sequences) return std::nullopt;
  return cache_.available() - sequences - others.blocks;
}

// Whether it is the next to come in, and others may give way to it.
bool Scheduler::MayTakeAPlace(const Request& request) const {
  return shares_.AnyGivesWay(request) && shares_.DemandBefore(request).sequences == 0;
}

bool Scheduler::MayHaveRoom(const Sequence& sequence) const {
  const std::optional<int64_t> left = BlocksLeft(sequence.request);
  if (left.has_value() &&
      cache_.Missing(sequence, sequence.total()) - SharedMax(sequence) <= *left) {
    return true;
  }
  return MayTakeAPlace(sequence.request);
}

bool Scheduler::HasRoom(const Sequence& sequence, int64_t cached_tokens) const {
  const std::optional<int64_t> left = BlocksLeft(sequence.request);
  if (left.has_value()) {
    const int64_t wanted = cache_.Missing(sequence, sequence.total());
    if (wanted <= *left) return true;
    // A cached prefix makes room only as far as other sequences hold it too.
    const bool may = wanted - cached_tokens / options_.block_size <= *left;
    if (may && cache_.Find(sequence).blocks <= *left) return true;
  }
  return MayTakeAPlace(sequence.request) &&
         FindGivingWay(sequence, cache_.Find(sequence)).has_value();
}

// The first needs the blocks of its prompt; the others share the full ones as soon as the first has
// computed them, and need the rest and one to grow into.
int64_t Scheduler::OutputsWithRoom(const Sequence& sequence, int64_t cached_tokens,
                                   int64_t outputs) const {
  if (!HasRoom(sequence, cached_tokens)) return 0;
  const std::optional<int64_t> left = BlocksLeft(sequence.request);
  if (!left.has_value()) return 1;  // where another gives way
  const int64_t places =
      options_.max_sequences - running() - shares_.DemandBefore(sequence.request).sequences;
  const int64_t own = cache_.Missing(sequence, sequence.total()) - SharedMax(sequence);
  const int64_t spare = std::max<int64_t>(0, *left - cache_.Find(sequence).blocks);
  return std::min({outputs, places, 1 + spare / (own + 1)});
}

// A newcomer gets the blocks of all its tokens at once, so that no prompt gets stuck half way, and
// leaves one for each of the running to grow into, so that it is not sent away again by their next
// few tokens. A sequence that is held back may be overtaken. One that lacks blocks may not; one
// that lacks a place is overtaken only by those of other owners to which their own gives way.
std::optional<Scheduler::Newcomer> Scheduler::FindNewcomer() {
  using Next = PlaceShares::Next;
  std::optional<Newcomer> found;
  const bool is_full = running() >= options_.max_sequences;
  shares_.VisitWaiting([&](Sequence* sequence) {
    const auto filling = filling_.find(sequence->held_back.by);
    if (filling != filling_.end() &&
        filling->second->stay.published < sequence->held_back.until_published) {
      return Next::kSequence;
    }
    if (is_full && !shares_.AnyGivesWay(sequence->request)) return Next::kOwner;
    Newcomer newcomer{.sequence = sequence, .room = cache_.Find(*sequence)};
    if (IsHeldBack(sequence, newcomer.room)) return Next::kSequence;
    if (is_full || newcomer.room.blocks + running() > cache_.available()) {
      std::optional<std::vector<Sequence*>> giving_way = FindGivingWay(*sequence, newcomer.room);
      if (!giving_way.has_value()) return Next::kStop;
      newcomer.giving_way = *std::move(giving_way);
    }
    found = std::move(newcomer);
    return Next::kStop;
  });
  return found;
}

// Sequences, as many as it takes for the sequence's place and blocks; none if all that may give way
// are too few.
std::optional<std::vector<Sequence*>> Scheduler::FindGivingWay(const Sequence& sequence,
                                                               const KvCache::Room& room) const {
  if (TUTTI_FAIL_POINT("coordinator.keep_places")) return std::nullopt;
  std::vector<Sequence*> giving_way;
  int64_t available = cache_.available();
  bool enough = false;
  shares_.VisitGivingWay(sequence.request, [&](Sequence* one) {
    giving_way.push_back(one);
    available += cache_.GivenBack(*one, room);
    const int64_t left = running() - static_cast<int64_t>(giving_way.size());
    enough = left < options_.max_sequences && room.blocks + left <= available;
    return !enough;
  });
  if (!enough) return std::nullopt;
  return giving_way;
}

// Counted anew, not from shares_. While a lost stage is computed again nobody comes in.
std::vector<RequestId> Scheduler::Outranked() {
  std::vector<RequestId> outranked;
  if (!open_ || running() < options_.max_sequences) return outranked;
  if (!backlog_.behind().empty() || rebuilds_.size() > 0) return outranked;
  for (const auto& [key, waits] : backlog_.waiting()) {
    const KvCache::Room room = cache_.Find(*waits);
    if (room.blocks + running() > cache_.available() || IsHeldBack(waits, room)) continue;
    const Request& own = waits->request;
    // Counts of the same class: running sequences of each owner, and of each request of this
    // owner.
    std::map<std::pair<uint64_t, uint64_t>, int32_t> owners;
    std::map<RequestId, int32_t> requests;
    for (const auto& [running_key, one] : running_) {
      const Request& other = one->request;
      if (other.priority != own.priority) continue;
      ++owners[{other.owner.high, other.owner.low}];
      if (other.owner == own.owner) ++requests[other.of()];
    }
    const int32_t of_owner = owners[{own.owner.high, own.owner.low}];
    const int32_t of_request = requests[own.of()];
    const bool is_outranked =
        std::any_of(owners.begin(), owners.end(),
                    [&](const auto& one) { return one.second >= of_owner + kPlacesAhead; }) ||
        std::any_of(requests.begin(), requests.end(),
                    [&](const auto& one) { return one.second >= of_request + kPlacesAhead; });
    if (is_outranked) outranked.push_back(own.id);
  }
  return outranked;
}

// Whether a running sequence is about to publish more of this one's blocks than are cached.
bool Scheduler::IsHeldBack(Sequence* sequence, const KvCache::Room& room) {
  if (!cache_.reuses()) return false;
  for (const auto& [id, running] : filling_) {
    const int32_t shared = cache_.SharedBlocks(*sequence, *running);
    if (shared <= static_cast<int32_t>(room.prefix.size()) || shared <= running->stay.published) {
      continue;
    }
    sequence->held_back = {.by = id, .until_published = shared};
    return true;
  }
  return false;
}

void Scheduler::Admit(Newcomer newcomer, int32_t rows_max) {
  Sequence* const sequence = newcomer.sequence;
  for (Sequence* one : newcomer.giving_way) Preempt(one);
  // Blocks that they shared with it are idle now.
  if (!newcomer.giving_way.empty()) newcomer.room = cache_.Find(*sequence);
  Unwait(sequence);
  sequence->stay = {.id = SequenceId(++last_sequence_id_)};
  running_.emplace(sequence->preemption_key(), sequence);
  running_by_id_.emplace(sequence->stay.id, sequence);
  shares_.Run(sequence);
  one_behind_.Run(sequence);
  cache_.Admit(newcomer.room, sequence);
  sequence->stay.draft_read = sequence->stay.planned;  // most who have drafts had them before
  filling_.emplace(sequence->stay.id, sequence);
  if (cache_.FirstDue(*sequence).has_value()) return rebuilds_.Add(sequence);
  if (sequence->behind() > 1) Queue(sequence);  // its one token is scheduled here and now
  const int32_t most =
      std::min({sequence->behind(), scratch_.chunk, scratch_.budget, rows_max, RowsMax(*sequence)});
  const int32_t count = time_.RowsInTime(sequence->stay.planned, sequence->behind(), most);
  if (count < most) scratch_.out_of_time = true;
  SchedulePrompt(sequence, std::max(count, 1));
}

}  // namespace tutti::coordinator
