#include "gateway/service/traffic.h"

#include <algorithm>
#include <cmath>

#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

OrderedJson Quantiles(const DurationCounts& counts) {
  return {{"count", counts.total()},
          {"p50", counts.QuantileMs(0.5)},
          {"p90", counts.QuantileMs(0.9)},
          {"p99", counts.QuantileMs(0.99)}};
}

}  // namespace

void DurationCounts::Add(Duration duration, int64_t times) {
  const double ms = std::max(Milliseconds(duration), kFirstMs);
  const auto bucket = static_cast<size_t>(std::ceil(std::log2(ms / kFirstMs) * kBucketsPerOctave));
  counts_[std::min(bucket, counts_.size() - 1)] += static_cast<uint32_t>(times);
  total_ += times;
}

void DurationCounts::Add(const DurationCounts& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  total_ += other.total_;
}

OrderedJson DurationCounts::QuantileMs(double quantile) const {
  if (total_ == 0) return nullptr;
  const auto wanted =
      std::max<int64_t>(std::llround(std::ceil(quantile * static_cast<double>(total_))), 1);
  int64_t seen = 0;
  size_t bucket = 0;
  while (bucket + 1 < counts_.size() && (seen += counts_[bucket]) < wanted) ++bucket;
  const double ms = kFirstMs * std::exp2(static_cast<double>(bucket) / kBucketsPerOctave);
  return std::round(ms * 1000) / 1000;
}

Traffic::Second& Traffic::Current() {
  const int64_t number = NumberNow();
  if (seconds_.empty() || seconds_.back().number != number) {
    seconds_.push_back({.number = number});
    seconds_.back().under_way = static_cast<int64_t>(running_.size());
    while (seconds_.front().number <= number - kTrafficHistoryS - 1) seconds_.pop_front();
  }
  return seconds_.back();
}

uint64_t Traffic::Begin(Request request) {
  Second& second = Current();
  Running running{.request = std::move(request), .begin = clock_->Now()};
  running_.emplace(++requests_, std::move(running));
  ++second.begun;
  second.under_way = static_cast<int64_t>(running_.size());
  return requests_;
}

void Traffic::OnPrompt(uint64_t number, int64_t tokens) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  found->second.prompt_tokens += tokens;
  Current().prompt_tokens += tokens;
}

void Traffic::OnTokens(uint64_t number, size_t prompt, uint32_t output, int64_t tokens) {
  const auto found = running_.find(number);
  if (found == running_.end() || tokens <= 0) return;
  Running& running = found->second;
  Second& second = Current();
  const Instant now = clock_->Now();
  second.tokens += tokens;
  running.tokens += tokens;
  if (!running.begun) {
    running.begun = true;
    running.first = now;
    second.first.Add(now - running.begin);
  }
  const auto [last, is_first] = running.outputs.try_emplace({prompt, output}, now);
  if (is_first) return;
  // Tokens that came together share the time.
  const Duration gap = now - std::exchange(last->second, now);
  second.gap.Add(gap / tokens, tokens);
  running.gaps += gap;
  running.gap_count += tokens;
}

bool Traffic::IsGood(const Running& running) {
  return running.begun && running.first - running.begin <= kGoodFirstToken &&
         running.gaps <= running.gap_count * kGoodGap;
}

void Traffic::OnEnd(uint64_t number, End end) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  Second& second = Current();
  if (end == End::kFinished) ++second.finished;
  if (end == End::kCancelled) ++second.cancelled;
  if (end == End::kFailed) ++second.failed;
  if (end == End::kFinished && IsGood(found->second)) ++second.good;
  running_.erase(found);
  second.under_way = static_cast<int64_t>(running_.size());
}

OrderedJson Traffic::Summary() const {
  Second sum;
  const int64_t now = NumberNow();
  // The second that runs is not over.
  for (const Second& second : seconds_) {
    if (second.number < now - kTrafficWindowS || second.number >= now) continue;
    sum.tokens += second.tokens;
    sum.prompt_tokens += second.prompt_tokens;
    sum.finished += second.finished;
    sum.cancelled += second.cancelled;
    sum.failed += second.failed;
    sum.good += second.good;
    sum.first.Add(second.first);
    sum.gap.Add(second.gap);
  }
  // A gateway that has just begun has no whole window.
  const auto window = static_cast<double>(std::clamp<int64_t>(now, 1, kTrafficWindowS));
  const auto rate = [window](int64_t count) { return static_cast<double>(count) / window; };
  const int64_t ended = sum.finished + sum.failed;
  return {{"window_seconds", window},
          {"tokens_per_second", rate(sum.tokens)},
          {"prompt_tokens_per_second", rate(sum.prompt_tokens)},
          {"requests_per_second", rate(ended)},
          {"finished", sum.finished},
          {"cancelled", sum.cancelled},
          {"failed", sum.failed},
          {"ttft_ms", Quantiles(sum.first)},
          {"itl_ms", Quantiles(sum.gap)},
          {"good", sum.good},
          {"goodput_per_second", rate(sum.good)},
          {"good_share",
           ended == 0 ? OrderedJson()
                      : OrderedJson(static_cast<double>(sum.good) / static_cast<double>(ended))},
          {"good_ttft_ms", Milliseconds(kGoodFirstToken)},
          {"good_itl_ms", Milliseconds(kGoodGap)},
          {"under_way", running_.size()}};
}

OrderedJson Traffic::UnderWay() const {
  OrderedJson list = OrderedJson::array();
  const Instant now = clock_->Now();
  for (const auto& [number, running] : running_) {
    if (list.size() >= kRequestsShown) break;
    OrderedJson row = {{"id", running.request.name},
                       {"kind", running.request.kind},
                       {"tenant", running.request.tenant},
                       {"stream", running.request.stream},
                       {"outputs", running.request.outputs},
                       {"seconds", Seconds(now - running.begin)},
                       {"prompt_tokens", running.prompt_tokens},
                       {"tokens", running.tokens},
                       {"ttft_ms", nullptr},
                       {"itl_ms", nullptr}};
    if (running.begun) row["ttft_ms"] = Milliseconds(running.first - running.begin);
    if (running.gap_count > 0) {
      row["itl_ms"] = Milliseconds(running.gaps) / static_cast<double>(running.gap_count);
    }
    list.push_back(std::move(row));
  }
  return list;
}

OrderedJson Traffic::History(int64_t since) const {
  OrderedJson list = OrderedJson::array();
  const int64_t now = NumberNow();
  for (const Second& second : seconds_) {
    if (second.number < std::max(since, now - kTrafficHistoryS) || second.number >= now) continue;
    list.push_back({{"t", second.number},
                    {"tokens", second.tokens},
                    {"prompt_tokens", second.prompt_tokens},
                    {"begun", second.begun},
                    {"finished", second.finished},
                    {"failed", second.failed},
                    {"good", second.good},
                    {"under_way", second.under_way},
                    {"ttft_p50", second.first.QuantileMs(0.5)},
                    {"ttft_p99", second.first.QuantileMs(0.99)},
                    {"itl_p50", second.gap.QuantileMs(0.5)},
                    {"itl_p99", second.gap.QuantileMs(0.99)}});
  }
  return list;
}

}  // namespace tutti::gateway
