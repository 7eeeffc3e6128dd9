// The fate of the bytes that the connections of a port have sent: the calls tell it, the watch
// over the connections asks (connection_watch.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "transport/listening_sockets.h"

namespace tutti::transport {

// The time for which those wait who have made us work for nothing. Of one account
// (listening_sockets.h): whoever opens more connections waits no less.  Thread: any.
class Pauses {
 public:
  // Adds one more pause behind those that are not over yet, all together at most kPausesMax. The
  // time until the end of the last, without the first kPausesForgiven of an account that had none.
  Duration Add(Instant now, Duration pause);

 private:
  Mutex mutex_;
  Instant until_ ABSL_GUARDED_BY(mutex_) = Instant::min();
};

// The credit of one connection.  Thread: any.
class ConnectionCredit {
 public:
  ConnectionCredit() : ConnectionCredit(std::make_shared<Pauses>()) {}
  // `pauses`: its account's.
  explicit ConnectionCredit(std::shared_ptr<Pauses> pauses) : pauses_(std::move(pauses)) {}

  // A call has begun to read its message, which must come within a time.
  void BeginRead() { ++reading_; }
  // It has come whole, with so many bytes, or (0) will not come. After BeginRead.
  void EndRead(int64_t bytes) {
    Count(bytes);
    --reading_;
  }
  // A stream waits for its next message, which may take any time to begin.
  void BeginWait() { ++waiting_; }
  // The same as EndRead. After BeginWait.
  void EndWait(int64_t bytes) {
    Count(bytes);
    --waiting_;
  }
  // The other end has proved to be one of ours: it may send what it likes.
  void Trust() { is_trusted_ = true; }

  // The other end has made us work for nothing and waits for it, as Pauses::Add.
  Duration AddPause(Instant now, Duration pause) { return pauses_->Add(now, pause); }

  // Asked before the next two, these are never behind them.
  int32_t reading() const { return reading_; }
  int32_t waiting() const { return waiting_; }
  int64_t bytes() const { return bytes_; }
  // Messages that did not come whole: too large, broken off, or of a call that was reset.
  int64_t lost() const { return lost_; }
  bool is_trusted() const { return is_trusted_; }

 private:
  void Count(int64_t bytes) {
    bytes_ += bytes;
    if (bytes == 0) ++lost_;
  }

  std::atomic<int64_t> bytes_{0}, lost_{0};
  std::atomic<int32_t> reading_{0}, waiting_{0};
  std::atomic<bool> is_trusted_{false};
  const std::shared_ptr<Pauses> pauses_;
};

// The name that gRPC gives the other end of a connection, without its percent signs:
// "ipv4:1.2.3.4:5", "ipv6:[::1]:5"; "unix:" of all Unix sockets.
std::string PeerNameOf(const SocketAddress& other_end);

// Credits by the names of connections.  Thread: any.
class CreditBook {
 public:
  // A new connection of an account; one that had its name is over.
  std::shared_ptr<ConnectionCredit> Open(const std::string& name, const std::string& account);
  // `peer`: as gRPC says it. Never null: a connection that nobody watches has one of its own. Those
  // of Unix sockets, whose names do not tell them apart, share their pauses.
  std::shared_ptr<ConnectionCredit> Find(std::string_view peer) const;
  void Close(const std::string& name, const std::shared_ptr<ConnectionCredit>& credit);
  size_t accounts() const;

 private:
  const std::shared_ptr<Pauses> pauses_of_unix_ = std::make_shared<Pauses>();
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<ConnectionCredit>, std::less<>> credits_
      ABSL_GUARDED_BY(mutex_);
  // Pauses by account: of connections that are open, and for a while of others (kPausesKept).
  std::map<std::string, std::shared_ptr<Pauses>> pauses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::transport
