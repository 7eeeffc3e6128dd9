// The figures of a load test.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "client/load/histogram.h"
#include "client/load/turn.h"

namespace tutti::client {

// The times that a turn must keep to count as good. Unset: any time.
struct Slo {
  std::optional<Duration> first_token;
  std::optional<Duration> token_gap;  // on average over the turn
};

// What a load was told to be; of each the one that was given, else 0.
struct LoadShape {
  double rate = 0;  // requests per second
  int32_t concurrency = 0;
};

// Sums up turns as they end; holds none of them.  Thread: one.
class LoadReport {
 public:
  explicit LoadReport(Slo slo) : slo_(slo) {}

  void Add(const Turn& turn);
  // The time that the load ran, whether it was interrupted, and its most requests at a time.
  void Close(Duration elapsed, bool interrupted, int64_t most_at_once);

  int64_t succeeded() const { return succeeded_; }
  // The share of right answers among those to questions with a known one; none without any.
  std::optional<double> right_share() const;

  std::string ToText() const;
  nlohmann::ordered_json ToJson() const;

  // The figures under the names and in the order of `vllm bench serve`.
  std::string ToVllmText(const LoadShape& shape) const;

 private:
  // Prompt tokens of the turns that were a chat's nth.
  struct Cache {
    int64_t turns = 0;
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t repeated_tokens = 0;
  };
  struct Failures {
    Histogram time;  // from due to the end, all of them
    std::string example;
  };
  bool Good(const Turn& turn) const;
  // Counts its tokens in the seconds in which they came.
  void AddTokens(const Turn& turn);
  void AddToSecond(Duration at, int64_t tokens);
  Cache Total() const;

  const Slo slo_;
  Duration elapsed_{};
  bool interrupted_ = false;
  int64_t most_at_once_ = 0;
  int64_t succeeded_ = 0;
  int64_t refusals_ = 0;  // after which requests were asked again
  int64_t good_ = 0;
  int64_t output_tokens_ = 0;
  int64_t answers_known_ = 0;
  int64_t answers_right_ = 0;
  Histogram first_token_;
  Histogram token_gap_;
  Histogram mean_gap_;  // of each turn with two tokens and more
  Histogram total_;
  std::map<int64_t, int64_t> tokens_in_;  // by second since the load began
  std::map<int32_t, Cache> cache_;        // by turn
  std::map<absl::StatusCode, Failures> failures_;
};

}  // namespace tutti::client
