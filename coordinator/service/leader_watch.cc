#include "coordinator/service/leader_watch.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

constexpr std::string_view kUnix = "unix:";

struct Target {
  int family = AF_UNSPEC;
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

// False: `address` has no such form, or its host is not known.
bool Resolve(std::string_view address, Target* target) {
  if (address.starts_with(kUnix)) {
    address.remove_prefix(kUnix.size());
    sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
    if (address.empty() || address.size() >= sizeof(name.sun_path)) return false;
    address.copy(name.sun_path, address.size());
    *target = {.family = AF_UNIX, .size = sizeof(name)};
    std::memcpy(&target->bytes, &name, sizeof(name));
    return true;
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string host(address.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port(address.substr(colon + 1));
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  *target = {.family = found->ai_family, .size = found->ai_addrlen};
  std::memcpy(&target->bytes, found->ai_addr, found->ai_addrlen);
  return true;
}

}  // namespace

bool LeaderWatch::HasEnded(const std::string& name, int64_t term) {
  const auto address = addresses_.find(name);
  if (address == addresses_.end()) return false;
  if (term != term_) {
    term_ = term;
    was_there_ = false;
    refusals_ = 0;
    connection_.Reset();
  }
  if (connection_.valid()) {
    if (IsOpen()) return false;
    connection_.Reset();
  }
  switch (Dial(address->second)) {
    case Dialled::kConnected:
      was_there_ = true;
      refusals_ = 0;
      return false;
    case Dialled::kUnknown:
      refusals_ = 0;
      return false;
    case Dialled::kRefused:
      break;
  }
  return ++refusals_ >= kRefusalsMin && was_there_;
}

LeaderWatch::Dialled LeaderWatch::Dial(const std::string& address) {
  Target target;
  if (!Resolve(address, &target)) return Dialled::kUnknown;
  connection_ =
      transport::Descriptor(socket(target.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection_.valid()) return Dialled::kUnknown;
  int error = 0;
  if (connect(connection_.get(), reinterpret_cast<const sockaddr*>(&target.bytes), target.size) !=
      0) {
    error = errno;
  }
  if (error == EINPROGRESS) {
    pollfd wait = {.fd = connection_.get(), .events = POLLOUT, .revents = 0};
    socklen_t size = sizeof(error);
    const bool answered = poll(&wait, 1, static_cast<int>(Milliseconds(kWatchDialPatience))) == 1;
    if (!answered || getsockopt(wait.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = ETIMEDOUT;
    }
  }
  if (error == 0) return Dialled::kConnected;
  connection_.Reset();
  // A socket that was removed has nobody behind it either.
  return error == ECONNREFUSED || error == ENOENT ? Dialled::kRefused : Dialled::kUnknown;
}

bool LeaderWatch::IsOpen() {
  std::array<char, 256> ignored{};
  const ssize_t size = recv(connection_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  return size > 0 || (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

}  // namespace tutti::coordinator
