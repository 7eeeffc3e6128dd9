#include "gateway/kserve/infer_counts.h"

#include <algorithm>

#include "gateway/kserve/model_facts.h"

namespace tutti::gateway {
namespace {

void Count(double ns, inference::StatisticDuration* duration) {
  duration->set_count(duration->count() + 1);
  duration->set_ns(duration->ns() + static_cast<uint64_t>(std::max(ns, 0.0)));
}

}  // namespace

void InferCounts::Add(const absl::Status& end, Duration took, const v1::Timing& timing,
                      int64_t now_unix_ms) {
  constexpr double kNsPerMs = 1e6;
  const auto ns = std::chrono::duration<double, std::nano>(took).count();
  const MutexLock lock(&mutex_);
  inference::InferStatistics* const all = counts_.mutable_inference_stats();
  counts_.set_last_inference(static_cast<uint64_t>(now_unix_ms));
  if (!end.ok()) return Count(ns, all->mutable_fail());
  counts_.set_inference_count(counts_.inference_count() + 1);
  counts_.set_execution_count(counts_.execution_count() + 1);
  Count(ns, all->mutable_success());
  Count(timing.queue_ms() * kNsPerMs, all->mutable_queue());
  Count((timing.total_ms() - timing.queue_ms()) * kNsPerMs, all->mutable_compute_infer());
  // Tensors are read and written within microseconds.
  Count(0, all->mutable_compute_input());
  Count(0, all->mutable_compute_output());
}

inference::ModelStatisticsResponse InferCounts::Describe(const std::string& model) const {
  inference::ModelStatisticsResponse response;
  const MutexLock lock(&mutex_);
  inference::ModelStatistics* const counts = response.add_model_stats();
  *counts = counts_;
  counts->set_name(model);
  counts->set_version(kModelVersion);
  counts->mutable_inference_stats();
  return response;
}

}  // namespace tutti::gateway
