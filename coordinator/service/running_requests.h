// The requests that clients gave a name (GenerateRequest.request_id) and that have not ended, so
// that one that comes again is known.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/hash/hash.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/sip_hash.h"
#include "base/status.h"

namespace tutti::coordinator {

class RunningRequests : public std::enable_shared_from_this<RunningRequests> {
 public:
  struct Name {
    Hash128 owner;  // whose name it is: see TenantHasher::HashOwner
    std::string id;

    bool operator==(const Name&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Name& name) {
      return H::combine(std::move(h), name.owner.low, name.owner.high, name.id);
    }
  };
  struct Running {
    Hash128 body;
    RequestId first;  // of its outputs
    int32_t outputs = 0;
    uint64_t seed = 0;
  };

  // Held while a request is looked up, added and given to the engine, so that the engine hears of
  // two of one name in the order in which they are here.
  Mutex* mutex() ABSL_LOCK_RETURNED(mutex_) { return &mutex_; }

  // The request of that name. ALREADY_EXISTS: it has another body.
  absl::StatusOr<std::optional<Running>> Find(const Name& name, const Hash128& body) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An entry in the place of one of the same name, until the result is gone.
  std::shared_ptr<const void> Add(const Name& name, const Running& running)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  size_t size() const;

 private:
  class Entry;
  void Remove(const Name& name, RequestId first);

  mutable Mutex mutex_;
  // The standard's map: others are not whole any more when memory runs out.
  std::unordered_map<Name, Running, absl::Hash<Name>> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::coordinator
