#include "worker/sampling/logit_mask.h"

#include <algorithm>
#include <limits>

namespace tutti::worker {
namespace {

using kernels::TensorView;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

int64_t OutputTokens(const SequenceState& sequence) {
  return static_cast<int64_t>(sequence.tokens.size()) - sequence.prompt_tokens;
}

// A grammar's mask has seen to that: it ends an output that can do nothing else.
bool IsTooShortToEnd(const SequenceState& sequence) {
  return sequence.grammar == nullptr &&
         OutputTokens(sequence) < int64_t{sequence.sampling.min_tokens()};
}

// Whether the output ends with all but the last of `ids`.
bool EndsWithOthers(const SequenceState& sequence, const v1::BannedTokens& banned) {
  const int64_t others = banned.ids_size() - 1;
  return OutputTokens(sequence) >= others &&
         std::equal(banned.ids().begin(), banned.ids().begin() + others,
                    sequence.tokens.end() - others);
}

}  // namespace

bool HasMask(const SequenceState& sequence) {
  const v1::SequenceSampling& sampling = sequence.sampling;
  return sampling.banned_size() > 0 || sampling.allowed_ids_size() > 0 ||
         (sampling.end_ids_size() > 0 && IsTooShortToEnd(sequence));
}

void LogitMask::Apply(const SequenceState& sequence, TensorView logits) {
  if (logits.cols == 0) return;
  if (sequence.sampling.allowed_ids_size() > 0) KeepAllowed(sequence.sampling, logits);
  ListExcluded(sequence);
  if (ids_.empty()) return;
  masks_.clear();
  for (const int32_t id : ids_) masks_.push_back({.row = 0, .id = id, .bias = kExcluded});
  backend_->AdjustLogits(logits, masks_);
}

// Few of many: they are taken out, and put into a row of nothing.
void LogitMask::KeepAllowed(const v1::SequenceSampling& sampling, TensorView logits) {
  const auto& allowed = sampling.allowed_ids();
  const auto begin = std::lower_bound(allowed.begin(), allowed.end(), own_.begin);
  const auto end = std::lower_bound(begin, allowed.end(), own_.end);
  ids_.clear();
  for (auto id = begin; id != end; ++id) ids_.push_back(static_cast<int32_t>(*id - own_.begin));
  kept_.resize(ids_.size());
  if (!ids_.empty()) backend_->Pick(logits, ids_, kept_);
  row_.resize(static_cast<size_t>(logits.cols), kExcluded);
  for (size_t i = 0; i < ids_.size(); ++i) row_[static_cast<size_t>(ids_[i])] = kept_[i];
  backend_->Convert({.data = row_.data(),
                     .dtype = DType::kF32,
                     .rows = 1,
                     .cols = logits.cols,
                     .row_stride = logits.cols},
                    logits);
  for (const int32_t id : ids_) row_[static_cast<size_t>(id)] = kExcluded;
}

void LogitMask::ListExcluded(const SequenceState& sequence) {
  ids_.clear();
  const auto exclude = [this](TokenId id) {
    if (id >= own_.begin && id < own_.end) ids_.push_back(static_cast<int32_t>(id - own_.begin));
  };
  if (IsTooShortToEnd(sequence)) {
    for (const TokenId id : sequence.sampling.end_ids()) exclude(id);
  }
  for (const v1::BannedTokens& banned : sequence.sampling.banned()) {
    if (EndsWithOthers(sequence, banned)) exclude(banned.ids(banned.ids_size() - 1));
  }
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
}

}  // namespace tutti::worker
