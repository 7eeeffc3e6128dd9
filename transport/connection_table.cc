#include "transport/connection_table.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>

#include "transport/descriptor.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

ConnectionBounds BoundsOf(int64_t total) {
  return {.total = total, .per_account = std::max<int64_t>(1, total / kPerAddressDivisor)};
}

}  // namespace

int64_t PortDescriptors(int64_t descriptors) {
  return descriptors - std::min(kOwnDescriptors, descriptors / 2);
}

ConnectionBounds PeerPortBounds(int64_t descriptors) {
  return BoundsOf(std::min(kPeerConnectionsMax, PortDescriptors(descriptors) / 4));
}

ConnectionBounds PublicPortBounds(int64_t descriptors) {
  return PortBoundsBeside(descriptors, PeerPortBounds(descriptors).total);
}

ConnectionBounds PortBoundsBeside(int64_t descriptors, int64_t others) {
  const int64_t left = std::max<int64_t>(1, PortDescriptors(descriptors) - others);
  return BoundsOf(std::min(kPublicConnectionsMax, left));
}

int64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kOwnDescriptors;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT32_MAX));
}

bool ConnectionTable::HasRoomFor(const std::string& account) const {
  return of(account) < bounds_.per_account;
}

int64_t ConnectionTable::of(const std::string& account) const {
  const auto found = accounts_.find(account);
  return found == accounts_.end() ? 0 : found->second;
}

void ConnectionTable::Add(int fd, const std::string& account) {
  // The descriptor's number is used again, so the connection that had it is closed.
  Remove(fd);
  struct stat socket {};
  fstat(fd, &socket);
  connections_[fd] = {.device = socket.st_dev, .inode = socket.st_ino, .account = account};
  ++accounts_[account];
  ++total_;
}

void ConnectionTable::Remove(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  Uncount(found->second);
  connections_.erase(found);
}

void ConnectionTable::Uncount(const Connection& connection) {
  const auto account = accounts_.find(connection.account);
  if (--account->second == 0) accounts_.erase(account);
  --total_;
}

bool ConnectionTable::IsStill(const Connection& connection, int fd) {
  struct stat now {};
  return fstat(fd, &now) == 0 && now.st_dev == connection.device && now.st_ino == connection.inode;
}

void ConnectionTable::Sweep() {
  std::erase_if(connections_, [this](const auto& entry) {
    if (IsStill(entry.second, entry.first)) return false;
    Uncount(entry.second);
    return true;
  });
}

void ConnectionTable::EndAll() {
  for (const auto& [fd, connection] : connections_) {
    // A descriptor of our own: whoever has the other may close it meanwhile, and its number be
    // another socket's.
    const Descriptor own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (own.valid() && IsStill(connection, own.get())) shutdown(own.get(), SHUT_RDWR);
  }
}

}  // namespace tutti::transport
