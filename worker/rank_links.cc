#include "worker/rank_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti {
namespace {

// The ranks that `rank` exchanges with.
std::vector<int> PartnersOf(int rank, int ranks) {
  std::vector<int> partners;
  for (int distance = 1; distance < ranks; distance *= 2) partners.push_back(rank ^ distance);
  return partners;
}

}  // namespace

RankLinks::RankLinks(LinkContext* context, const PeerTable* peers, AcceptedLinks* accepted,
                     const Clock* clock, Wait wait)
    : context_(context),
      peers_table_(peers),
      accepted_(accepted),
      clock_(clock),
      wait_(std::move(wait)) {}

std::vector<AcceptedLinks::Expected> RankLinks::ExpectedOf(const v1::AssignShard& shard) {
  std::vector<AcceptedLinks::Expected> expected;
  for (const int rank : PartnersOf(shard.rank(), shard.num_ranks())) {
    if (rank < shard.rank()) {
      expected.push_back({v1::LINK_PURPOSE_COLLECTIVE, shard.rank_worker_ids(rank)});
    }
  }
  return expected;
}

absl::Status RankLinks::Begin(Epoch epoch, const v1::AssignShard& shard, size_t first_index,
                              Duration patience, Instant now) {
  End();
  epoch_ = epoch;
  patience_ = patience;
  for (const int rank : PartnersOf(shard.rank(), shard.num_ranks())) {
    Peer& peer = peers_.emplace_back();
    peer.rank = rank;
    peer.worker_id = shard.rank_worker_ids(rank);
    if (rank < shard.rank()) {
      peer.accepted_index = first_index++;
      continue;
    }
    peer.dialled =
        std::make_unique<DialledLink>(context_, peers_table_, v1::LINK_PURPOSE_COLLECTIVE);
    TUTTI_RETURN_IF_ERROR(peer.dialled->Begin(epoch, peer.worker_id, now));
  }
  return absl::OkStatus();
}

void RankLinks::End() {
  epoch_ = Epoch();
  peers_.clear();
}

bool RankLinks::IsUp(const Peer& peer) const {
  return peer.dialled != nullptr ? peer.dialled->is_up() : accepted_->is_up(peer.accepted_index);
}

bool RankLinks::ready() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const Peer& peer) { return peer.was_up || IsUp(peer); });
}

absl::Status RankLinks::Tick(Instant now) {
  for (Peer& peer : peers_) {
    peer.was_up |= IsUp(peer);
    if (peer.dialled != nullptr) TUTTI_RETURN_IF_ERROR(peer.dialled->Tick(now));
    if (now >= peer.give_up) {
      peer.give_up = kInstantNever;
      return WhyBroken(peer);
    }
  }
  return absl::OkStatus();
}

Instant RankLinks::next_wake() const {
  Instant wake = kInstantNever;
  for (const Peer& peer : peers_) {
    wake = std::min(wake, peer.give_up);
    if (peer.dialled != nullptr) wake = std::min(wake, peer.dialled->next_wake());
  }
  return wake;
}

bool RankLinks::TakeDialledFrame(LinkId link, v1::Frame* frame, Payload* payload, Instant now) {
  for (Peer& peer : peers_) {
    if (peer.dialled == nullptr || !peer.dialled->Is(link)) continue;
    if (peer.dialled->TakeFrame(*frame, now)) Keep(&peer, frame, payload);
    return true;
  }
  return false;
}

bool RankLinks::TakeDialledClosed(LinkId link, const absl::Status& reason, Instant now) {
  for (Peer& peer : peers_) {
    if (peer.dialled == nullptr || !peer.dialled->Is(link)) continue;
    // Before it was up, it is dialled again.
    if (peer.was_up || peer.dialled->is_up()) Break(&peer, reason, now);
    peer.dialled->OnClosed(reason, now);
    return true;
  }
  return false;
}

RankLinks::Peer* RankLinks::PeerAt(size_t accepted_index) {
  for (Peer& peer : peers_) {
    if (peer.dialled == nullptr && peer.accepted_index == accepted_index) return &peer;
  }
  return nullptr;
}

bool RankLinks::TakeAcceptedFrame(size_t index, v1::Frame* frame, Payload* payload) {
  Peer* const peer = PeerAt(index);
  if (peer == nullptr) return false;
  Keep(peer, frame, payload);
  return true;
}

bool RankLinks::TakeAcceptedClosed(size_t index, const absl::Status& reason, Instant now) {
  Peer* const peer = PeerAt(index);
  if (peer == nullptr) return false;
  Break(peer, reason, now);
  return true;
}

// A rank is at most one exchange ahead of us.
void RankLinks::Keep(Peer* peer, v1::Frame* frame, Payload* payload) {
  if (Epoch(frame->epoch()) != epoch_) return;
  peer->was_up = true;
  if (peer->inbox.size() >= kMailboxFramesMax) {
    return Break(peer, absl::ResourceExhaustedError("it sends more than anybody asked for"),
                 clock_->Now());
  }
  peer->inbox.push_back({std::move(*frame), std::move(*payload)});
}

void RankLinks::Break(Peer* peer, const absl::Status& reason, Instant now) {
  if (peer->closed.has_value()) return;
  peer->closed = reason.ok() ? absl::UnavailableError("it closed the link") : reason;
  peer->give_up = now + kBrokenLinkGrace;
}

absl::Status RankLinks::WhyBroken(const Peer& peer) const {
  return absl::UnavailableError(absl::StrCat("the collective link to ", NameOf(peer.rank),
                                             " broke: ", peer.closed->ToString()));
}

void RankLinks::Send(int rank, v1::Frame frame, Payload payload) {
  for (Peer& peer : peers_) {
    if (peer.rank != rank) continue;
    if (peer.dialled != nullptr) {
      peer.dialled->Send(std::move(frame), std::move(payload));
    } else {
      accepted_->Send(peer.accepted_index, std::move(frame), std::move(payload));
    }
    return;
  }
  CHECK(false) << "rank " << rank << " is no partner";
}

absl::StatusOr<RankPort::Received> RankLinks::Receive(int rank) {
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& peer) { return peer.rank == rank; });
  CHECK(found != peers_.end()) << "rank " << rank << " is no partner";
  Peer& peer = *found;
  const Instant deadline = clock_->Now() + patience_;
  absl::Status status;
  while (status.ok() && peer.inbox.empty()) {
    const Instant now = clock_->Now();
    if (now >= peer.give_up) {
      status = WhyBroken(peer);
    } else if (now >= deadline) {
      status = absl::DeadlineExceededError(
          absl::StrCat("nothing came from ", NameOf(rank), " for ",
                       static_cast<int64_t>(Milliseconds(patience_)), " ms"));
    } else {
      waiting_for_ = peer.worker_id;
      status = wait_(std::min(peer.give_up, deadline));
      waiting_for_.clear();
    }
  }
  TUTTI_RETURN_IF_ERROR(status);
  Received received = std::move(peer.inbox.front());
  peer.inbox.pop_front();
  return received;
}

std::string RankLinks::NameOf(int rank) const {
  for (const Peer& peer : peers_) {
    if (peer.rank == rank) return absl::StrCat("rank ", rank, " (", peer.worker_id, ")");
  }
  return absl::StrCat("rank ", rank);
}

}  // namespace tutti
