#include "worker/links/peer_finder.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "transport/announced_address.h"
#include "transport/roles.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

transport::DialTarget TargetOf(const std::string& worker_id, const std::string& address,
                               const std::string& server_name) {
  return {address, transport::IdentityUri({transport::Role::kWorker, worker_id}), server_name};
}

std::string Quoted(const std::string& worker_id) {
  return absl::StrCat("worker \"", absl::CHexEscape(worker_id.substr(0, kWorkerIdBytesMax)), "\"");
}

}  // namespace

void PeerFinder::Learn(const v1::AssignShard& shard, const std::string& own) {
  own_ = own;
  announced_.clear();
  for (const v1::PeerAddress& peer : shard.peers()) {
    if (announced_.size() >= kNeighboursMax) return;
    announced_.emplace(peer.worker_id(), peer.address());
  }
}

absl::StatusOr<PeerFinder::Found> PeerFinder::Find(const std::string& worker_id) const {
  absl::StatusOr<std::string> told = rules_.table.Find(worker_id);
  if (told.ok()) return Found{TargetOf(worker_id, *told, ""), *told};
  if (!TakesAnnounced()) return told.status();
  const auto announced = announced_.find(worker_id);
  if (announced != announced_.end()) return FindAnnounced(worker_id, announced->second);
  return absl::NotFoundError(
      absl::StrCat(Quoted(worker_id),
                   " has announced no address (--advertise), and is not in this "
                   "worker's peer table (--peer)"));
}

absl::StatusOr<PeerFinder::Found> PeerFinder::FindAnnounced(const std::string& worker_id,
                                                            const std::string& announced) const {
  const auto address = transport::ParseAnnouncedAddress(announced);
  if (!address.ok()) return Annotate(address.status(), Quoted(worker_id));
  PeerPolicy policy = rules_.policy;
  if (policy.empty()) {
    // A worker that announces nothing has no address to be near to.
    if (const auto own = transport::ParseAnnouncedAddress(own_); own.ok()) {
      policy = PeerPolicy::Around(*own);
    }
  }
  if (const absl::Status allowed = policy.Check(*address); !allowed.ok()) {
    return absl::PermissionDeniedError(absl::StrCat(
        Quoted(worker_id), " announces ", allowed.message(), ". Allow it with ",
        address->ip.has_value() ? "--peer-network ADDRESS/BITS" : "--peer-name PATTERN"));
  }
  return Found{TargetOf(worker_id, address->ToTarget(), worker_id), address->ToString()};
}

}  // namespace tutti::worker
