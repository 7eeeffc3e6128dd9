#include "worker/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/random.h"
#include "worker/candidate_walk.h"
#include "worker/sequence_table.h"

namespace tutti {
namespace {

using kernels::TensorView;

// Fields left at 0 are off.
float OrOne(float value) { return value == 0 ? 1 : value; }

bool WantsLogprobs(const v1::SequenceSampling& sampling) {
  return sampling.logprobs() || sampling.top_logprobs() > 0;
}

bool IsGreedy(const v1::SequenceSampling& sampling) {
  return !(sampling.temperature() >= kGreedyTemperature);
}

// The part of the candidates that may be drawn: the first `count`, whose weights sum to `total`.
struct Kept {
  int64_t count = 0;
  double total = 0;
};

// min_p keeps weights of at least min_p times the largest, which is 1; top_k the first k of them.
Kept KeepTopKAndMinP(const v1::SequenceSampling& sampling, CandidateWalk* walk) {
  const bool top_k = sampling.top_k() > 0 && sampling.top_k() < walk->size();
  if (!top_k && sampling.min_p() == 0) return {walk->size(), walk->Total()};
  const int64_t limit = top_k ? sampling.top_k() : walk->size();
  int64_t count = 1;
  if (sampling.min_p() == 0) {
    count = limit;
  } else {
    while (count < limit && walk->weight(count) >= sampling.min_p()) ++count;
  }
  return {count, walk->Cumulative(count)};
}

// The fewest candidates that hold at least top_p of what is kept.
Kept KeepTopP(float top_p, Kept kept, CandidateWalk* walk) {
  if (top_p >= 1) return kept;
  const double wanted = top_p * kept.total;
  int64_t count = 1;
  while (count < kept.count && walk->Cumulative(count) < wanted) ++count;
  return {count, walk->Cumulative(count)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sampler>> Sampler::Create(kernels::Backend* backend,
                                                         int64_t vocab_size) {
  TUTTI_ASSIGN_OR_RETURN(auto adjusted, backend->Allocate(vocab_size * sizeof(float)));
  return std::unique_ptr<Sampler>(new Sampler(backend, vocab_size, std::move(adjusted)));
}

Sampler::Sampler(kernels::Backend* backend, int64_t vocab_size,
                 std::unique_ptr<kernels::DeviceBuffer> adjusted)
    : backend_(backend), vocab_size_(vocab_size), adjusted_(std::move(adjusted)) {}

void Sampler::Sample(TensorView logits, std::span<const SampleRow> rows,
                     std::vector<v1::SampledToken>* sampled) {
  CHECK(logits.rows == static_cast<int64_t>(rows.size()) && logits.cols == vocab_size_);
  best_.resize(rows.size());
  backend_->ArgMax(logits, best_);
  for (size_t i = 0; i < rows.size(); ++i) {
    SampleRowInto(logits.Rows(static_cast<int64_t>(i), 1), *rows[i].sequence, best_[i],
                  &sampled->emplace_back());
  }
}

void Sampler::SampleRowInto(TensorView raw, const SequenceState& sequence, TokenId best,
                            v1::SampledToken* token) {
  token->set_sequence(sequence.id.value());
  token->set_position(static_cast<int32_t>(sequence.tokens.size()));
  token->set_token(best);
  if (best < 0) return;
  TensorView logits = raw;
  if (Adjust(raw, sequence)) {
    logits = AdjustedRow();
    backend_->ArgMax(logits, {&best, 1});
    token->set_token(best);
    if (best < 0) return;
  }
  if (!IsGreedy(sequence.sampling)) token->set_token(Draw(logits, sequence));
  if (WantsLogprobs(sequence.sampling)) FillLogprobs(raw, sequence, token);
}

// Puts penalties and bias into the adjusted row; false when there are none.
bool Sampler::Adjust(TensorView raw, const SequenceState& sequence) {
  const v1::SequenceSampling& sampling = sequence.sampling;
  if (!sequence.has_penalties() && sampling.bias_ids().empty()) return false;
  adjustments_.clear();
  absl::flat_hash_map<TokenId, size_t> at;
  // One adjustment for each id, so their order does not matter.
  const auto adjustment = [&](TokenId id) -> kernels::LogitAdjustment& {
    const auto [found, added] = at.try_emplace(id, adjustments_.size());
    if (added) adjustments_.push_back({.row = 0, .id = id});
    return adjustments_[found->second];
  };
  for (int i = 0; i < sampling.bias_ids_size(); ++i) {
    adjustment(sampling.bias_ids(i)).bias += sampling.bias_values(i);
  }
  if (sequence.has_penalties()) {
    for (const auto& [id, count] : sequence.counts) {
      kernels::LogitAdjustment& entry = adjustment(id);
      entry.repetition = OrOne(sampling.repetition_penalty());
      if (count.in_output == 0) continue;
      entry.bias -= sampling.presence_penalty() +
                    sampling.frequency_penalty() * static_cast<float>(count.in_output);
    }
  }
  backend_->Convert(raw, AdjustedRow());
  backend_->AdjustLogits(AdjustedRow(), adjustments_);
  return true;
}

// Inverse of the cumulative distribution over what the filters keep.
TokenId Sampler::Draw(TensorView logits, const SequenceState& sequence) {
  const v1::SequenceSampling& sampling = sequence.sampling;
  CandidateWalk walk(backend_, logits, sampling.temperature(), &candidates_);
  Kept kept = KeepTopKAndMinP(sampling, &walk);
  kept = KeepTopP(OrOne(sampling.top_p()), kept, &walk);
  const double target =
      kept.total * RandomUniform(sampling.seed(), static_cast<uint64_t>(sequence.tokens.size()));
  // Rounding may leave the target above the last sum: then the last candidate that has any weight
  // is it.
  int64_t chosen = 0;
  for (int64_t i = 0; i < kept.count; ++i) {
    if (i > 0 && walk.weight(i) == 0) break;
    chosen = i;
    if (walk.Cumulative(i + 1) > target) break;
  }
  return walk.id(chosen);
}

void Sampler::FillLogprobs(TensorView raw, const SequenceState& sequence, v1::SampledToken* token) {
  double log_sum = 0;
  backend_->LogSumExp(raw, 1, {&log_sum, 1});
  token->set_logprob(static_cast<float>(raw.f32()[token->token()] - log_sum));
  const int64_t count = std::min<int64_t>(sequence.sampling.top_logprobs(), vocab_size_);
  if (count == 0) return;
  backend_->TopCandidates(raw, 0, count, &candidates_);
  for (const kernels::Candidate& candidate : candidates_) {
    token->add_top_ids(candidate.id);
    token->add_top_logprobs(static_cast<float>(candidate.logit - log_sum));
  }
}

TensorView Sampler::AdjustedRow() const {
  return {.data = adjusted_->data(),
          .dtype = DType::kF32,
          .device = backend_->device(),
          .rows = 1,
          .cols = vocab_size_,
          .row_stride = vocab_size_};
}

}  // namespace tutti
