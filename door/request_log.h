// The line of the log about every request: one line at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::door {

// Lines of refusals that may be written: whoever is refused must not fill the disk.
// Thread: any.
class RefusalLines {
 public:
  // Whether one more may be written now, and how many were not since the last.
  struct Leave {
    bool granted = false;
    int64_t left_out = 0;
  };
  Leave Ask(Instant now);

 private:
  Mutex mutex_;
  Instant second_ ABSL_GUARDED_BY(mutex_);
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;  // since `second_`
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One request's line, filled as its answer passes by.  Thread: one at a time.
class RequestRecord {
 public:
  // Its names. `tenant`: the hash, never the name.
  void Identify(const std::string& request_id, RequestId id, Hash128 tenant);
  // A message of the answer.
  void Count(const v1::GenerateResponse& response);
  // Writes the line, of a failure if `refusals` grants it. Nothing for a call that never said what
  // it wants.
  void LogEnd(const absl::Status& status, RefusalLines* refusals) const;

 private:
  bool identified_ = false;
  std::string request_id_;
  RequestId id_;
  std::string tenant_;
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t tokens_ = 0;
  int64_t outputs_ = 0;  // that have ended
  std::optional<v1::Timing> timing_;
  std::string reason_;  // of the last output's end
};

}  // namespace tutti::door
