#include "bench/directory_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/clock.h"
#include "coordinator/kv/block_pool.h"
#include "coordinator/requests/router.h"

namespace tutti::bench {
namespace {

// Rows of the largest step: the coordinator's default.
constexpr int32_t kStepRows = 512;

struct Pipeline {
  std::unique_ptr<TraceCache> cache;
  double busy_until = 0;  // its prompts are computed one after the other
  int32_t running = 0;
  std::deque<size_t> waiting;  // for room, in order of arrival
};

class Replayer {
 public:
  Replayer(const ReplayTrace& trace, const DirectoryBenchOptions& options,
           std::vector<std::unique_ptr<TraceCache>> caches)
      : trace_(trace), options_(options), row_{.computed_s = std::vector<double>(caches.size())} {
    for (auto& cache : caches) pipelines_.push_back({.cache = std::move(cache)});
    tokens_per_second_ = options.prefill_tokens_per_second / static_cast<double>(pipelines_.size());
  }

  DirectoryBenchRow Run() {
    for (size_t i = 0; i < trace_.requests.size(); ++i) {
      now_ = trace_.requests[i].arrival_s;
      EndUntil(now_);
      const size_t chosen = Choose(trace_.requests[i]);
      Pipeline& pipeline = pipelines_[chosen];
      pipeline.waiting.push_back(i);
      Admit(chosen);
      if (!pipeline.waiting.empty()) ++row_.waited;
    }
    while (!ends_.empty()) EndUntil(ends_.top().at);
    for (const Pipeline& pipeline : pipelines_) CHECK(pipeline.waiting.empty());
    row_.ttft_mean_s /= static_cast<double>(trace_.requests.size());
    return row_;
  }

 private:
  struct Ending {
    double at = 0;
    size_t pipeline = 0;
    size_t request = 0;
    bool operator>(const Ending& other) const {
      return std::tie(at, request) > std::tie(other.at, other.request);
    }
  };

  // As the coordinator does.
  size_t Choose(const ReplayRequest& request) {
    loads_.clear();
    for (const Pipeline& pipeline : pipelines_) {
      coordinator::PipelineLoad& load = loads_.emplace_back();
      load.cached_tokens = CachedTokens(request, pipeline.cache->Matched(request));
      load.backlog_tokens =
          static_cast<int64_t>(std::max(0.0, pipeline.busy_until - now_) * tokens_per_second_);
      load.running = pipeline.running;
      load.waiting = static_cast<int32_t>(pipeline.waiting.size());
      load.has_room = pipeline.waiting.empty();
    }
    return *coordinator::ChoosePipeline(loads_, request.input_tokens, kStepRows);
  }

  static int64_t CachedTokens(const ReplayRequest& request, int64_t matched) {
    return std::min(matched * kReplayBlockTokens, request.input_tokens - 1);
  }

  void Admit(size_t index) {
    Pipeline& pipeline = pipelines_[index];
    while (!pipeline.waiting.empty()) {
      const size_t number = pipeline.waiting.front();
      const ReplayRequest& request = trace_.requests[number];
      const int64_t matched = pipeline.cache->Matched(request);
      if (!pipeline.cache->Begin(number)) return;
      pipeline.waiting.pop_front();
      const double seconds =
          static_cast<double>(request.input_tokens - CachedTokens(request, matched)) /
          tokens_per_second_;
      ++pipeline.running;
      pipeline.busy_until = std::max(pipeline.busy_until, now_) + seconds;
      row_.computed_s[index] += seconds;
      row_.blocks += static_cast<int64_t>(request.blocks.size());
      row_.hits += matched;
      row_.ttft_mean_s += pipeline.busy_until - request.arrival_s;
      ends_.push(
          {pipeline.busy_until + options_.itl_ms / 1e3 * static_cast<double>(request.output_tokens),
           index, number});
    }
  }

  void EndUntil(double time) {
    while (!ends_.empty() && ends_.top().at <= time) {
      const Ending ending = ends_.top();
      ends_.pop();
      now_ = ending.at;
      pipelines_[ending.pipeline].cache->End(ending.request);
      --pipelines_[ending.pipeline].running;
      Admit(ending.pipeline);
    }
    now_ = time;
  }

