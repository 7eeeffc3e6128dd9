#include "bench/trace_cache.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "coordinator/kv/block_pool.h"

namespace tutti::bench {
namespace {

class OwnCache : public TraceCache {
 public:
  OwnCache(const ReplayTrace& trace, coordinator::KvDirectory* directory, PipelineId pipeline,
           int32_t num_blocks)
      : trace_(trace),
        directory_(directory),
        pipeline_(pipeline),
        pool_(num_blocks),
        tables_(trace.requests.size()) {
    directory_->OpenPipeline(pipeline, num_blocks);
  }
  ~OwnCache() override {
    pool_.CheckEveryBlock();
    directory_->ClosePipeline(pipeline_);
  }

  int64_t Matched(const ReplayRequest& request) override {
    return static_cast<int64_t>(directory_->Lookup({}, request.blocks, pipeline_).size());
  }

  bool Begin(size_t index) override {
    const std::vector<int32_t>& ids = trace_.requests[index].blocks;
    std::vector<BlockId> table = directory_->Lookup({}, ids, pipeline_);
    const size_t shared = table.size();
    for (const BlockId block : table) pool_.Share(block);
    const auto missing = static_cast<int32_t>(ids.size() - shared);
    if (missing > pool_.available()) {
      pool_.Release(table);
      return false;
    }
    std::vector<BlockId> evicted;
    pool_.Allocate(missing, &table, &evicted);
    for (const BlockId block : evicted) directory_->Forget(pipeline_, block);
    for (size_t i = shared; i < table.size(); ++i) {
      const auto parent = i == 0 ? std::nullopt : std::optional(table[i - 1]);
      directory_->Publish(pipeline_, {}, parent, table[i], std::span(ids).subspan(i, 1));
      pool_.MarkPublished(table[i]);
    }
    pool_.CheckLedger();
    tables_[index] = std::move(table);
    return true;
  }

  void End(size_t index) override {
    pool_.Release(tables_[index]);
    tables_[index] = {};
  }

 private:
  const ReplayTrace& trace_;
  coordinator::KvDirectory* const directory_;
  const PipelineId pipeline_;
  coordinator::BlockPool pool_;
  std::vector<std::vector<BlockId>> tables_;  // [requests]
};

class RuleCache : public TraceCache {
 public:
  RuleCache(const ReplayTrace& trace, EvictionRule rule, int32_t num_blocks)
      : trace_(trace), rule_(rule), room_(num_blocks) {
    if (rule != EvictionRule::kKnowsTheFuture) return;
    for (size_t i = 0; i < trace.requests.size(); ++i) {
      for (const int32_t id : trace.requests[i].blocks) {
        blocks_[id].uses.push_back(static_cast<int64_t>(i));
      }
    }
  }

  int64_t Matched(const ReplayRequest& request) override {
    int64_t matched = 0;
    for (const int32_t id : request.blocks) {
      if (!blocks_[id].present) break;
      ++matched;
    }
    return matched;
  }

  bool Begin(size_t index) override {
    const std::vector<int32_t>& ids = trace_.requests[index].blocks;
    now_ = static_cast<int64_t>(index);
    const int64_t matched = Matched(trace_.requests[index]);
    for (const int32_t id : ids) Hold(id);
    int64_t missing = 0;
    for (const int32_t id : ids) missing += blocks_[id].present ? 0 : 1;
    if (missing > room_ + static_cast<int64_t>(idle_.size())) {
      for (const int32_t id : ids) Release(id);
      return false;
    }
    for (int64_t i = 0; i < static_cast<int64_t>(ids.size()); ++i) {
      Block& block = blocks_[ids[i]];
      if (i < matched) ++block.hits;
      if (block.present) continue;
      if (room_ == 0) Evict();
      --room_;
      block.present = true;
      block.depth = i;
      block.hits = 0;
      block.computed = ++clock_;
    }
    return true;
  }

  void End(size_t index) override {
    const std::vector<int32_t>& ids = trace_.requests[index].blocks;
    if (rule_ == EvictionRule::kHeadsBeforeTails) {
      for (const int32_t id : ids) Release(id);
    } else {
      for (auto id = ids.rbegin(); id != ids.rend(); ++id) Release(*id);
    }
  }

 private:
  using Order = std::pair<int64_t, int64_t>;  // the least goes first
  struct Block {
    bool present = false;
    int32_t holders = 0;
    int64_t hits = 0;
    int64_t depth = 0;
    int64_t computed = 0;
    Order order;
    std::vector<int64_t> uses;  // requests that have it, for the rule that knows the future
  };

  void Hold(int32_t id) {
    Block& block = blocks_[id];
    if (block.holders++ == 0 && block.present) idle_.erase({block.order, id});
  }

  void Release(int32_t id) {
    Block& block = blocks_[id];
    CHECK(block.holders > 0);
    if (--block.holders > 0 || !block.present) return;
    block.order = OrderOf(block);
    idle_.insert({block.order, id});
  }

  Order OrderOf(const Block& block) {
    ++clock_;
    switch (rule_) {
      case EvictionRule::kLeastRecentlyReleased:
      case EvictionRule::kHeadsBeforeTails:
        return {clock_, 0};
      case EvictionRule::kFirstComputed:
        return {block.computed, 0};
      case EvictionRule::kLeastUsed:
        return {block.hits, clock_};
      case EvictionRule::kKnowsTheFuture: {
        const auto next = std::upper_bound(block.uses.begin(), block.uses.end(), now_);
        const int64_t use = next == block.uses.end() ? std::numeric_limits<int64_t>::max() : *next;
        return {-use, -block.depth};
      }
    }
    return {};
  }

  void Evict() {
    const auto first = idle_.begin();
    blocks_[first->second].present = false;
    idle_.erase(first);
    ++room_;
  }

  const ReplayTrace& trace_;
  const EvictionRule rule_;
  int64_t room_;
  int64_t clock_ = 0;
  int64_t now_ = 0;                            // the latest request
  std::unordered_map<int32_t, Block> blocks_;  // found by id only, never walked
  std::set<std::pair<Order, int32_t>> idle_;
};

}  // namespace

std::unique_ptr<TraceCache> MakeOwnCache(const ReplayTrace& trace,
                                         coordinator::KvDirectory* directory, PipelineId pipeline,
                                         int32_t num_blocks) {
  return std::make_unique<OwnCache>(trace, directory, pipeline, num_blocks);
}

std::unique_ptr<TraceCache> MakeRuleCache(const ReplayTrace& trace, EvictionRule rule,
                                          int32_t num_blocks) {
  return std::make_unique<RuleCache>(trace, rule, num_blocks);
}

std::string_view EvictionRuleName(EvictionRule rule) {
  switch (rule) {
    case EvictionRule::kLeastRecentlyReleased:
      return "least recently released";
    case EvictionRule::kHeadsBeforeTails:
      return "heads before tails";
    case EvictionRule::kFirstComputed:
      return "first computed";
    case EvictionRule::kLeastUsed:
      return "least used";
    case EvictionRule::kKnowsTheFuture:
      return "knows the future";
  }
  return "";
}

}  // namespace tutti::bench
