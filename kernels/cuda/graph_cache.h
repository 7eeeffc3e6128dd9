// Lists of launches that come again and again are made into graphs, which a device starts with one
// call instead of one for each kernel.
//
// A graph is started only for a list whose every byte is that of the list it was made from, so the
// launches that run are those asked for, with any contents of the cache. A list is made
// into a graph when it is seen the second time.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kernels/backend.h"
#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

// What a graph of so many launches takes of the device, whose free memory became less by
// `fewer_free` while it was made. CUDA does not tell, and a neighbour that loads or frees memory at
// that moment is seen in the same figure, so it counts within what such a graph can take.
int64_t GraphBytes(int64_t fewer_free, int64_t launches);

class GraphCache {
 public:
  struct Limits {
    int64_t graphs = kGraphsMax;  // 0: none are made
    int64_t key_bytes = kGraphKeyBytesMax;
    int64_t device_bytes = kGraphDeviceBytesMax;
    int64_t lists_seen = kListsSeen;
  };
  // REQUIRES: the device outlives it.
  GraphCache(Runtime* device, const Limits& limits);

  // Starts the launches of the list. When the device cannot make a graph, says so once on stderr,
  // makes no more, and goes on with those it has.
  void Start(LaunchList* list);

  LaunchCounts counts() const;

 private:
  struct Entry {
    std::string key;
    std::unique_ptr<Graph> graph;
    int64_t device_bytes = 0;
  };

  void StartEach(LaunchList* list);
  bool SeenBefore(std::string_view key);
  // nullptr: the device could not.
  Graph* Make(LaunchList* list);
  absl::StatusOr<Entry> MakeEntry(LaunchList* list);
  void DropOldest();

  Runtime* const device_;
  const Limits limits_;
  std::list<Entry> entries_;  // used last, first
  absl::flat_hash_map<std::string_view, std::list<Entry>::iterator> find_;
  // Hashes of lists seen once, and the order in which they came: the oldest goes when there are too
  // many. Two lists of one hash cost a graph too early.
  absl::flat_hash_set<uint64_t> seen_;
  std::vector<uint64_t> seen_in_order_;       // a ring
  size_t seen_next_ = 0;                      // in it
  int64_t key_bytes_ = 0, device_bytes_ = 0;  // of the entries
  LaunchCounts counts_;
};

}  // namespace tutti::kernels::cuda
