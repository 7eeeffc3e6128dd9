// The grammars of requests that have not ended, so that no tenant has the workers hold more of them
// than its share.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "base/mutex.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "metrics/exposition.h"
#include "metrics/histogram.h"

namespace tutti::coordinator {

class RunningGrammars : public std::enable_shared_from_this<RunningGrammars> {
 public:
  struct Limits {
    int64_t tenant = 0;  // different grammars of one
    int64_t tenant_bytes = 0;
    int64_t all = 0;
    int64_t all_bytes = 0;
  };
  explicit RunningGrammars(const Limits& limits) : limits_(limits) {}

  // A request by this grammar, whose source has so many bytes, until the result is gone. Requests
  // of a tenant by one grammar count once. RESOURCE_EXHAUSTED, with a delay: as many are under way
  // as may be.
  absl::StatusOr<std::shared_ptr<const void>> Add(const Hash128& tenant, const std::string& digest,
                                                  int64_t bytes);
  // A grammar was refused for what it is.
  void CountRefused() { refused_.Add(); }

  void Write(metrics::Exposition* to) const;

 private:
  class Entry;
  // Who, and which; the tenant as two numbers.
  using Key = std::pair<std::pair<uint64_t, uint64_t>, std::string>;
  struct Running {
    int64_t requests = 0;
    int64_t bytes = 0;
  };
  struct Share {
    int64_t grammars = 0;
    int64_t bytes = 0;
  };

  void Remove(const Key& key);

  const Limits limits_;
  mutable Mutex mutex_;
  // The standard's maps: others are not whole any more when memory runs out.
  std::unordered_map<Key, Running, absl::Hash<Key>> running_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<uint64_t, uint64_t>, Share> shares_ ABSL_GUARDED_BY(mutex_);
  int64_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  metrics::Counter refused_, put_off_;
};

}  // namespace tutti::coordinator
