// The holders of how many connections of a port.
//
// Once a connection is handed over, its descriptor is gRPC's, which tells nobody when it closes it.
// So the table remembers which socket the descriptor was (its inode, which no later socket has) and
// looks, when a bound is reached, which of them are still open: nothing is paid per connection that
// closes, and a descriptor that gRPC has not closed yet does count.
//
// Thread: one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

namespace tutti::transport {

struct ConnectionBounds {
  int64_t total = 0;
  int64_t per_account = 0;
};

// Bounds of ports in a process that may have so many descriptors (limits.h).
ConnectionBounds PeerPortBounds(int64_t descriptors);
ConnectionBounds PublicPortBounds(int64_t descriptors);
// The part of these that ports may have, all together.
int64_t PortDescriptors(int64_t descriptors);
// Bounds of a public port beside others, which have so many connections at most.
ConnectionBounds PortBoundsBeside(int64_t descriptors, int64_t others);

// Raises this process's limit of descriptors as far as it may; what it is then.  Thread: any.
int64_t RaiseDescriptorLimit();

class ConnectionTable {
 public:
  explicit ConnectionTable(ConnectionBounds bounds) : bounds_(bounds) {}

  bool HasRoom() const { return total_ < bounds_.total; }
  bool HasRoomFor(const std::string& account) const;
  void Add(int fd, const std::string& account);
  // The connection is closed, or about to be.
  void Remove(int fd);
  // Forgets the connections that were closed by somebody else.
  void Sweep();
  // Shuts those down that are still open, in both directions; what was written before arrives.
  void EndAll();

  int64_t total() const { return total_; }
  int64_t of(const std::string& account) const;
  const ConnectionBounds& bounds() const { return bounds_; }

 private:
  struct Connection {
    dev_t device = 0;
    ino_t inode = 0;
    std::string account;
  };
  using Connections = std::unordered_map<int, Connection>;

  static bool IsStill(const Connection& connection, int fd);
  void Uncount(const Connection& connection);

  const ConnectionBounds bounds_;
  Connections connections_;
  std::map<std::string, int64_t> accounts_;
  int64_t total_ = 0;
};

}  // namespace tutti::transport