  const ReplayTrace& trace_;
  const DirectoryBenchOptions& options_;
  std::vector<Pipeline> pipelines_;
  std::vector<coordinator::PipelineLoad> loads_;  // kept for its memory
  double tokens_per_second_ = 0;
  double now_ = 0;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ends_;
  DirectoryBenchRow row_;
};

std::string CheckOptions(const DirectoryBenchOptions& options) {
  for (const int32_t pipelines : options.pipelines) {
    if (pipelines < 1 || pipelines > 1024) {
      return absl::StrCat("--pipelines ", pipelines, ": must be 1 to 1024");
    }
  }
  for (const int32_t percent : options.pool_percent) {
    if (percent < 1 || percent > 1000) {
      return absl::StrCat("--pool-percent ", percent, ": must be 1 to 1000");
    }
  }
  if (!(options.prefill_tokens_per_second > 0) || !(options.itl_ms >= 0)) {
    return "--prefill-tokens-per-second must be above 0, --itl-ms at least 0";
  }
  return "";
}

// A pipeline's share of the pool, and never less than the largest request.
int32_t BlocksEach(const TraceFacts& facts, int32_t percent, int32_t pipelines) {
  const int64_t pool = (facts.different * percent + 99) / 100;
  return static_cast<int32_t>(std::max((pool + pipelines - 1) / pipelines, facts.largest));
}

void PrintRow(const DirectoryBenchOptions& options, const TraceFacts& facts, int32_t pipelines,
              int32_t percent, const std::string& rule, int32_t blocks,
              const DirectoryBenchRow& row, std::string* json) {
  const double of_best = row.hit_rate() / facts.best_hit_rate;
  if (options.json) {
    absl::StrAppendFormat(json,
                          "%s{\"pipelines\": %d, \"pool_percent\": %d, \"rule\": \"%s\", "
                          "\"blocks_each\": %d, \"hit_rate\": %.4f, \"of_best\": %.4f, "
                          "\"spread\": %.3f, \"waited\": %d, \"ttft_mean_s\": %.3f}",
                          json->empty() ? "" : ", ", pipelines, percent, rule, blocks,
                          row.hit_rate(), of_best, row.spread(), row.waited, row.ttft_mean_s);
    return;
  }
  std::printf("%9d %6d %% %-24s %8d %8.1f %% %8.1f %% %7.2f %7ld %9.2f\n", pipelines, percent,
              rule.c_str(), blocks, 100 * row.hit_rate(), 100 * of_best, row.spread(),
              static_cast<long>(row.waited), row.ttft_mean_s);
}

}  // namespace

double DirectoryBenchRow::spread() const {
  const double sum = std::accumulate(computed_s.begin(), computed_s.end(), 0.0);
  const double most = *std::max_element(computed_s.begin(), computed_s.end());
  return sum > 0 ? most * static_cast<double>(computed_s.size()) / sum : 1;
}

TraceFacts FactsOf(const ReplayTrace& trace) {
  TraceFacts facts;
  std::unordered_set<int32_t> seen;
  int64_t hits = 0;
  for (const ReplayRequest& request : trace.requests) {
    const auto count = static_cast<int64_t>(request.blocks.size());
    facts.blocks += count;
    facts.largest = std::max(facts.largest, count);
    const auto end = std::find_if(request.blocks.begin(), request.blocks.end(),
                                  [&](int32_t id) { return !seen.contains(id); });
    hits += end - request.blocks.begin();
    seen.insert(request.blocks.begin(), request.blocks.end());
  }
  facts.different = static_cast<int64_t>(seen.size());
  facts.best_hit_rate = static_cast<double>(hits) / static_cast<double>(facts.blocks);
  return facts;
}

DirectoryBenchRow Replay(const ReplayTrace& trace, const DirectoryBenchOptions& options,
                         int32_t num_pipelines, int32_t num_blocks) {
  coordinator::KvDirectory directory({.key = {1, 2}, .block_size = 1});
  std::vector<std::unique_ptr<TraceCache>> caches;
  for (int32_t i = 0; i < num_pipelines; ++i) {
    caches.push_back(MakeOwnCache(trace, &directory, PipelineId(i), num_blocks));
  }
  return Replayer(trace, options, std::move(caches)).Run();
}

DirectoryBenchRow ReplayRule(const ReplayTrace& trace, const DirectoryBenchOptions& options,
                             EvictionRule rule, int32_t num_blocks) {
  std::vector<std::unique_ptr<TraceCache>> caches;
  caches.push_back(MakeRuleCache(trace, rule, num_blocks));
  return Replayer(trace, options, std::move(caches)).Run();
}

BlockCost MeasureBlockCost(int32_t blocks) {
  constexpr int32_t kTokens = 16;
  constexpr int32_t kChain = 64;
  CHECK(blocks > 0 && blocks % kChain == 0);
  coordinator::KvDirectory directory({.key = {1, 2}, .block_size = kTokens});
  directory.OpenPipeline(PipelineId(0), blocks);
  const coordinator::BlockPool pool(blocks);
  std::vector<TokenId> tokens(kChain * kTokens);
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t block = 0; block < blocks; ++block) {
    const int32_t at = block % kChain;
    if (at == 0) std::iota(tokens.begin(), tokens.end(), block);
    const auto parent = at == 0 ? std::nullopt : std::optional(BlockId(block - 1));
    directory.Publish(PipelineId(0), {}, parent, BlockId(block),
                      std::span(tokens).subspan(at * kTokens, kTokens));
  }
  const auto middle = std::chrono::steady_clock::now();
  for (int32_t block = 0; block < blocks; block += kChain) {
    std::iota(tokens.begin(), tokens.end(), block);
    CHECK(directory.Lookup({}, tokens, PipelineId(0)).size() == kChain);
  }
  const auto end = std::chrono::steady_clock::now();
  return {.blocks = blocks,
          .directory_bytes = static_cast<double>(directory.memory_bytes()) / blocks,
          .pool_bytes = static_cast<double>(pool.memory_bytes()) / blocks,
          .publish_ns = Seconds(middle - begin) * 1e9 / blocks,
          .lookup_ns = Seconds(end - middle) * 1e9 / blocks};
}

