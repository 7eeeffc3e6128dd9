// The number of tokens that the steps of each pipeline compute, counted as their results are
// committed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "metrics/exposition.h"
#include "metrics/histogram.h"

namespace tutti::coordinator {

class StepMetrics {
 public:
  // The first pipeline has samples before its first step: a name that comes later is no rate.
  StepMetrics();

  // A step of so many tokens is done.  Thread: the engine's.
  void OnStep(PipelineId pipeline, int32_t tokens);

  // Our name, and vLLM's for a model of that name: an engine for each pipeline.  Thread: any; holds
  // no lock while it writes.
  void Write(metrics::Exposition* to) const;
  void WriteVllm(const std::string& model, metrics::Exposition* to) const;

 private:
  using ByPipeline = std::map<PipelineId, metrics::Histogram>;

  metrics::Histogram* Find(PipelineId pipeline);
  std::vector<std::pair<std::string, const metrics::Histogram*>> All() const;

  mutable Mutex mutex_;
  // None is ever removed: who has found one may keep the pointer.
  ByPipeline by_pipeline_ ABSL_GUARDED_BY(mutex_);

  // Owned by the engine's thread, which takes the lock for the first step of a pipeline only.
  std::map<PipelineId, metrics::Histogram*> known_;
};

}  // namespace tutti::coordinator
