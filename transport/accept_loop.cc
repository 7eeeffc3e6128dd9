#include "transport/accept_loop.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/thread.h"
#include "spdlog/spdlog.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static_assert(sizeof(kPreface) - 1 == kPrefaceBytes);
constexpr char kTlsHandshake = 0x16;

enum class Opening { kNotYet, kSpeaks, kNothingForUs };

// The first bytes of a connection, which stay where they are.
Opening LookAtOpening(int fd, bool expects_tls) {
  std::array<char, kPrefaceBytes> bytes;
  const ssize_t count = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Opening::kNotYet;
  if (count <= 0) return Opening::kNothingForUs;
  if (expects_tls) return bytes[0] == kTlsHandshake ? Opening::kSpeaks : Opening::kNothingForUs;
  if (std::memcmp(bytes.data(), kPreface, static_cast<size_t>(count)) != 0) {
    return Opening::kNothingForUs;
  }
  return count == kPrefaceBytes ? Opening::kSpeaks : Opening::kNotYet;
}

Descriptor OpenReserve() { return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool IsWithoutDescriptor(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Listen(Options options) {
  TUTTI_ASSIGN_OR_RETURN(ListeningSockets opened, OpenListeningSockets(options.address));
  std::unique_ptr<AcceptLoop> loop(new AcceptLoop(std::move(options), std::move(opened)));
  if (!loop->poller_.valid() || !loop->waker_.valid() || !loop->reserve_.valid()) {
    return absl::UnavailableError("no descriptors are left to listen with");
  }
  return loop;
}

AcceptLoop::AcceptLoop(Options options, ListeningSockets opened)
    : options_(std::move(options)),
      address_(std::move(opened.address)),
      poller_(epoll_create1(EPOLL_CLOEXEC)),
      waker_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      reserve_(OpenReserve()),
      table_(options_.bounds),
      sockets_(std::move(opened.sockets)) {}

AcceptLoop::~AcceptLoop() { Stop(); }

void AcceptLoop::Watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &event);
}

void AcceptLoop::Start(HandOver hand_over) {
  hand_over_ = std::move(hand_over);
  Watch(waker_.get(), EPOLLIN);
  {
    const MutexLock lock(&mutex_);
    for (const Descriptor& socket : sockets_) Watch(socket.get(), EPOLLIN);
  }
  thread_ = StartThread("the acceptor of connections", [this] { Run(); });
}

void AcceptLoop::Stop() {
  stop_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
  silent_by_fd_.clear();
  silent_.clear();
  const MutexLock lock(&mutex_);
  if (sockets_.empty()) return;
  const SocketAddress name = SocketAddress::OfThisEnd(sockets_[0].get());
  if (name.bytes.ss_family == AF_UNIX) {
    unlink(reinterpret_cast<const sockaddr_un*>(&name.bytes)->sun_path);
  }
  sockets_.clear();
}

void AcceptLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(waker_.get(), &one, sizeof(one));
}

AcceptLoop::Counts AcceptLoop::counts() const { return {handed_over_, refused_, evicted_}; }

void AcceptLoop::Reopen() {
  reopen_ = true;
  Wake();
}

void AcceptLoop::SlowDown(const std::string& account) {
  const Instant now = clock_.Now();
  const MutexLock lock(&mutex_);
  std::erase_if(slowed_, [&](const auto& entry) { return entry.second.until <= now; });
  if (slowed_.contains(account) || slowed_.size() < kSlowedAccountsMax) {
    slowed_[account].until = now + kSlowedFor;
  }
}

absl::StatusOr<OwnCall> AcceptLoop::PrepareCall() {
  const MutexLock lock(&mutex_);
  if (sockets_.empty()) return absl::UnavailableError("the port is closed");
  TUTTI_ASSIGN_OR_RETURN(OwnCall call, PrepareOwnCall(sockets_[0].get()));
  own_call_ = call.from;
  return call;
}

// While this process has the address, no other can call from it. The names that the system gives
// Unix sockets are those of one network namespace, so there the process is looked at as well.
bool AcceptLoop::IsOwnCall(int fd) {
  const SocketAddress from = SocketAddress::OfOtherEnd(fd);
  const MutexLock lock(&mutex_);
  if (!own_call_.has_value() || !(from == *own_call_)) return false;
  if (from.bytes.ss_family == AF_UNIX && !IsOwnProcess(fd)) return false;
  own_call_.reset();
  return true;
}

void AcceptLoop::ReopenNow() {
  reopen_ = false;
  const MutexLock lock(&mutex_);
  sockets_.clear();
  absl::StatusOr<ListeningSockets> opened = OpenListeningSockets(address_);
  if (!opened.ok()) {
    spdlog::error("the port was closed and cannot be opened again: {}", opened.status().ToString());
    return;
  }
  sockets_ = std::move(opened->sockets);
  for (const Descriptor& socket : sockets_) Watch(socket.get(), EPOLLIN);
}

bool AcceptLoop::IsListening(int fd) const {
  const MutexLock lock(&mutex_);
  return std::any_of(sockets_.begin(), sockets_.end(),
                     [fd](const Descriptor& socket) { return socket.get() == fd; });
}

int AcceptLoop::MillisecondsToNextDeadline() const {
  if (silent_.empty()) return -1;
  double left = Milliseconds(silent_.front().deadline - clock_.Now());
  if (!waiting_.empty()) left = std::min(left, Milliseconds(kSlowedPause) / 4);
  return left <= 0 ? 0 : static_cast<int>(left) + 1;
}

