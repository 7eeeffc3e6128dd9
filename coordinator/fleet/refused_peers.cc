#include "coordinator/fleet/refused_peers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/plain_name.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

// Lines of the log, in so long: a dozen workers of a wrong build are all named at once, and whoever
// gives another name each time does not fill the disk.
constexpr int kRefusedLinesMax = 16;
constexpr std::chrono::seconds kRefusedLinesInterval{10};

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, kRefusedPeerBytesMax));
  for (char& c : printable) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return printable;
}

namespace {

// The address without the port, which is another one each time. Unix sockets have none.
std::string HostOf(const std::string& peer) {
  return peer.starts_with("unix:") ? peer : peer.substr(0, peer.rfind(':'));
}

}  // namespace

bool RefusedPeers::Add(std::string_view peer, std::string_view worker_id, std::string_view reason,
                       Instant now) {
  Entry entry;
  entry.told.set_peer(Printable(peer));
  if (IsPlainName(worker_id)) entry.told.set_worker_id(std::string(worker_id));
  entry.told.set_reason(Printable(reason));
  entry.host = HostOf(entry.told.peer());
  entry.at = now;
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) {
    return other.host == entry.host && other.told.worker_id() == entry.told.worker_id() &&
           other.told.reason() == entry.told.reason();
  });
  uint64_t times = 1;
  if (same != entries_.end()) {
    times += same->told.times();
    entries_.erase(same);
  }
  entry.told.set_times(times);
  entries_.push_front(std::move(entry));
  if (entries_.size() > kRefusedPeersMax) entries_.pop_back();
  return times == 1 && MayTell(now);
}

bool RefusedPeers::MayTell(Instant now) {
  if (now - lines_since_ >= kRefusedLinesInterval) {
    lines_since_ = now;
    lines_ = 0;
  }
  return ++lines_ <= kRefusedLinesMax;
}

void RefusedPeers::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  for (const Entry& entry : entries_) {
    v1::RefusedPeer* const peer = status->add_refused_peers();
    *peer = entry.told;
    peer->set_seconds_ago(Seconds(now - entry.at));
  }
}

}  // namespace tutti::coordinator
