// The pipelines that may have a step to plan: each once, in the order in which something happened
// to them. Admission and the commit of steps add, the engine plans for all of them in Advance.
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace tutti::coordinator {

class StepsDue {
 public:
  // Allocates only when the pipeline's id is the largest so far.
  void Add(PipelineId pipeline) {
    const size_t index = pipeline.value();
    if (index >= is_due_.size()) {
      is_due_.resize(index + 1);
      pipelines_.reserve(index + 1);
    }
    if (is_due_[index] != 0) return;
    is_due_[index] = 1;
    pipelines_.push_back(pipeline);
  }
  const std::vector<PipelineId>& pipelines() const { return pipelines_; }
  void Clear() {
    for (const PipelineId pipeline : pipelines_) is_due_[pipeline.value()] = 0;
    pipelines_.clear();
  }

 private:
  std::vector<PipelineId> pipelines_;
  std::vector<uint8_t> is_due_;  // by pipeline id: 1: it is in pipelines_
};

}  // namespace tutti::coordinator