void AcceptLoop::Run() {
  std::array<epoll_event, 64> events;
  while (!stop_) {
    const int count = epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()),
                                 MillisecondsToNextDeadline());
    if (reopen_) ReopenNow();
    for (int i = 0; i < count && !stop_; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == waker_.get()) {
        uint64_t wakes;
        (void)!read(fd, &wakes, sizeof(wakes));
      } else if (silent_by_fd_.contains(fd)) {
        LookAt(fd);
      } else if (IsListening(fd)) {
        AcceptFrom(fd);
      }
      // Otherwise it was closed to make room after its event had come, and may be anybody's by now.
    }
    HandOverWaiting(clock_.Now());
    CloseExpired(clock_.Now());
  }
}

void AcceptLoop::AcceptFrom(int listening_socket) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Descriptor fd(accept4(listening_socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      Take(std::move(fd));
    } else if (IsWithoutDescriptor(errno)) {
      return Shed(listening_socket);
    } else if (errno == EAGAIN || errno == EBADF || errno == EINVAL || errno == ENOTSOCK) {
      return;  // nobody is left in the backlog
    }
    // Otherwise the caller is gone already.
  }
}

// Called without a descriptor: accepts with the one in reserve, and closes.
void AcceptLoop::Shed(int listening_socket) {
  table_.Sweep();
  if (!silent_.empty()) {
    // A silent connection is worth less than one that comes now, which is found again at once.
    ++evicted_;
    return Drop(silent_.begin());
  }
  reserve_.Reset();
  { const Descriptor shed(accept4(listening_socket, nullptr, nullptr, SOCK_CLOEXEC)); }
  reserve_ = OpenReserve();
  Refuse("anybody: this process has no descriptors left");
  // All others are taken: by whom, a look at it in a moment may tell.
  if (!reserve_.valid()) std::this_thread::sleep_for(kNoDescriptorPause);
}

void AcceptLoop::Take(Descriptor fd) {
  const bool is_own_call = IsOwnCall(fd.get());
  std::string account = AccountOf(fd.get());
  if (!is_own_call && !MakeRoom(account)) return Refuse(account);
  const int yes = 1;
  // Fails on Unix sockets, which wait for nothing.
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const int number = fd.get();
  if (!is_own_call) table_.Add(number, account);
  silent_.push_back({.fd = std::move(fd),
                     .account = std::move(account),
                     .is_own_call = is_own_call,
                     .deadline = clock_.Now() + kHandshakeTimeout});
  silent_by_fd_[number] = std::prev(silent_.end());
  // Each arrival is an event, also of bytes that are here already; what is read by nobody is not.
  Watch(number, EPOLLIN | EPOLLRDHUP | EPOLLET);
}

bool AcceptLoop::MakeRoom(const std::string& account) {
  if (table_.HasRoom() && table_.HasRoomFor(account)) return true;
  if (const Instant now = clock_.Now(); now >= next_sweep_) {
    next_sweep_ = now + table_.total() * kSweepPausePerConnection;
    table_.Sweep();
    if (table_.HasRoom() && table_.HasRoomFor(account)) return true;
  }
  // An account that has its share makes room itself.
  const bool must_be_own = !table_.HasRoomFor(account);
  const auto oldest = std::find_if(silent_.begin(), silent_.end(), [&](const Silent& silent) {
    return !silent.is_own_call && (!must_be_own || silent.account == account);
  });
  if (oldest == silent_.end()) return false;
  ++evicted_;
  Drop(oldest);
  return true;
}

void AcceptLoop::LookAt(int fd) {
  const auto found = silent_by_fd_.find(fd);
  const auto silent = found->second;
  switch (LookAtOpening(fd, options_.expects_tls && !silent->is_own_call)) {
    case Opening::kNotYet:
      return;
    case Opening::kNothingForUs:
      return Drop(silent);
    case Opening::kSpeaks:
      break;
  }
  epoll_ctl(poller_.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (silent->is_own_call || !MustWait(silent->account, clock_.Now())) return Give(silent);
  silent->waits = true;
  waiting_.push_back(fd);
}

bool AcceptLoop::MustWait(const std::string& account, Instant now) {
  const MutexLock lock(&mutex_);
  const auto found = slowed_.find(account);
  if (found == slowed_.end() || found->second.until <= now) return false;
  if (now < found->second.next) return true;
  found->second.next = now + kSlowedPause;
  return false;
}

void AcceptLoop::Give(SilentList::iterator silent) {
  const int fd = silent->fd.Release();
  const bool is_own_call = silent->is_own_call;
  silent_by_fd_.erase(fd);
  silent_.erase(silent);
  ++handed_over_;
  hand_over_(fd, is_own_call);
}

void AcceptLoop::HandOverWaiting(Instant now) {
  std::erase_if(waiting_, [&](int fd) {
    const auto found = silent_by_fd_.find(fd);
    if (found == silent_by_fd_.end() || !found->second->waits) return true;  // dropped since
    if (MustWait(found->second->account, now)) return false;
    Give(found->second);
    return true;
  });
}

void AcceptLoop::Drop(SilentList::iterator silent) {
  table_.Remove(silent->fd.get());
  silent_by_fd_.erase(silent->fd.get());
  silent_.erase(silent);
}

void AcceptLoop::CloseExpired(Instant now) {
  while (!silent_.empty() && silent_.front().deadline <= now) Drop(silent_.begin());
}

void AcceptLoop::Refuse(const std::string& account) {
  ++refused_;
  const Instant now = clock_.Now();
  if (now < next_log_) return;
  next_log_ = now + kRefusalLogInterval;
  spdlog::warn("{}: {} connections refused, the last from {}; at most {}, {} from one address",
               address_, refused_ - std::exchange(refused_logged_, refused_), account,
               options_.bounds.total, options_.bounds.per_account);
}

}  // namespace tutti::transport
