#include "coordinator/steps/place_shares.h"

#include <iterator>

#include "base/check.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

// The second half of a member's key, among those that wait and among those that run.
uint64_t FirstPlace(const std::map<uint64_t, Sequence*>& waiting) { return waiting.begin()->first; }
uint64_t LastArrival(const std::map<uint64_t, Sequence*>& runs) { return runs.rbegin()->first; }
template <typename Member>
uint64_t FirstPlace(const std::map<std::pair<int32_t, uint64_t>, Member*>& waiting) {
  return waiting.begin()->first.second;
}
template <typename Member>
uint64_t LastArrival(const std::map<std::pair<int32_t, uint64_t>, Member*>& runs) {
  return runs.rbegin()->first.second;
}

template <typename Member>
int32_t GivenBy(const std::map<const Member*, int32_t>& given, const Member* member) {
  const auto found = given.find(member);
  return found == given.end() ? 0 : found->second;
}

PlaceShares::Demand& operator+=(PlaceShares::Demand& sum, const PlaceShares::Demand& more) {
  sum.sequences += more.sequences;
  sum.blocks += more.blocks;
  return sum;
}

PlaceShares::Demand operator-(const PlaceShares::Demand& demand) {
  return {-demand.sequences, -demand.blocks};
}

}  // namespace

// Takes a member out of the orders and sums of what it belongs to while it changes.
template <typename Member, typename Holder>
void PlaceShares::TakeOutOf(Member* member, Holder* owner) {
  if (!member->waiting.empty()) {
    owner->waiting.erase({member->running, FirstPlace(member->waiting)});
    const auto sum = owner->demand_by_running.find(member->running);
    sum->second += -member->demand;
    if (sum->second.sequences == 0) owner->demand_by_running.erase(sum);
  }
  if (!member->runs.empty()) owner->runs.erase({member->running, LastArrival(member->runs)});
}

// Puts it back.
template <typename Member, typename Holder>
void PlaceShares::PutBack(Member* member, Holder* owner) {
  if (!member->waiting.empty()) {
    owner->waiting.emplace(std::pair(member->running, FirstPlace(member->waiting)), member);
    owner->demand_by_running[member->running] += member->demand;
  }
  if (!member->runs.empty()) {
    owner->runs.emplace(std::pair(member->running, LastArrival(member->runs)), member);
  }
}

PlaceShares::Demand PlaceShares::UpTo(int32_t running, const DemandByRunning& demand) {
  Demand sum;
  for (auto at = demand.begin(); at != demand.end() && at->first <= running; ++at) {
    sum += at->second;
  }
  return sum;
}

void PlaceShares::Count(Move move, const Demand& demand, int32_t* running, Demand* sum) {
  if (move == Move::kRun) ++*running;
  if (move == Move::kStop) --*running;
  if (move == Move::kWait) *sum += demand;
  if (move == Move::kUnwait) *sum += -demand;
}

void PlaceShares::Change(Sequence* sequence, Move move) {
  const auto in = classes_.try_emplace(sequence->request.priority).first;
  const auto owner = in->second.owners.try_emplace(sequence->request.owner_id()).first;
  const auto outputs = owner->second.requests.try_emplace(sequence->request.of()).first;
  TakeOutOf(&owner->second, &in->second);
  TakeOutOf(&outputs->second, &owner->second);

  Outputs& own = outputs->second;
  const bool waits = move == Move::kWait || move == Move::kUnwait;
  std::map<uint64_t, Sequence*>& members = waits ? own.waiting : own.runs;
  const uint64_t key = waits ? sequence->place : sequence->arrival;
  const bool comes = move == Move::kWait || move == Move::kRun;
  const int32_t before = own.running;
  CHECK(comes ? members.emplace(key, sequence).second : members.erase(key) == 1)
      << "request " << sequence->request.id;
  const Demand demand{1, (int64_t{sequence->total()} + block_size_ - 1) / block_size_};
  Count(move, demand, &own.running, &own.demand);
  Count(move, demand, &owner->second.running, &owner->second.demand);
  int32_t ignored = 0;
  Count(move, demand, &ignored, &in->second.demand);
  requests_running_ += (own.running > 0 ? 1 : 0) - (before > 0 ? 1 : 0);

  PutBack(&own, &owner->second);
  if (own.waiting.empty() && own.runs.empty()) owner->second.requests.erase(outputs);
  PutBack(&owner->second, &in->second);
  if (owner->second.requests.empty()) in->second.owners.erase(owner);
  if (in->second.owners.empty()) classes_.erase(in);
}

