#include "transport/connection_watch.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/thread.h"
#include "spdlog/spdlog.h"
#include "transport/limits.h"
#include "transport/listening_sockets.h"

namespace tutti::transport {
namespace {

// Nothing was taken between two looks, though there was something. (What a Unix socket has received
// is unknown, and 0 here: it had no less afterwards.)
bool IsUntouched(const SocketState& before, const SocketState& now) {
  return before.unread > 0 && now.unread >= before.unread &&
         (now.received == 0 || now.received - now.unread == before.received - before.unread);
}

// Of all threads of this process.
Duration ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

ConnectionWatch::ConnectionWatch(Options options) : options_(std::move(options)) {}

ConnectionWatch::~ConnectionWatch() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ConnectionWatch::Start() {
  thread_ = StartThread("the watch of connections", [this] { Run(); });
}

void ConnectionWatch::Add(int fd) {
  struct stat socket {};
  if (fstat(fd, &socket) != 0) return;
  const SocketAddress other = SocketAddress::OfOtherEnd(fd);
  Watched watched{.fd = fd,
                  .device = socket.st_dev,
                  .inode = socket.st_ino,
                  .is_tcp = other.get()->sa_family != AF_UNIX,
                  .name = PeerNameOf(other),
                  .account = AccountOf(fd),
                  .credit = nullptr,
                  .conduct = Conduct(clock_.Now()),
                  .socket = {}};
  // The names of Unix sockets tell them not apart.
  watched.credit = watched.is_tcp ? options_.book->Open(watched.name, watched.account)
                                  : std::make_shared<ConnectionCredit>();
  const MutexLock lock(&mutex_);
  added_.push_back(std::move(watched));
  changed_.NotifyAll();
}

void ConnectionWatch::Run() {
  for (;;) {
    const auto pause = std::max<Duration>(
        kLookInterval, static_cast<int64_t>(watched_.size()) * kLookPausePerConnection);
    {
      const Instant next = clock_.Now() + pause;
      const MutexLock lock(&mutex_);
      // Nobody there, nobody to look at.
      while (!stop_ && watched_.empty() && added_.empty()) changed_.Wait(&mutex_);
      while (!stop_ && clock_.Now() < next) changed_.WaitUntil(&mutex_, next);
      if (stop_) return;
    }
    Look(clock_.Now());
  }
}

bool ConnectionWatch::IsStill(const Watched& watched, int fd) {
  struct stat socket {};
  return fstat(fd, &socket) == 0 && socket.st_dev == watched.device &&
         socket.st_ino == watched.inode;
}

SocketState ConnectionWatch::StateOf(const Watched& watched) {
  SocketState state;
  int unread = 0;
  if (ioctl(watched.fd, FIONREAD, &unread) == 0) state.unread = unread;
  if (!watched.is_tcp) return state;
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(watched.fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
    // Counted by one more for each end's SYN or FIN at most.
    state.received = static_cast<int64_t>(info.tcpi_bytes_received);
    state.sent = static_cast<int64_t>(info.tcpi_bytes_acked);
  }
  return state;
}

void ConnectionWatch::Look(Instant now) {
  {
    const MutexLock lock(&mutex_);
    std::move(added_.begin(), added_.end(), std::back_inserter(watched_));
    added_.clear();
  }
  const Duration busy_until = ProcessorTime();
  const Duration busy = busy_until - std::exchange(busy_until_, busy_until);
  const auto paid = static_cast<int64_t>(Seconds(now - looked_at_) * kLentPaidPerSecond);
  std::erase_if(slowed_, [&](const auto& entry) { return entry.second.until <= now; });
  for (auto& [account, slowed] : slowed_) {
    slowed.missing = std::max<int64_t>(0, slowed.missing - paid);
  }
  bool lay_unread = false;
  std::erase_if(watched_, [&](Watched& watched) {
    const SocketState socket = StateOf(watched);
    if (!IsStill(watched, watched.fd)) {
      Forget(watched);
      return true;
    }
    const SocketState before = std::exchange(watched.socket, socket);
    const bool counts = !watched.is_tcp || watched.credit->is_trusted();
    lay_unread |= counts && IsUntouched(before, socket);
    if (Judge(&watched, socket, now, busy)) return false;
    Forget(watched);
    return true;
  });
  const Duration since = std::min<Duration>(now - looked_at_, kUnreadPerLookMax);
  looked_at_ = now;
  if (lay_unread && options_.on_unread) options_.on_unread(since);
}

void ConnectionWatch::Forget(const Watched& watched) {
  options_.book->Close(watched.name, watched.credit);
  const auto slowed = slowed_.find(watched.account);
  if (slowed != slowed_.end()) slowed->second.lent -= watched.conduct.borrowed();
}

bool ConnectionWatch::Judge(Watched* watched, const SocketState& socket, Instant now,
                            Duration busy) {
  if (!watched->is_tcp || watched->credit->is_trusted()) return true;
  Conduct::Standing standing;
  // In this order: see there.
  standing.reading = watched->credit->reading();
  standing.waiting = watched->credit->waiting();
  standing.credited = watched->credit->bytes();
  standing.lost = watched->credit->lost();
  standing.busy = busy;
  const auto slowed = slowed_.find(watched->account);
  if (slowed != slowed_.end()) {
    standing.is_slowed = true;
    slowed->second.lent -= watched->conduct.borrowed();
    standing.lendable = kLentBytesMax - slowed->second.lent - slowed->second.missing;
  }
  const bool is_good = watched->conduct.Judge(socket, standing, now);
  if (slowed != slowed_.end()) slowed->second.lent += watched->conduct.borrowed();
  if (is_good || !Cut(*watched)) return true;
  ++cut_;
  if (slowed != slowed_.end()) {
    slowed->second.until = now + kSlowedFor;
    slowed->second.missing += watched->conduct.borrowed();
  } else if (slowed_.size() < kSlowedAccountsMax) {
    slowed_[watched->account].until = now + kSlowedFor;
  }
  if (options_.on_cut) options_.on_cut(watched->account);
  Log(*watched, now);
  return false;
}

// Nothing of what has come is read any more, and what comes is refused. False: it was closed
// meanwhile, or there is no descriptor; the next look tries again.
bool ConnectionWatch::Cut(const Watched& watched) {
  const Descriptor own(fcntl(watched.fd, F_DUPFD_CLOEXEC, 0));
  if (!own.valid() || !IsStill(watched, own.get())) return false;
  shutdown(own.get(), SHUT_RDWR);
  // With MSG_TRUNC, TCP throws away what it would copy.
  for (int i = 0; i < kDiscardsMax; ++i) {
    if (recv(own.get(), nullptr, kDiscardBytes, MSG_TRUNC | MSG_DONTWAIT) <= 0) break;
  }
  return true;
}

void ConnectionWatch::Log(const Watched& watched, Instant now) {
  if (now < next_log_) return;
  next_log_ = now + kRefusalLogInterval;
  spdlog::warn("{}: {} connections cut, the last from {}: {} bytes of it became no request",
               options_.port, cut_ - std::exchange(cut_logged_, cut_), watched.name,
               watched.conduct.debt_bytes());
}

}  // namespace tutti::transport
