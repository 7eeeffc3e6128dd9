#include "coordinator/metrics/step_metrics.h"

#include "absl/strings/str_cat.h"
#include "metrics/buckets.h"

namespace tutti::coordinator {

using metrics::Exposition;
using metrics::Histogram;
using metrics::Kind;

StepMetrics::StepMetrics() { Find(PipelineId(0)); }

Histogram* StepMetrics::Find(PipelineId pipeline) {
  const MutexLock lock(&mutex_);
  return &by_pipeline_.try_emplace(pipeline, metrics::StepTokensBounds()).first->second;
}

void StepMetrics::OnStep(PipelineId pipeline, int32_t tokens) {
  Histogram*& histogram = known_[pipeline];
  if (histogram == nullptr) histogram = Find(pipeline);
  histogram->Observe(static_cast<double>(tokens));
}

std::vector<std::pair<std::string, const Histogram*>> StepMetrics::All() const {
  std::vector<std::pair<std::string, const Histogram*>> all;
  const MutexLock lock(&mutex_);
  for (const auto& [pipeline, histogram] : by_pipeline_) {
    all.emplace_back(absl::StrCat(pipeline.value()), &histogram);
  }
  return all;
}

void StepMetrics::Write(Exposition* to) const {
  to->Begin("tutti_pipeline_step_tokens", Kind::kHistogram, "Tokens that a step computed.");
  for (const auto& [pipeline, histogram] : All()) histogram->Write({{"pipeline", pipeline}}, to);
}

void StepMetrics::WriteVllm(const std::string& model, Exposition* to) const {
  to->Begin("vllm:iteration_tokens_total", Kind::kHistogram, "Tokens that a step computed.");
  for (const auto& [pipeline, histogram] : All()) {
    histogram->Write({{"model_name", model}, {"engine", pipeline}}, to);
  }
}

}  // namespace tutti::coordinator
