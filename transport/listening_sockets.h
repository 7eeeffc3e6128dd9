// The sockets that a port listens on, and who is at the other end of one accepted.
//
// An address is "host:port", with port 0 for any free one, "[v6]:port", or "unix:/path". The path
// belongs to this user alone: the socket is made with mode 0600, in a folder of mode 0700 if the
// folder has to be made. A path that a process which ended has left is taken over; one on which
// somebody listens is in use.  Thread: any.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/descriptor.h"

namespace tutti::transport {

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  // The name that this end of a socket, or the other, has.
  static SocketAddress OfThisEnd(int fd);
  static SocketAddress OfOtherEnd(int fd);
  friend bool operator==(const SocketAddress& a, const SocketAddress& b);
};

// The account of a connection: an IPv4 address, the first 64 bits of an IPv6 address, which is
// what one customer gets, or the user of a process on this machine ("uid 1000").
std::string AccountOf(int fd);

// A process of this machine connected `fd`, which is a Unix socket, and it is this one.
bool IsOwnProcess(int fd);

struct ListeningSockets {
  std::vector<Descriptor> sockets;  // non-blocking
  std::string address;              // with the port that was bound
};

// INVALID_ARGUMENT: no address. UNAVAILABLE: it cannot be bound, with the system's reason. A name
// is bound at all addresses it has here.
absl::StatusOr<ListeningSockets> OpenListeningSockets(const std::string& address);

// A socket of this process that is about to connect to a port of its own: `from` is known, so the
// port can recognise it, before connect(fd, to) is called.
struct OwnCall {
  Descriptor fd;  // non-blocking
  SocketAddress from, to;
};
absl::StatusOr<OwnCall> PrepareOwnCall(int listening_socket);

}  // namespace tutti::transport
