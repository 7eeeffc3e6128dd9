// The caches that a trace is replayed on: the coordinator's own pool and directory, and plain ones
// with other rules of eviction to compare with.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bench/trace.h"
#include "coordinator/kv/kv_directory.h"

namespace tutti::bench {

// The K/V of one pipeline in blocks of 512 tokens.
class TraceCache {
 public:
  virtual ~TraceCache() = default;
  // Blocks of the request that are there, from its beginning.
  virtual int64_t Matched(const ReplayRequest& request) = 0;
  // The request holds all its blocks from now on; missing ones are computed and can be found
  // at once. False: there is no room before others have ended.
  virtual bool Begin(size_t request) = 0;
  virtual void End(size_t request) = 0;
};

// The cache that serves: coordinator/kv/block_pool.h, kv_directory.h. `directory` outlives it and
// has blocks of one token, which is an id of the trace.
std::unique_ptr<TraceCache> MakeOwnCache(const ReplayTrace& trace,
                                         coordinator::KvDirectory* directory, PipelineId pipeline,
                                         int32_t num_blocks);

enum class EvictionRule {
  kLeastRecentlyReleased,  // tails before heads
  kHeadsBeforeTails,       // least recently released, but a chain from its head
  kFirstComputed,          // first in, first out
  kLeastUsed,              // fewest hits, then least recently released
  kKnowsTheFuture,         // whose next use is farthest, if any: Belady's rule
};
std::string_view EvictionRuleName(EvictionRule rule);

std::unique_ptr<TraceCache> MakeRuleCache(const ReplayTrace& trace, EvictionRule rule,
                                          int32_t num_blocks);

}  // namespace tutti::bench
