// The counts of a gateway about the requests it answers, for Prometheus.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/http/exchange.h"
#include "metrics/exposition.h"
#include "metrics/histogram.h"

namespace tutti::gateway {

class GatewayMetrics {
 public:
  // The facts that the gateway knows of itself and of the service behind it.
  struct State {
    int64_t exchanges = 0;   // requests under way
    int64_t calls = 0;       // of Generate, to the service
    int64_t read_bytes = 0;  // from clients
    int64_t evicted = 0;     // connections that made way for others
    int64_t keys_not_kept = 0;
    int64_t held_bytes = 0;  // of large requests, and of answers that nobody reads
    bool reachable = false;
    bool ready = false;
    bool draining = false;
    int64_t grpc_calls = 0;  // of the port for gRPC, under way
    int64_t grpc_calls_begun = 0;
  };

  // `paths`: those that have a label of their own.
  GatewayMetrics(std::vector<std::string> paths, const Clock* clock);

  // The same exchange, whose answer is counted.  REQUIRES: this outlives it
  std::shared_ptr<Exchange> Count(std::shared_ptr<Exchange> exchange);
  // A request that was refused by its head.
  void CountRefused(std::string_view path, int status) { ++answers_[{LabelOf(path), status}]; }
  void Write(const State& state, metrics::Exposition* to) const;

 private:
  class Counted;

  // One of `paths`, or "other".
  std::string_view LabelOf(std::string_view path) const;

  const std::vector<std::string> paths_;
  const Clock* const clock_;
  std::map<std::pair<std::string_view, int>, uint64_t> answers_;  // by path and status
  uint64_t gone_ = 0;
  uint64_t streamed_bytes_ = 0;
  metrics::Histogram first_byte_, gap_,
      whole_;  // of answers that are streams; of all that generate
};

}  // namespace tutti::gateway
