#include "worker/links/rank_links.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

// The ranks that `rank` exchanges with.
std::vector<int> PartnersOf(int rank, int ranks) {
  std::vector<int> partners;
  for (int distance = 1; distance < ranks; distance *= 2) partners.push_back(rank ^ distance);
  return partners;
}

absl::Status SendsTooMuch() {
  return absl::ResourceExhaustedError("it sends more frames than its exchanges have");
}

transport::Payload CopyOf(const transport::Payload& payload) {
  const auto bytes = std::make_shared<std::vector<std::byte>>();
  for (const auto& chunk : payload.chunks) bytes->insert(bytes->end(), chunk.begin(), chunk.end());
  return {.chunks = {*bytes}, .owner = bytes};
}

}  // namespace

RankLinks::RankLinks(LinkContext* context, const PeerFinder* peers, const Clock* clock,
                     std::string memory_folder, Wait wait)
    : context_(context),
      peer_finder_(peers),
      clock_(clock),
      memory_folder_(std::move(memory_folder)),
      wait_(std::move(wait)) {}

std::vector<AcceptedLink*> RankLinks::Begin(Epoch epoch, const v1::AssignShard& shard,
                                            Duration patience) {
  End();
  epoch_ = epoch;
  patience_ = patience;
  if (shard.num_ranks() > 1) SweepMemory();
  std::vector<AcceptedLink*> expected;
  for (const int rank : PartnersOf(shard.rank(), shard.num_ranks())) {
    Peer& peer = peers_.emplace_back();
    peer.rank = rank;
    const std::string& worker_id = shard.rank_worker_ids(rank);
    if (rank > shard.rank()) {
      PrepareDial(worker_id, &peer);
    } else {
      expected.push_back(Expect(worker_id, &peer));
    }
  }
  return expected;
}

AcceptedLink* RankLinks::Expect(const std::string& worker_id, Peer* peer) {
  auto link = std::make_unique<AcceptedLink>(
      v1::LINK_PURPOSE_COLLECTIVE, epoch_, worker_id,
      AcceptedLink::Answers{
          .to_memory = [=, this](const std::string& token) { return AcceptMemory(peer, token); },
          .to_device = nullptr},
      EventsOf(peer));
  AcceptedLink* const accepted = link.get();
  peer->link = std::move(link);
  return accepted;
}

void RankLinks::PrepareDial(const std::string& worker_id, Peer* peer) {
  auto link = std::make_unique<DialledLink>(context_, peer_finder_, v1::LINK_PURPOSE_COLLECTIVE,
                                            epoch_, worker_id, EventsOf(peer));
  peer->dialled = link.get();
  peer->link = std::move(link);
  OfferMemory(peer);
}

PeerLink::Events RankLinks::EventsOf(Peer* peer) {
  return {.on_up = [peer](const v1::Welcome&) { SettleMemory(peer); },
          .on_frame =
              [=, this](v1::Frame frame, transport::Payload payload) {
                Keep(peer, std::move(frame), std::move(payload));
              },
          .on_closed = [=, this](const absl::Status& reason,
                                 Instant now) { Break(peer, reason, now); }};
}

absl::Status RankLinks::Dial(Instant now) {
  for (const Peer& peer : peers_) {
    if (peer.dialled != nullptr) TUTTI_RETURN_IF_ERROR(peer.dialled->Begin(now));
  }
  return absl::OkStatus();
}

// A rank that was killed while it offered memory has left its file.
void RankLinks::SweepMemory() const {
  if (memory_folder_.empty()) return;
  const int64_t swept = transport::SharedPipe::Sweep(memory_folder_);
  if (swept > 0)
    spdlog::info("{} files of processes that ended are gone from {}", swept, memory_folder_);
}

void RankLinks::OfferMemory(Peer* peer) {
  if (memory_folder_.empty()) return;
  absl::StatusOr<std::unique_ptr<transport::SharedPipe>> pipe =
      transport::SharedPipe::Create(memory_folder_);
  if (!pipe.ok()) {
    spdlog::warn("exchanges with {} go over the link: {}", NameOf(peer->rank),
                 pipe.status().ToString());
    return;
  }
  peer->pipe = std::move(*pipe);
  peer->dialled->Offer(peer->pipe->token());
}

