// Sees at once that a leader's process has ended, where its lease would have to run out first: the
// port on which clients called it refuses connections.
//
// Only addresses that this process' own operator gave are dialled, and nothing is sent to them.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "transport/descriptor.h"

namespace tutti::coordinator {

// The question that EtcdLease asks; for tests.
class LeaderSight {
 public:
  virtual ~LeaderSight() = default;
  // Whether the process that leads as `name` is known to have ended. `term`: tells one leadership
  // from the next.
  virtual bool HasEnded(const std::string& name, int64_t term) = 0;
};

class LeaderWatch : public LeaderSight {
 public:
  // Public addresses of the other coordinators by name, host:port or unix:/path.
  explicit LeaderWatch(std::map<std::string, std::string> addresses)
      : addresses_(std::move(addresses)) {}

  // A connection was there in this term, it broke, and the port refused the next kRefusalsMin.
  // False where that cannot be known: no address, a connection that is not answered.
  bool HasEnded(const std::string& name, int64_t term) override;

 private:
  enum class Dialled { kConnected, kRefused, kUnknown };
  Dialled Dial(const std::string& address);
  // Whether the connection is still there.
  bool IsOpen();

  const std::map<std::string, std::string> addresses_;
  int64_t term_ = 0;
  bool was_there_ = false;  // in this term
  int refusals_ = 0;        // in a row
  transport::Descriptor connection_;
};

}  // namespace tutti::coordinator
