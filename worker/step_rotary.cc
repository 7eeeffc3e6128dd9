#include "worker/step_rotary.h"

#include "model/rotary.h"
#include "worker/limits.h"

namespace tutti::worker {

StepRotary::StepRotary(const model::ModelConfig& config)
    : rope_(config.rope), head_dim_(config.head_dim), logn_length_(config.logn_length) {}

void StepRotary::Prepare(const Batch& batch) {
  runs_.clear();
  const bool by_length = rope_.scaling == model::RopeConfig::Scaling::kDynamic;
  if (by_length && frequencies_.size() > kRotaryVariantsKept) frequencies_.clear();
  for (size_t s = 0; s < batch.prompt_tokens.size(); ++s) {
    const int64_t variant = model::RopeVariant(rope_, batch.prompt_tokens[s]);
    const int64_t begin = batch.row_begin[s];
    const int64_t end = batch.row_begin[s + 1];
    for (int64_t row = begin, next = begin; row < end; row = next) {
      const int64_t own = by_length ? VariantAt(batch, variant, row) : variant;
      next = by_length ? row + 1 : end;
      while (next < end && VariantAt(batch, variant, next) == own) ++next;
      Add(row, next - row, &Frequencies(own));
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

int64_t StepRotary::VariantAt(const Batch& batch, int64_t variant, int64_t row) const {
  return model::RopeVariantAt(rope_, variant, batch.positions[static_cast<size_t>(row)]);
}

void StepRotary::Add(int64_t first_row, int64_t rows, const std::vector<float>* frequencies) {
  if (!runs_.empty() && runs_.back().inverse_frequency == frequencies) {
    runs_.back().rows += rows;
  } else {
    runs_.push_back({first_row, rows, frequencies});
  }
}

const std::vector<float>& StepRotary::Frequencies(int64_t variant) {
  const auto [at, added] = frequencies_.try_emplace(variant);
  if (added) at->second = model::RopeFrequencies(rope_, head_dim_, variant);
  return at->second;
}

}  // namespace tutti::worker