// The other end has answered the offer, and holds the memory or never will.
void RankLinks::SettleMemory(Peer* peer) {
  if (peer->dialled == nullptr || peer->pipe == nullptr) return;
  peer->pipe->Unlink();
  if (!peer->link->shares_memory()) peer->pipe.reset();
}

bool RankLinks::AcceptMemory(Peer* peer, const std::string& token) {
  if (memory_folder_.empty()) return false;
  // The rank dials again because it never saw our welcome: the memory is the same.
  if (peer->pipe != nullptr && peer->pipe->token() == token) return true;
  peer->pipe.reset();
  absl::StatusOr<std::unique_ptr<transport::SharedPipe>> pipe =
      transport::SharedPipe::Open(memory_folder_, token);
  if (!pipe.ok()) {
    // A rank on another machine, as a rule.
    spdlog::info("exchanges with {} go over the link: {}", NameOf(peer->rank),
                 pipe.status().ToString());
    return false;
  }
  spdlog::debug("exchanges with {} go through {}", NameOf(peer->rank), memory_folder_);
  peer->pipe = std::move(*pipe);
  return true;
}

bool RankLinks::UsesMemory(const Peer& peer) {
  return peer.pipe != nullptr && peer.link->shares_memory();
}

void RankLinks::End() {
  epoch_ = Epoch();
  peers_.clear();
}

bool RankLinks::ready() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.was_up || peer.link->is_up(); });
}

absl::Status RankLinks::Tick(Instant now) {
  for (Peer& peer : peers_) {
    peer.was_up |= peer.link->is_up();
    TUTTI_RETURN_IF_ERROR(peer.link->Tick(now));
    if (now >= peer.give_up) {
      peer.give_up = kInstantNever;
      return WhyBroken(peer);
    }
  }
  return absl::OkStatus();
}

Instant RankLinks::next_wake() const {
  Instant wake = kInstantNever;
  for (const Peer& peer : peers_) wake = std::min({wake, peer.give_up, peer.link->next_wake()});
  return wake;
}

// A rank is at most one exchange ahead of us.
void RankLinks::Keep(Peer* peer, v1::Frame frame, transport::Payload payload) {
  if (Epoch(frame.epoch()) != epoch_) return;
  peer->was_up = true;
  // A call to look into the memory: its coming has woken this rank, if it slept.
  if (frame.has_rank_exchange() && frame.rank_exchange().sequence() == 0) return;
  if (peer->inbox.size() >= kMailboxFramesMax) {
    return Break(peer, SendsTooMuch(), clock_->Now());
  }
  peer->inbox.push_back({std::move(frame), std::move(payload)});
}

void RankLinks::Break(Peer* peer, const absl::Status& reason, Instant now) {
  if (peer->closed.has_value()) return;
  peer->closed = reason.ok() ? absl::UnavailableError("it closed the link") : reason;
  peer->give_up = now + kBrokenLinkGrace;
}

// The dialling end says when a link comes up; when one breaks, the end that notices it first says
// so.
void RankLinks::PopReports(std::vector<v1::LinkState>* reports) {
  for (Peer& peer : peers_) {
    if (std::optional<v1::LinkState> report = peer.link->PopReport()) {
      reports->push_back(*std::move(report));
    }
    if (peer.dialled != nullptr || !peer.closed.has_value() || peer.reported) continue;
    peer.reported = true;
    v1::LinkState& report = reports->emplace_back();
    report.set_worker_id(peer.link->worker_id());
    report.set_purpose(v1::LINK_PURPOSE_COLLECTIVE);
    report.set_error(peer.closed->ToString());
  }
}

absl::Status RankLinks::WhyBroken(const Peer& peer) const {
  return absl::UnavailableError(
      absl::StrCat("the rank link to ", NameOf(peer.rank), " broke: ", peer.closed->ToString()));
}

RankLinks::Peer& RankLinks::PeerOf(int rank) {
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& peer) { return peer.rank == rank; });
  CHECK(found != peers_.end()) << "rank " << rank << " is no partner";
  return *found;
}

