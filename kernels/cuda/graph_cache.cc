#include "kernels/cuda/graph_cache.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace tutti::kernels::cuda {

int64_t GraphBytes(int64_t fewer_free, int64_t launches) {
  return std::clamp(fewer_free, launches * kGraphLaunchBytesMin,
                    kGraphPageBytes + launches * kGraphLaunchBytesMax);
}

GraphCache::GraphCache(Runtime* device, const Limits& limits) : device_(device), limits_(limits) {
  if (limits.graphs == 0) return;
  seen_.reserve(static_cast<size_t>(limits.lists_seen) + 1);
  seen_in_order_.resize(static_cast<size_t>(limits.lists_seen));
}

void GraphCache::Start(LaunchList* list) {
  counts_.kernels += list->size();
  const bool is_short = list->size() < kGraphLaunchesMin;
  if (is_short) counts_.kernels_of_short_lists += list->size();
  if (is_short || limits_.graphs == 0) return StartEach(list);
  Graph* graph = nullptr;
  if (const auto found = find_.find(list->bytes()); found != find_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    graph = found->second->graph.get();
  } else if (counts_.graph_error.empty() && SeenBefore(list->bytes())) {
    graph = Make(list);
  }
  if (graph == nullptr) return StartEach(list);
  graph->Start();
  ++counts_.graph_starts;
  counts_.kernels_by_graphs += list->size();
}

LaunchCounts GraphCache::counts() const {
  LaunchCounts counts = counts_;
  counts.graphs = static_cast<int64_t>(entries_.size());
  counts.graph_bytes = device_bytes_;
  return counts;
}

void GraphCache::StartEach(LaunchList* list) {
  for (const KernelLaunch& launch : list->launches()) device_->Start(launch);
}

// Forgets a hash that it finds, so that a list whose graph was dropped must come twice again.
bool GraphCache::SeenBefore(std::string_view key) {
  const uint64_t hash = absl::HashOf(key);
  if (seen_.erase(hash) > 0) return true;
  uint64_t& oldest = seen_in_order_[seen_next_];
  seen_next_ = (seen_next_ + 1) % seen_in_order_.size();
  seen_.erase(oldest);
  oldest = hash;
  seen_.insert(hash);
  return false;
}

Graph* GraphCache::Make(LaunchList* list) {
  const auto key_bytes = static_cast<int64_t>(list->bytes().size());
  if (key_bytes > limits_.key_bytes) return nullptr;
  while (!entries_.empty() &&
         (static_cast<int64_t>(entries_.size()) >= limits_.graphs ||
          key_bytes_ + key_bytes > limits_.key_bytes || device_bytes_ >= limits_.device_bytes)) {
    DropOldest();
  }
  auto entry = MakeEntry(list);
  if (!entry.ok()) {
    counts_.graph_error = std::string(entry.status().message());
    std::fprintf(stderr, "no further CUDA graphs are made, kernels are started one by one: %s\n",
                 counts_.graph_error.c_str());
    return nullptr;
  }
  ++counts_.graphs_made;
  key_bytes_ += key_bytes;
  device_bytes_ += entry->device_bytes;
  entries_.push_front(*std::move(entry));
  find_.emplace(entries_.front().key, entries_.begin());
  return entries_.front().graph.get();
}

absl::StatusOr<GraphCache::Entry> GraphCache::MakeEntry(LaunchList* list) {
  const int64_t before = device_->FreeBytes();
  if (before < kGraphFreeBytesMin) {
    return absl::ResourceExhaustedError(absl::StrCat("only ", before,
                                                     " bytes of the GPU are free, graphs leave ",
                                                     kGraphFreeBytesMin, " to others"));
  }
  TUTTI_ASSIGN_OR_RETURN(auto graph, device_->MakeGraph(list->launches()));
  return Entry{.key = std::string(list->bytes()),
               .graph = std::move(graph),
               .device_bytes = GraphBytes(before - device_->FreeBytes(), list->size())};
}

void GraphCache::DropOldest() {
  const Entry& oldest = entries_.back();
  key_bytes_ -= static_cast<int64_t>(oldest.key.size());
  device_bytes_ -= oldest.device_bytes;
  find_.erase(oldest.key);
  entries_.pop_back();
}

}  // namespace tutti::kernels::cuda
