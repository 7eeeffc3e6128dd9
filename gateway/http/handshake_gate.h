// The handshakes of TLS that are under way: each costs some 90 KB and a millisecond of the loop
// before anybody has said who it is.
//
// An account may have as many as are free beside, so that one which never ends its handshakes
// leaves half to others; those of an account that wait begin the newest first, as the oldest have
// waited for longer than who is served stays. A place that is free goes to the accounts in turn.
// Until a client has sent something it takes no place.
//
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tutti::gateway {

class HandshakeGate {
 public:
  explicit HandshakeGate(int64_t places) : places_(places) {}

  // Calls `begin` once there is a place for one of the account, at once or later, unless `who` is
  // gone by then.
  void Enter(const std::string& account, std::weak_ptr<void> who, std::function<void()> begin);
  // One that has begun is over.
  void Leave(const std::string& account);
  // Whether others of the account wait.
  bool has_waiting(const std::string& account) const { return waiting_.contains(account); }
  int64_t under_way() const { return under_way_; }

 private:
  struct Waiting {
    std::weak_ptr<void> who;
    std::function<void()> begin;
  };
  bool HasPlaceFor(const std::string& account) const;
  void BeginNext(const std::string& account);
  // For every account that waits, from the one after the last around, while there are places.
  void BeginInTurn();

  const int64_t places_;
  int64_t under_way_ = 0;
  std::string last_;                           // the account that got a place in turn
  std::map<std::string, int64_t> of_account_;  // under way
  std::map<std::string, std::vector<Waiting>> waiting_;
};

}  // namespace tutti::gateway