void RankLinks::Send(int rank, v1::Frame frame, transport::Payload payload) {
  Peer& peer = PeerOf(rank);
  if (!UsesMemory(peer)) return peer.link->Send(std::move(frame), std::move(payload));
  const absl::Status status = SendThroughMemory(&peer, frame, payload);
  if (peer.failure.ok()) peer.failure = status;
}

absl::Status RankLinks::SendThroughMemory(Peer* peer, const v1::Frame& frame,
                                          const transport::Payload& payload) {
  const Instant deadline = clock_->Now() + patience_;
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(const bool sent, peer->pipe->TrySend(frame, payload));
    if (sent) break;
    // Both may be sending more than the memory holds, so frames that came are put aside to let the
    // other one go on.
    TUTTI_ASSIGN_OR_RETURN(std::optional<transport::SharedPipe::Received> received,
                           peer->pipe->TryReceive());
    if (received.has_value()) {
      if (peer->inbox.size() >= kMailboxFramesMax) return SendsTooMuch();
      peer->inbox.push_back({std::move(received->frame), CopyOf(received->payload)});
    } else {
      TUTTI_RETURN_IF_ERROR(WaitFor(peer, clock_->Now() + kFullMemoryPause, deadline));
    }
  }
  if (peer->pipe->ShouldWakePeer()) {
    v1::Frame wake;
    wake.set_epoch(epoch_.value());
    wake.mutable_rank_exchange();
    peer->link->Send(std::move(wake), {});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RankFrameChannel::Received>> RankLinks::PopReceived(Peer* peer) {
  if (!peer->inbox.empty()) {
    Received received = std::move(peer->inbox.front());
    peer->inbox.pop_front();
    return received;
  }
  if (!UsesMemory(*peer)) return std::nullopt;
  TUTTI_ASSIGN_OR_RETURN(std::optional<transport::SharedPipe::Received> received,
                         peer->pipe->TryReceive());
  if (!received.has_value()) return std::nullopt;
  return Received{std::move(received->frame), std::move(received->payload)};
}

absl::Status RankLinks::WaitFor(Peer* peer, Instant wake, Instant deadline) {
  const Instant now = clock_->Now();
  if (now >= peer->give_up) return WhyBroken(*peer);
  if (now >= deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat("nothing came from ", NameOf(peer->rank), " for ",
                     static_cast<int64_t>(Milliseconds(patience_ + extra_patience_)), " ms"));
  }
  waiting_for_ = peer->link->worker_id();
  const absl::Status status = wait_(std::min({wake, peer->give_up, deadline}));
  waiting_for_.clear();
  return status;
}

absl::StatusOr<RankFrameChannel::Received> RankLinks::Receive(int rank) {
  Peer& peer = PeerOf(rank);
  TUTTI_RETURN_IF_ERROR(std::exchange(peer.failure, absl::OkStatus()));
  const Instant begin = clock_->Now();
  for (int64_t polls = 0;; ++polls) {
    TUTTI_ASSIGN_OR_RETURN(std::optional<Received> received, PopReceived(&peer));
    if (received.has_value()) return *std::move(received);
    const bool is_soon = UsesMemory(peer) && clock_->Now() < begin + kMemoryPollTime;
    if (is_soon && polls % kMemoryPollsPerLook != 0) {
      std::this_thread::yield();
    } else if (is_soon) {
      TUTTI_RETURN_IF_ERROR(WaitFor(&peer, Instant(), begin + patience_ + extra_patience_));
    } else if (!UsesMemory(peer)) {
      TUTTI_RETURN_IF_ERROR(WaitFor(&peer, kInstantNever, begin + patience_ + extra_patience_));
    } else if (peer.pipe->FallAsleep()) {
      const absl::Status status =
          WaitFor(&peer, kInstantNever, begin + patience_ + extra_patience_);
      peer.pipe->WakeUp();
      TUTTI_RETURN_IF_ERROR(status);
    }
  }
}

std::string RankLinks::NameOf(int rank) const {
  for (const Peer& peer : peers_) {
    if (peer.rank == rank) return absl::StrCat("rank ", rank, " (", peer.link->worker_id(), ")");
  }
  return absl::StrCat("rank ", rank);
}

}  // namespace tutti::worker
