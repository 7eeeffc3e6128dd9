#include "gateway/gateway_metrics.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "metrics/buckets.h"

namespace tutti::gateway {

using metrics::Exposition;
using metrics::Kind;

// Passes everything on, and looks at the time.
class GatewayMetrics::Counted : public Exchange {
 public:
  Counted(std::shared_ptr<Exchange> exchange, GatewayMetrics* metrics)
      : exchange_(std::move(exchange)),
        metrics_(metrics),
        path_(metrics->LabelOf(exchange_->request().path)),
        generates_(exchange_->request().method == "POST"),
        last_(metrics->clock_->Now()),
        begin_(last_) {}

  HttpRequest& request() override { return exchange_->request(); }

  void Reply(HttpResponse response) override {
    Answered(response.status);
    Ended();
    exchange_->Reply(std::move(response));
  }
  void Begin(HttpResponse response) override {
    Answered(response.status);
    last_ = metrics_->clock_->Now();
    metrics_->first_byte_.Observe(Seconds(last_ - begin_));
    metrics_->streamed_bytes_ += response.body.size();
    exchange_->Begin(std::move(response));
  }
  void Write(std::string piece) override {
    const Instant now = metrics_->clock_->Now();
    metrics_->gap_.Observe(Seconds(now - last_));
    metrics_->streamed_bytes_ += piece.size();
    last_ = now;
    exchange_->Write(std::move(piece));
  }
  void End() override {
    Ended();
    exchange_->End();
  }
  void OnGone(std::function<void()> gone) override {
    exchange_->OnGone([metrics = metrics_, gone = std::move(gone)] {
      ++metrics->gone_;
      gone();
    });
  }

 private:
  void Answered(int status) { ++metrics_->answers_[{path_, status}]; }
  void Ended() {
    if (generates_) metrics_->whole_.Observe(Seconds(metrics_->clock_->Now() - begin_));
  }

  const std::shared_ptr<Exchange> exchange_;
  GatewayMetrics* const metrics_;
  const std::string_view path_;
  const bool generates_;
  Instant last_;
  const Instant begin_;
};

GatewayMetrics::GatewayMetrics(std::vector<std::string> paths, const Clock* clock)
    : paths_(std::move(paths)),
      clock_(clock),
      first_byte_(metrics::FirstTokenBounds()),
      gap_(metrics::GapBounds()),
      whole_(metrics::RequestBounds()) {}

std::string_view GatewayMetrics::LabelOf(std::string_view path) const {
  for (const std::string& known : paths_) {
    const bool below = path.size() > known.size() && path[known.size()] == '/' &&
                       path.substr(0, known.size()) == known;
    if (path == known || below) return known;
  }
  return "other";
}

std::shared_ptr<Exchange> GatewayMetrics::Count(std::shared_ptr<Exchange> exchange) {
  return std::make_shared<Counted>(std::move(exchange), this);
}

void GatewayMetrics::Write(const State& state, Exposition* to) const {
  to->Begin("tutti_gateway_requests_total", Kind::kCounter, "Requests answered.");
  for (const auto& [key, count] : answers_) {
    to->Sample({{"path", key.first}, {"status", absl::StrCat(key.second)}},
               static_cast<double>(count));
  }
  to->Single("tutti_gateway_clients_gone_total", Kind::kCounter,
             "Clients that left, or read too slowly, before the end of their answer.",
             static_cast<double>(gone_));
  to->Single("tutti_gateway_streamed_bytes_total", Kind::kCounter, "Bytes of events.",
             static_cast<double>(streamed_bytes_));
  to->Single("tutti_gateway_read_bytes_total", Kind::kCounter,
             "Bytes read from clients, those that nobody looked at among them.",
             static_cast<double>(state.read_bytes));
  to->Single("tutti_gateway_evicted_connections_total", Kind::kCounter,
             "Connections that made way for others when there was no place.",
             static_cast<double>(state.evicted));
  to->Single("tutti_gateway_keys_not_kept_total", Kind::kCounter,
             "Answers with an Idempotency-Key that a repeat would not have found.",
             static_cast<double>(state.keys_not_kept));
  to->Single("tutti_gateway_held_bytes", Kind::kGauge,
             "Bytes of large requests, and of answers that lie unread.",
             static_cast<double>(state.held_bytes));
  to->Begin("tutti_gateway_time_to_first_event_seconds", Kind::kHistogram,
            "From a request's end to the first event of its stream.");
  first_byte_.Write({}, to);
  to->Begin("tutti_gateway_event_gap_seconds", Kind::kHistogram,
            "From events of a stream to the next.");
  gap_.Write({}, to);
  to->Begin("tutti_gateway_request_seconds", Kind::kHistogram,
            "From the end of a POST request to the end of its answer.");
  whole_.Write({}, to);
  to->Single("tutti_gateway_exchanges", Kind::kGauge, "Requests under way.",
             static_cast<double>(state.exchanges));
  to->Single("tutti_gateway_calls", Kind::kGauge, "Calls of Generate under way.",
             static_cast<double>(state.calls));
  to->Single("tutti_gateway_service_reachable", Kind::kGauge,
             "1 while the service behind answers, else 0.", state.reachable ? 1 : 0);
  to->Single("tutti_gateway_service_ready", Kind::kGauge,
             "1 while it has had a complete pipeline, else 0.", state.ready ? 1 : 0);
  to->Single("tutti_gateway_grpc_calls", Kind::kGauge, "Calls of gRPC clients under way.",
             static_cast<double>(state.grpc_calls));
  to->Single("tutti_gateway_grpc_calls_total", Kind::kCounter, "Calls of gRPC clients.",
             static_cast<double>(state.grpc_calls_begun));
  to->Single("tutti_gateway_draining", Kind::kGauge, "1 once it is about to end.",
             state.draining ? 1 : 0);
}

}  // namespace tutti::gateway
