// A lease that is a lock on a file: the coordinators of one machine, without etcd.
//
// The system gives the lock to another when its process dies, at once, and only then: a leader that
// is stopped, or hangs, keeps it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "coordinator/service/leader_lease.h"
#include "transport/descriptor.h"

namespace tutti::coordinator {

class FileLease : public LeaderLease {
 public:
  using WallClock = std::function<int64_t()>;  // seconds since 1970
  // `path`: on a file system of this machine; made where it is missing. `name`: this coordinator's,
  // [A-Za-z0-9._-]{1,128}.
  FileLease(std::string path, std::string name, WallClock now = WallSeconds);

  // DATA_LOSS: what the file holds is not what a leader writes.
  absl::StatusOr<std::optional<uint32_t>> TryAcquire() override;
  // ABORTED: the file at the path is another now, which others may lock.
  absl::Status Keep() override;
  void Resign() override;
  Duration keep_interval() const override;
  const std::string& leader() const override { return leader_; }
  const std::string& about() const override { return about_; }

 private:
  struct Holder {
    uint32_t number = 0;
    std::string name;
  };
  absl::StatusOr<Holder> Read() const;
  absl::Status Write(const Holder& holder) const;
  // Whether the open file is the one at the path.
  bool IsAtPath() const;
  absl::Status Failed(const char* attempt) const;

  const std::string path_;
  const std::string name_;
  const std::string about_;
  const WallClock now_;
  transport::Descriptor file_;
  std::string leader_;
};

}  // namespace tutti::coordinator
