#include "worker/step_rotary.h"

#include "model/rotary.h"

namespace tutti::worker {

StepRotary::StepRotary(const model::ModelConfig& config)
    : rope_(config.rope), head_dim_(config.head_dim), logn_length_(config.logn_length) {}

void StepRotary::Prepare(const Batch& batch) {
  runs_.clear();
  for (size_t s = 0; s < batch.prompt_tokens.size(); ++s) {
    const auto* frequencies = &Frequencies(model::RopeVariant(rope_, batch.prompt_tokens[s]));
    const int64_t rows = batch.row_begin[s + 1] - batch.row_begin[s];
    if (!runs_.empty() && runs_.back().inverse_frequency == frequencies) {
      runs_.back().rows += rows;
    } else {
      runs_.push_back({batch.row_begin[s], rows, frequencies});
    }
  }
  query_scale_.clear();
  if (logn_length_ == 0) return;
  bool any = false;
  for (const int32_t position : batch.positions) {
    query_scale_.push_back(model::LognScale(logn_length_, position));
    any = any || query_scale_.back() != 1;
  }
  if (!any) query_scale_.clear();
}

const std::vector<float>& StepRotary::Frequencies(int64_t variant) {
  const auto [at, added] = frequencies_.try_emplace(variant);
  if (added) at->second = model::RopeFrequencies(rope_, head_dim_, variant);
  return at->second;
}

}  // namespace tutti::worker
