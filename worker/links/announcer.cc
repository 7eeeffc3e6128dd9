#include "worker/links/announcer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/ip_network.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "spdlog/spdlog.h"
#include "transport/announced_address.h"
#include "transport/descriptor.h"

namespace tutti::worker {
namespace {

struct HostPort {
  std::string host;  // without brackets
  std::string port;
};

// Nothing for a socket.
std::optional<HostPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (address.starts_with("unix:") || colon == std::string::npos) return std::nullopt;
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return HostPort{host, address.substr(colon + 1)};
}

std::string Joined(const IpAddress& ip, int port) {
  return transport::AnnouncedAddress{.ip = ip, .name = "", .port = static_cast<uint16_t>(port)}
      .ToString();
}

// The address of this end of a connection to there. A datagram socket connects without a packet.
absl::StatusOr<IpAddress> SourceTo(const addrinfo& there) {
  const transport::Descriptor socket(::socket(there.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  auto* const generic = reinterpret_cast<sockaddr*>(&own);
  if (socket.get() < 0 || connect(socket.get(), there.ai_addr, there.ai_addrlen) != 0 ||
      getsockname(socket.get(), generic, &size) != 0) {
    return absl::UnavailableError(absl::StrCat("no route there: ", std::strerror(errno)));
  }
  char text[NI_MAXHOST] = {};
  if (getnameinfo(generic, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return absl::UnavailableError("the route there has no address");
  }
  const std::optional<IpAddress> ip = IpAddress::Parse(text);
  if (ip.has_value()) return *ip;
  return absl::UnavailableError(
      absl::StrCat("the route there has the address ", text,
                   ", which means nothing on other machines; say another by --advertise"));
}

// Blocks where the host is a name, unless AI_NUMERICHOST is in `flags`.
absl::StatusOr<IpAddress> LookFor(const HostPort& coordinator, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(coordinator.host.c_str(), coordinator.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(coordinator.host, " has no address: ", gai_strerror(error)));
  }
  absl::StatusOr<IpAddress> source = absl::UnavailableError("it has no address");
  for (const addrinfo* one = found; one != nullptr && !source.ok(); one = one->ai_next) {
    source = SourceTo(*one);
  }
  freeaddrinfo(found);
  return source;
}

}  // namespace

// Shared with the threads that resolve: they outlive whoever asked.
struct Announcer::Routes {
  struct Route {
    bool being_looked_for = false;
    absl::StatusOr<IpAddress> source = absl::AbortedError("looking for the way there");
  };
  Mutex mutex;
  std::map<std::string, Route> by_coordinator ABSL_GUARDED_BY(mutex);
};

absl::StatusOr<Announcer> Announcer::Create(const std::string& advertise,
                                            const std::string& listen) {
  Announcer announcer;
  const std::optional<HostPort> own = Split(listen);
  if (own.has_value()) (void)absl::SimpleAtoi(own->port, &announcer.port_);
  if (!advertise.empty()) {
    // Without a port in all its forms: node0, 10.0.0.7, [fd00::7].
    const bool has_port = advertise.back() != ']' && advertise.find(':') != std::string::npos;
    if (!has_port && !own.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          advertise, " has no port, and this worker listens at none; write ", advertise, ":PORT"));
    }
    TUTTI_ASSIGN_OR_RETURN(
        const auto address,
        transport::ParseAnnouncedAddress(has_port ? advertise
                                                  : absl::StrCat(advertise, ":", announcer.port_)));
    announcer.address_ = address.ToString();
    return announcer;
  }
  if (!own.has_value()) return announcer;
  // The interface of fe80::1%eth0 is this machine's own matter.
  const std::optional<IpAddress> ip = IpAddress::Parse(own->host.substr(0, own->host.find('%')));
  if (ip.has_value() && ip->IsLinkLocalV6()) {
    spdlog::warn(
        "this worker listens at {}, an address of one interface, which means nothing on other "
        "machines: it announces none; listen at another (--listen), or say by --advertise where "
        "other workers reach it",
        own->host);
    return announcer;
  }
  if (ip.has_value() && ip->IsOneMachines()) {
    announcer.address_ = Joined(*ip, announcer.port_);
  } else {
    announcer.routes_ = std::make_shared<Routes>();
  }
  return announcer;
}

absl::StatusOr<std::string> Announcer::AddressFor(const std::string& coordinator) {
  const std::optional<HostPort> there = Split(coordinator);
  if (routes_ == nullptr || !there.has_value()) return address_;
  // A name without need of a resolver needs no thread.
  if (IpAddress::Parse(there->host).has_value()) {
    TUTTI_ASSIGN_OR_RETURN(const IpAddress source, LookFor(*there, AI_NUMERICHOST));
    return Joined(source, port_);
  }
  const MutexLock lock(&routes_->mutex);
  Routes::Route& route = routes_->by_coordinator[coordinator];
  if (route.source.ok()) return Joined(*route.source, port_);
  if (!std::exchange(route.being_looked_for, true)) {
    auto resolver =
        TryStartThread("the resolver of names", [routes = routes_, coordinator, there = *there] {
          absl::StatusOr<IpAddress> source = LookFor(there, 0);
          const MutexLock held(&routes->mutex);
          routes->by_coordinator[coordinator] = {.being_looked_for = false,
                                                 .source = std::move(source)};
        });
    route.being_looked_for = resolver.ok();
    if (!resolver.ok()) return absl::UnavailableError(resolver.status().message());
    resolver->detach();
  }
  return route.source.status();
}

void Announcer::Forget() {
  if (routes_ == nullptr) return;
  const MutexLock lock(&routes_->mutex);
  for (auto& [coordinator, route] : routes_->by_coordinator) {
    route.source = absl::AbortedError("looking for the way there");
  }
}

}  // namespace tutti::worker