int RunDirectoryBench(const DirectoryBenchOptions& options) {
  const std::string wrong = CheckOptions(options);
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return 2;
  }
  const absl::StatusOr<ReplayTrace> trace = ReadReplayTrace(options.trace, options.skip_broken);
  if (!trace.ok()) {
    std::fprintf(stderr, "%s\n", std::string(trace.status().message()).c_str());
    return 2;
  }
  for (const std::string& line : trace->broken) {
    std::fprintf(stderr, "left out: %s\n", line.c_str());
  }
  const TraceFacts facts = FactsOf(*trace);
  if (!options.json) {
    std::printf(
        "%ld requests, %ld blocks of %ld tokens, %ld different; best possible hit rate %.1f %%\n\n"
        "%9s %8s %-24s %8s %10s %10s %7s %7s %9s\n",
        static_cast<long>(trace->requests.size()), static_cast<long>(facts.blocks),
        static_cast<long>(kReplayBlockTokens), static_cast<long>(facts.different),
        100 * facts.best_hit_rate, "pipelines", "pool", "eviction", "blocks", "hit rate", "of best",
        "spread", "waited", "TTFT s");
  }
  std::string json;
  for (const int32_t percent : options.pool_percent) {
    const std::string own(EvictionRuleName(EvictionRule::kLeastRecentlyReleased));
    for (const int32_t pipelines : options.pipelines) {
      const int32_t blocks = BlocksEach(facts, percent, pipelines);
      PrintRow(options, facts, pipelines, percent, own, blocks,
               Replay(*trace, options, pipelines, blocks), &json);
    }
    for (const EvictionRule rule : {EvictionRule::kHeadsBeforeTails, EvictionRule::kFirstComputed,
                                    EvictionRule::kLeastUsed, EvictionRule::kKnowsTheFuture}) {
      const int32_t blocks = BlocksEach(facts, percent, 1);
      PrintRow(options, facts, 1, percent, std::string(EvictionRuleName(rule)), blocks,
               ReplayRule(*trace, options, rule, blocks), &json);
    }
  }
  const BlockCost cost = MeasureBlockCost(1 << 17);
  if (options.json) {
    std::printf(
        "{\"best_hit_rate\": %.4f, \"requests\": %zu, \"left_out\": %zu, \"rows\": [%s], "
        "\"block_bytes\": %.1f, \"publish_ns\": %.0f, \"lookup_ns\": %.0f}\n",
        facts.best_hit_rate, trace->requests.size(), trace->broken.size(), json.c_str(),
        cost.directory_bytes + cost.pool_bytes, cost.publish_ns, cost.lookup_ns);
    return 0;
  }
  std::printf(
      "\n%ld cached blocks of 16 tokens: %.1f bytes each beside the tokens (%.1f in the directory, "
      "%.1f in the pool); %.0f ns to publish one, %.0f ns to find one\n",
      static_cast<long>(cost.blocks), cost.directory_bytes + cost.pool_bytes, cost.directory_bytes,
      cost.pool_bytes, cost.publish_ns, cost.lookup_ns);
  return 0;
}

}  // namespace tutti::bench
