// Times and tokens of requests, counted as their answers pass by. No tenant, no prompt, no name.
//
// Every output of a request is counted by itself, as a request with one output would be.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "metrics/exposition.h"
#include "metrics/histogram.h"

namespace tutti::coordinator {

// An output's good end. Times as in v1::Timing, counted from the request's arrival.
struct OutputEnd {
  bool at_length = false;  // it has all the tokens it may have
  Duration queue{};
  Duration first_token{};
  Duration total{};
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of prompt_tokens
  int64_t generated_tokens = 0;
  int64_t preemptions = 0;
  int64_t max_tokens = 0;  // 0: not known
};

class RequestMetrics {
 public:
  // The context's length bounds the histograms of tokens.
  explicit RequestMetrics(int64_t max_model_len);

  // ---- Thread: the output hub's.

  void OnOpen(int32_t outputs) { outputs_.Observe(outputs); }
  void OnFirstToken(Duration since_arrival) { first_token_.Observe(Seconds(since_arrival)); }
  // The time from one delivery of tokens to the next.
  void OnGap(Duration gap) { gap_.Observe(Seconds(gap)); }
  void OnEnd(const OutputEnd& end);
  // The last output of a request has ended, the longest had so many tokens.
  void OnLongest(int64_t tokens) { longest_.Observe(static_cast<double>(tokens)); }
  void OnFailure(absl::StatusCode code, int64_t outputs);
  void OnClientGone(int64_t outputs) { gone_.Add(static_cast<uint64_t>(outputs)); }

  // ---- Thread: any.

  // Our names.
  void Write(metrics::Exposition* to) const;
  // vLLM's, with its labels.
  void WriteVllm(const metrics::Labels& labels, metrics::Exposition* to) const;

 private:
  struct Family;
  static const Family kFamilies[];

  // Codes of gRPC, 0 to 16.
  static constexpr size_t kCodes = 17;

  metrics::Histogram first_token_, gap_, per_token_, whole_, queue_, inference_, prefill_, decode_;
  metrics::Histogram prompt_, generated_, longest_, max_tokens_, computed_, outputs_;
  metrics::Histogram preemptions_;
  metrics::Counter stopped_, at_length_, gone_, prompt_tokens_, cached_tokens_, generated_tokens_;
  std::array<metrics::Counter, kCodes> failed_;
};

}  // namespace tutti::coordinator
