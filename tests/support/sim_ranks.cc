#include "tests/support/sim_ranks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti::tests {

void SimRanks::Begin(uint64_t epoch, const v1::AssignShard& shard) {
  End(/*lose=*/false);
  epoch_ = epoch;
  stage_ = shard.stage();
  rank_ = shard.rank();
  steps_ = 0;
  if (!options_->oracle_bugs.stale_exchange) {
    std::erase_if(heard_, [&](const SimRankFrame& frame) { return frame.epoch < epoch; });
  }
  for (int32_t distance = 1; distance < shard.num_ranks(); distance *= 2) {
    Partner& partner = partners_.emplace_back();
    partner.rank = rank_ ^ distance;
    partner.peer = find_(shard.rank_worker_ids(partner.rank));
    partner.incarnation = partner.peer->incarnation();
    partner.pipe = std::make_unique<SimPipe>(queue_, random_, options_->link);
  }
}

void SimRanks::End(bool lose) {
  for (Partner& partner : partners_) partner.pipe->Close(lose, [] {});
  partners_.clear();
  step_.reset();
}

void SimRanks::BeginStep(uint64_t digest) {
  ++steps_;
  step_ = {.digest = digest};
}

bool SimRanks::GoOn() {
  if (!step_.has_value()) return true;
  for (; step_->next < partners_.size(); ++step_->next) {
    Partner& partner = partners_[step_->next];
    if (!step_->told) Tell(&partner);
    if (!Hear(partner)) return false;
    step_->told = false;
  }
  step_.reset();
  return true;
}

void SimRanks::Tell(Partner* partner) {
  step_->told = true;
  step_->since = queue_->now();
  ++exchanges_;
  const SimRankFrame frame{.epoch = epoch_, .from = rank_, .step = steps_, .digest = step_->digest};
  partner->pipe->Send([peer = partner->peer, incarnation = partner->incarnation, frame] {
    peer->OnRankFrame(incarnation, frame);
  });
}

// Whether it has told us about this step. It may be one exchange ahead of us, never more.
bool SimRanks::Hear(const Partner& partner) {
  const auto found = std::find_if(heard_.begin(), heard_.end(), [&](const SimRankFrame& frame) {
    return frame.from == partner.rank &&
           (frame.epoch == epoch_ || options_->oracle_bugs.stale_exchange);
  });
  if (found == heard_.end()) return false;
  if (found->step != steps_ || found->digest != step_->digest) {
    fail_(absl::StrCat("stage ", stage_, ", epoch ", epoch_, ": step ", steps_, " of rank ", rank_,
                       " is not step ", found->step, " of rank ", partner.rank));
  }
  heard_.erase(found);
  return true;
}

const SimRankPeer* SimRanks::waiting_for() const {
  return step_.has_value() && step_->told ? partners_[step_->next].peer : nullptr;
}

// A frame that comes before our own epoch begins is kept for it.
void SimRanks::OnFrame(const SimRankFrame& frame) {
  if (frame.epoch < epoch_ && !options_->oracle_bugs.stale_exchange) return;
  heard_.push_back(frame);
}

SimRankPeer* SimRanks::CutLink() {
  if (partners_.empty()) return nullptr;
  Partner& partner = partners_[random_->Between(0, static_cast<int64_t>(partners_.size()) - 1)];
  partner.pipe->Swallow();
  return partner.peer;
}

}  // namespace tutti::tests
