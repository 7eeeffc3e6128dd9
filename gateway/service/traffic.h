// The traffic of this gateway lately: tokens, times and requests under way, for people who
// watch.
//
// Times are the gateway's own: from a request's arrival, with its body, to its first token, and
// from message to message of an output.
//
// Thread: the server's loop.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gateway/json_text.h"

namespace tutti::gateway {

// Counts of durations in buckets, each 15 % longer than the one before: quantiles are right to that
// much, in fixed memory.
class DurationCounts {
 public:
  void Add(Duration duration, int64_t times = 1);
  void Add(const DurationCounts& other);
  // The end of the bucket with the quantile, in milliseconds; null if there is none.
  OrderedJson QuantileMs(double quantile) const;
  int64_t total() const { return total_; }

 private:
  static constexpr int kBucketsPerOctave = 5;
  static constexpr double kFirstMs = 0.05;
  std::array<uint32_t, 112> counts_{};  // to some 240 s
  int64_t total_ = 0;
};

class Traffic {
 public:
  explicit Traffic(const Clock* clock) : clock_(clock), begin_(clock->Now()) {}

  enum class End : uint8_t { kFinished, kCancelled, kFailed };
  // A request as it is known before its first token.
  struct Request {
    std::string name;  // its x-request-id
    std::string kind;  // "chat", "text"
    std::string tenant;
    bool stream = false;
    size_t outputs = 1;
  };

  // The number to tell it by below.
  uint64_t Begin(Request request);
  // Some tokens more of one output of one prompt. Others than those under way are ignored.
  void OnTokens(uint64_t number, size_t prompt, uint32_t output, int64_t tokens);
  void OnPrompt(uint64_t number, int64_t tokens);
  // The second end of a request is ignored.
  void OnEnd(uint64_t number, End end);

  // Seconds since the beginning, whole and not.
  double now() const { return Seconds(clock_->Now() - begin_); }
  // The figures of the last kTrafficWindowS, and what is under way.
  OrderedJson Summary() const;
  // The requests under way, the oldest first, at most kRequestsShown of them.
  OrderedJson UnderWay() const;
  // Each second that is over and not before `since`, at most kTrafficHistoryS of them.
  OrderedJson History(int64_t since) const;

 private:
  struct Running {
    Request request;
    Instant begin, first, last;
    bool begun = false;  // its first token has come
    int64_t prompt_tokens = 0, tokens = 0;
    Duration gaps{};
    int64_t gap_count = 0;
    std::map<std::pair<size_t, uint32_t>, Instant> outputs;  // the last token of each
  };
  struct Second {
    int64_t number = 0;
    int64_t tokens = 0, prompt_tokens = 0;
    int64_t begun = 0, finished = 0, cancelled = 0, failed = 0, good = 0;
    int64_t under_way = 0;  // at its end, or now
    DurationCounts first, gap;
  };

  int64_t NumberNow() const { return static_cast<int64_t>(now()); }
  Second& Current();
  static bool IsGood(const Running& running);

  const Clock* const clock_;
  const Instant begin_;
  uint64_t requests_ = 0;
  std::map<uint64_t, Running> running_;
  std::deque<Second> seconds_;  // without those in which nothing happened
};

}  // namespace tutti::gateway