PlaceShares::Demand PlaceShares::DemandBefore(const Request& request) const {
  Demand sum;
  auto in = classes_.begin();
  for (; in != classes_.end() && in->first < request.priority; ++in) sum += in->second.demand;
  if (in == classes_.end() || in->first > request.priority) return sum;
  const auto found = in->second.owners.find(request.owner_id());
  const Owner* const own = found == in->second.owners.end() ? nullptr : &found->second;
  sum += UpTo(own == nullptr ? 0 : own->running, in->second.demand_by_running);
  if (own == nullptr) return sum;
  // Among the owners is its own, of which only some requests go before it.
  if (!own->waiting.empty()) sum += -own->demand;
  const auto outputs = own->requests.find(request.of());
  sum += UpTo(outputs == own->requests.end() ? 0 : outputs->second.running, own->demand_by_running);
  return sum;
}

void PlaceShares::VisitWaiting(absl::FunctionRef<Next(Sequence*)> visit) const {
  for (const auto& [priority, in] : classes_) {
    for (const auto& [key, owner] : in.waiting) {
      if (VisitOwner(*owner, visit) == Next::kStop) return;
    }
  }
}

PlaceShares::Next PlaceShares::VisitOwner(const Owner& owner,
                                          absl::FunctionRef<Next(Sequence*)> visit) {
  for (const auto& [key, outputs] : owner.waiting) {
    for (const auto& [place, sequence] : outputs->waiting) {
      const Next next = visit(sequence);
      if (next != Next::kSequence) return next;
    }
  }
  return Next::kOwner;
}

// The one that would run most without what is given already; null: none runs.
template <typename Member>
const Member* PlaceShares::MostOf(const std::map<Key, Member*>& runs, const Given<Member>& given,
                                  const Member* but) {
  const Member* most = nullptr;
  int32_t running = 0;
  for (auto at = runs.rbegin(); at != runs.rend() && at->first.first > running; ++at) {
    const int32_t left = at->first.first - GivenBy(given, static_cast<const Member*>(at->second));
    if (at->second == but || left <= running) continue;
    most = at->second;
    running = left;
  }
  return most;
}

void PlaceShares::VisitGivingWay(const Request& newcomer,
                                 absl::FunctionRef<bool(Sequence*)> visit) const {
  const Owner* own = nullptr;
  const Outputs* own_outputs = nullptr;
  if (const auto in = classes_.find(newcomer.priority); in != classes_.end()) {
    const auto owner = in->second.owners.find(newcomer.owner_id());
    if (owner != in->second.owners.end()) {
      own = &owner->second;
      const auto outputs = own->requests.find(newcomer.of());
      if (outputs != own->requests.end()) own_outputs = &outputs->second;
    }
  }
  Given<Owner> by_owner;
  Given<Outputs> by_request;
  const auto give = [&](const Owner* owner, const Outputs* outputs) {
    ++by_owner[owner];
    const int32_t before = by_request[outputs]++;
    return visit(std::next(outputs->runs.rbegin(), before)->second);
  };
  const int32_t enough = (own == nullptr ? 0 : own->running) + kPlacesAhead;
  for (auto in = classes_.rbegin(); in != classes_.rend() && in->first >= newcomer.priority; ++in) {
    const Owner* const but = in->first == newcomer.priority ? own : nullptr;
    for (;;) {
      const Owner* const most = MostOf(in->second.runs, by_owner, but);
      if (most == nullptr || most->running - GivenBy(by_owner, most) < enough) break;
      if (!give(most, MostOf(most->runs, by_request, static_cast<const Outputs*>(nullptr)))) return;
    }
  }
  if (own == nullptr) return;
  const int32_t enough_in_owner =
      (own_outputs == nullptr ? 0 : own_outputs->running) + kPlacesAhead;
  for (;;) {
    const Outputs* const most = MostOf(own->runs, by_request, own_outputs);
    if (most == nullptr || most->running - GivenBy(by_request, most) < enough_in_owner) return;
    if (!give(own, most)) return;
  }
}

bool PlaceShares::AnyGivesWay(const Request& newcomer) const {
  bool any = false;
  VisitGivingWay(newcomer, [&any](Sequence*) {
    any = true;
    return false;
  });
  return any;
}

Sequence* PlaceShares::FirstToGo() const {
  for (auto in = classes_.rbegin(); in != classes_.rend(); ++in) {
    if (in->second.runs.empty()) continue;
    const Owner* const owner = in->second.runs.rbegin()->second;
    return owner->runs.rbegin()->second->runs.rbegin()->second;
  }
  CHECK(false) << "no sequence runs";
  return nullptr;
}

}  // namespace tutti::coordinator
