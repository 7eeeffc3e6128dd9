#include "coordinator/service/metrics_page.h"

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "coordinator/metrics/status_metrics.h"
#include "metrics/limits.h"

namespace tutti::coordinator {
namespace {

// The promise outlives who waits: an answer may come later, or never.
std::optional<v1::GetStatusResponse> AskEngine(EngineLoop* engine) {
  const auto promise = std::make_shared<std::promise<v1::GetStatusResponse>>();
  std::future<v1::GetStatusResponse> answer = promise->get_future();
  engine->GetStatus(
      [promise](v1::GetStatusResponse status) { promise->set_value(std::move(status)); });
  if (answer.wait_for(metrics::kScrapePatience) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace

std::string MetricsPage::Write() const {
  metrics::Exposition text;
  metrics::WriteProcess("coordinator", &text);
  metrics::WriteCertificates(certificates, &text);
  requests->Write(&text);
  steps->Write(&text);
  grammars->Write(&text);
  if (spans != nullptr) spans->WriteMetrics(&text);
  std::optional<v1::GetStatusResponse> status = AskEngine(engine);
  text.Single("tutti_engine_answered", metrics::Kind::kGauge,
              "1 if the engine told of itself within two seconds, else 0.", status ? 1 : 0);
  if (status) {
    v1::RequestCounters* const counters = status->mutable_requests();
    counters->set_invalid(counters->invalid() + door->invalid);
    WriteStatus(*status, engine->totals(), &text);
  }
  if (vllm_names) {
    requests->WriteVllm({{"model_name", model}, {"engine", "0"}}, &text);
    steps->WriteVllm(model, &text);
    if (status) WriteVllmStatus(*status, &text);
  }
  return text.Release();
}

}  // namespace tutti::coordinator
