#include "transport/listening_sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/address.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr int kSocketType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

const char* RemedyOf(int error, bool is_socket) {
  switch (error) {
    case EADDRINUSE:
      return is_socket ? "; choose another path, or remove it if nobody uses it"
                       : "; another process listens there: end it, or choose another port (0: any "
                         "free one)";
    case EACCES:
    case EPERM:
      return is_socket ? "; choose a folder that this user may write"
                       : "; ports below 1024 need root: choose a higher one";
    case EADDRNOTAVAIL:
      return "; this machine has no such address";
    case ENOENT:
      return "; make the folder first";
    default:
      return "";
  }
}

absl::Status CannotListen(const std::string& address, int error) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ",
                                             std::strerror(error),
                                             RemedyOf(error, absl::StartsWith(address, "unix:"))));
}

// Whether a process listens there. One that ended leaves its socket behind.
bool SomebodyListens(const sockaddr_un& to) {
  const Descriptor fd(socket(AF_UNIX, kSocketType, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 ||
         errno != ECONNREFUSED;
}

absl::Status MakeWay(const std::string& path, const std::string& address, const sockaddr_un& to) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return absl::OkStatus();
  if (!S_ISSOCK(found.st_mode) || SomebodyListens(to)) return CannotListen(address, EADDRINUSE);
  unlink(path.c_str());
  return absl::OkStatus();
}

absl::StatusOr<ListeningSockets> OpenUnix(const std::string& address) {
  absl::string_view rest = absl::StripPrefix(address, "unix:");
  if (absl::StartsWith(rest, "///")) rest.remove_prefix(2);
  const std::string path(rest);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(to.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(address, ": a socket's path has 1 to ", sizeof(to.sun_path) - 1, " bytes"));
  }
  path.copy(to.sun_path, path.size());
  if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    mkdir(path.substr(0, slash).c_str(), 0700);  // as a rule it is there
  }
  TUTTI_RETURN_IF_ERROR(MakeWay(path, address, to));
  Descriptor fd(socket(AF_UNIX, kSocketType, 0));
  // The mode of the socket becomes that of the path, so no moment passes in which others may enter.
  if (!fd.valid() || fchmod(fd.get(), 0600) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0 ||
      listen(fd.get(), kListenBacklog) != 0) {
    return CannotListen(address, errno);
  }
  ListeningSockets opened;
  opened.address = address;
  opened.sockets.push_back(std::move(fd));
  return opened;
}

void SetPort(SocketAddress* address, in_port_t port) {
  if (address->get()->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address->bytes)->sin_port = port;
  } else {
    reinterpret_cast<sockaddr_in6*>(&address->bytes)->sin6_port = port;
  }
}

in_port_t PortOf(const SocketAddress& address) {
  return address.get()->sa_family == AF_INET
             ? reinterpret_cast<const sockaddr_in*>(&address.bytes)->sin_port
             : reinterpret_cast<const sockaddr_in6*>(&address.bytes)->sin6_port;
}

// `is_one_of_several`: an IPv6 socket leaves IPv4 to another, with which it would share the port.
absl::StatusOr<Descriptor> OpenTcp(const SocketAddress& at, const std::string& address,
                                   bool is_one_of_several) {
  Descriptor fd(socket(at.get()->sa_family, kSocketType, 0));
  const int yes = 1;
  if (fd.valid() && is_one_of_several && at.get()->sa_family == AF_INET6) {
    (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  }
  // Connections of a process that ended do not keep its successor from the port. Another listener
  // does: without SO_REUSEPORT nobody takes a share of our connections.
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(fd.get(), at.get(), at.size) != 0 || listen(fd.get(), kListenBacklog) != 0) {
    return CannotListen(address, errno);
  }
  return fd;
}

}  // namespace

SocketAddress SocketAddress::OfThisEnd(int fd) {
  SocketAddress name;
  name.size = sizeof(name.bytes);
  if (getsockname(fd, name.get(), &name.size) != 0) name.size = 0;
  return name;
}

SocketAddress SocketAddress::OfOtherEnd(int fd) {
  SocketAddress name;
  name.size = sizeof(name.bytes);
  if (getpeername(fd, name.get(), &name.size) != 0) name.size = 0;
  return name;
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return a.size == b.size && std::memcmp(&a.bytes, &b.bytes, a.size) == 0;
}

std::string AccountOf(int fd) {
  const SocketAddress other = SocketAddress::OfOtherEnd(fd);
  char text[INET6_ADDRSTRLEN] = "";
  if (other.size == 0) return "unknown";
  if (other.get()->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&other.bytes)->sin_addr, text,
              sizeof(text));
    return text;
  }
  if (other.get()->sa_family == AF_INET6) {
    in6_addr address = reinterpret_cast<const sockaddr_in6*>(&other.bytes)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof(text));
      return text;
    }
    std::memset(&address.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &address, text, sizeof(text));
    return absl::StrCat(text, "/64");
  }
  ucred user{};
  socklen_t size = sizeof(user);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) return "unknown";
  return absl::StrCat("uid ", user.uid);
}

bool IsOwnProcess(int fd) {
  ucred user{};
  socklen_t size = sizeof(user);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0 && user.pid == getpid();
}

absl::StatusOr<ListeningSockets> OpenListeningSockets(const std::string& address) {
  TUTTI_RETURN_IF_ERROR(Annotate(CheckAddress(address, AddressUse::kListen), "cannot listen"));
  if (absl::StartsWith(address, "unix:")) return OpenUnix(address);
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                address.substr(colon + 1).c_str(), &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(list, &freeaddrinfo);
  ListeningSockets opened;
  in_port_t port = 0;
  absl::Status failure = CannotListen(address, EADDRNOTAVAIL);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    SocketAddress at;
    std::memcpy(&at.bytes, one->ai_addr, one->ai_addrlen);
    at.size = one->ai_addrlen;
    // The second address of a name gets the port that the first was given.
    if (port != 0) SetPort(&at, port);
    absl::StatusOr<Descriptor> fd = OpenTcp(at, address, list->ai_next != nullptr);
    if (!fd.ok()) {
      failure = fd.status();
      // One of a name's addresses is taken by another process: half a port is none.
      if (absl::StrContains(failure.message(), std::strerror(EADDRINUSE))) return failure;
      continue;
    }
    port = PortOf(SocketAddress::OfThisEnd(fd->get()));
    opened.sockets.push_back(*std::move(fd));
  }
  if (opened.sockets.empty()) return failure;
  opened.address = absl::StrCat(address.substr(0, colon), ":", ntohs(port));
  return opened;
}

absl::StatusOr<OwnCall> PrepareOwnCall(int listening_socket) {
  OwnCall call;
  SocketAddress& to = call.to = SocketAddress::OfThisEnd(listening_socket);
  const int family = to.bytes.ss_family;
  SocketAddress from;
  from.bytes.ss_family = to.bytes.ss_family;
  from.size = sizeof(sa_family_t);  // of a Unix socket the system finds a name
  if (family != AF_UNIX) {
    // Wildcards are reached at loopback.
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&to.bytes);
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&to.bytes);
    if (family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY)) {
      v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    if (family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) {
      v6->sin6_addr = in6addr_loopback;
    }
    from = to;
    SetPort(&from, 0);
  }
  call.fd.Reset(socket(family, kSocketType, 0));
  if (!call.fd.valid() || bind(call.fd.get(), from.get(), from.size) != 0) {
    return absl::ErrnoToStatus(errno, "no socket to call this process's own port");
  }
  call.from = SocketAddress::OfThisEnd(call.fd.get());
  return call;
}

}  // namespace tutti::transport
