#include "worker/sampling/sampler.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/random.h"
#include "worker/sampling/candidate_walk.h"
#include "worker/sequence_table.h"

namespace tutti::worker {
namespace {

using kernels::TensorView;

// Fields left at 0 are off.
float OrOne(float value) { return value == 0 ? 1 : value; }

bool WantsLogprobs(const v1::SequenceSampling& sampling) {
  return sampling.logprobs() || sampling.top_logprobs() > 0;
}

bool IsAdjusted(const SequenceState& sequence) {
  return sequence.has_penalties() || !sequence.sampling.bias_ids().empty();
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

// The fewest candidates that hold at least top_p of the weight of those kept.
Kept KeepTopP(float top_p, Kept kept, CandidateWalk* walk) {
  if (top_p >= 1) return kept;
  const double wanted = top_p * kept.total;
  int64_t count = 1;
  while (count < kept.count && walk->Cumulative(count) < wanted) ++count;
  return {count, walk->Cumulative(count)};
}

RowQuestion QuestionOf(const SequenceState& sequence, int64_t vocab_size) {
  const v1::SequenceSampling& sampling = sequence.sampling;
  return {.adjusted = IsAdjusted(sequence),
          .log_sum = WantsLogprobs(sampling),
          .inverse_temperature = IsGreedy(sampling) ? 0 : 1 / double{sampling.temperature()},
          .top = std::min<int64_t>(sampling.top_logprobs(), vocab_size)};
}

void FillLogprobs(float raw, const RowAnswer& answer, v1::SampledToken* token) {
  token->set_logprob(static_cast<float>(raw - answer.log_sum));
  for (const WalkCandidate& candidate : answer.top) {
    token->add_top_ids(candidate.id);
    token->add_top_logprobs(static_cast<float>(candidate.logit - answer.log_sum));
  }
}

}  // namespace

// Further candidates of one row, from all ranks.
class Sampler::RowSource : public CandidateSource {
 public:
  RowSource(Sampler* sampler, TensorView raw, const SequenceState& sequence)
      : sampler_(sampler), raw_(raw), sequence_(sequence) {}

  absl::Status Top(int64_t count, std::vector<WalkCandidate>* out) override {
    LogitSummaries& summaries = sampler_->summaries_;
    TUTTI_ASSIGN_OR_RETURN(const auto block, sampler_->blocks_.Begin(summaries.ListBytes(count)));
    summaries.FillList(count, raw_, sampler_->Adjusted(raw_, sequence_), block);
    TUTTI_RETURN_IF_ERROR(sampler_->blocks_.Exchange());
    auto& views = sampler_->views_;
    views.clear();
    for (int rank = 0; rank < sampler_->options_.ranks; ++rank) {
      views.push_back(sampler_->blocks_.block(rank));
    }
    summaries.MergeLists(count, views, out);
    return absl::OkStatus();
  }

 private:
  Sampler* const sampler_;
  const TensorView raw_;
  const SequenceState& sequence_;
};

absl::StatusOr<std::unique_ptr<Sampler>> Sampler::Create(kernels::Backend* backend,
                                                         const Options& options) {
  const int64_t own = ShareVocabulary(options.vocab_size, options.ranks, options.rank).own.size();
  TUTTI_ASSIGN_OR_RETURN(auto adjusted, backend->Allocate(own * sizeof(float)));
  return std::unique_ptr<Sampler>(new Sampler(backend, options, std::move(adjusted)));
}

Sampler::Sampler(kernels::Backend* backend, const Options& options,
                 std::unique_ptr<kernels::DeviceBuffer> adjusted)
    : backend_(backend),
      options_(options),
      share_(ShareVocabulary(options.vocab_size, options.ranks, options.rank)),
      adjusted_(std::move(adjusted)),
      summaries_(backend, share_),
      blocks_(options.ranks, options.rank, options.collective) {}

// As many rows at a time as one exchange takes; each rank finds the same groups.
absl::Status Sampler::Sample(TensorView logits, std::span<const SampleRow> rows,
                             std::vector<v1::SampledToken>* sampled) {
  CHECK(logits.rows == static_cast<int64_t>(rows.size()) && logits.cols == share_.own.size());
  size_t first = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i <= rows.size(); ++i) {
    const int64_t row_bytes =
        i == rows.size()
            ? 0
            : summaries_.BlockBytes(QuestionOf(*rows[i].sequence, options_.vocab_size));
    const bool full =
        options_.ranks > 1 && (bytes + row_bytes) * options_.ranks > options_.exchange_bytes;
    if (i > first && (i == rows.size() || full)) {
      TUTTI_RETURN_IF_ERROR(
          SampleGroup(logits.Rows(static_cast<int64_t>(first), static_cast<int64_t>(i - first)),
                      rows.subspan(first, i - first), sampled));
      first = i;
      bytes = 0;
    }
    bytes += row_bytes;
  }
  return absl::OkStatus();
}

absl::Status Sampler::SampleGroup(TensorView logits, std::span<const SampleRow> rows,
                                  std::vector<v1::SampledToken>* sampled) {
  std::vector<RowQuestion> questions;
  std::vector<int64_t> begin = {0};
  for (const SampleRow& row : rows) {
    questions.push_back(QuestionOf(*row.sequence, options_.vocab_size));
    begin.push_back(begin.back() + summaries_.BlockBytes(questions.back()));
  }
  const std::span<const RowBest> bests = summaries_.BestOfRows(logits);
  TUTTI_ASSIGN_OR_RETURN(const auto block, blocks_.Begin(begin.back()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const TensorView raw = logits.Rows(static_cast<int64_t>(i), 1);
    const TensorView adjusted = questions[i].adjusted ? Adjusted(raw, *rows[i].sequence) : raw;
    summaries_.Fill(questions[i], bests[i], raw, adjusted,
                    block.subspan(begin[i], begin[i + 1] - begin[i]));
  }
  TUTTI_RETURN_IF_ERROR(blocks_.Exchange());
  // A draw may need the blocks' memory for another exchange, so all rows are merged first.
  std::vector<RowAnswer> answers(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    views_.clear();
    for (int rank = 0; rank < options_.ranks; ++rank) {
      views_.push_back(blocks_.block(rank).subspan(begin[i], begin[i + 1] - begin[i]));
    }
    summaries_.Merge(questions[i], views_, &answers[i]);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(SampleRowInto(logits.Rows(static_cast<int64_t>(i), 1), *rows[i].sequence,
                                        &answers[i], &sampled->emplace_back()));
  }
  return absl::OkStatus();
}

absl::Status Sampler::SampleRowInto(TensorView raw, const SequenceState& sequence,
                                    RowAnswer* answer, v1::SampledToken* token) {
  token->set_sequence(sequence.id.value());
  token->set_position(static_cast<int32_t>(sequence.tokens.size()));
  token->set_token(-1);
  if (answer->raw.state != RowBest::kNumber || answer->best.state != RowBest::kNumber) {
    return absl::OkStatus();
  }
  WalkCandidate chosen = {.id = answer->best.id, .raw = answer->best.raw};
  if (!IsGreedy(sequence.sampling)) {
    TUTTI_RETURN_IF_ERROR(Draw(raw, sequence, answer, &chosen));
  }
  token->set_token(chosen.id);
  if (WantsLogprobs(sequence.sampling)) FillLogprobs(chosen.raw, *answer, token);
  return absl::OkStatus();
}

// `raw` with penalties and bias, in the adjusted row; `raw` itself when there are none.
TensorView Sampler::Adjusted(TensorView raw, const SequenceState& sequence) {
  if (!IsAdjusted(sequence)) return raw;
  const v1::SequenceSampling& sampling = sequence.sampling;
  adjustments_.clear();
  absl::flat_hash_map<TokenId, size_t> at;
  kernels::LogitAdjustment elsewhere;
  // One adjustment for each id, so their order does not matter. Ids of other ranks are theirs.
  const auto adjustment = [&](TokenId id) -> kernels::LogitAdjustment& {
    if (id < share_.own.begin || id >= share_.own.end) return elsewhere;
    const auto [found, added] = at.try_emplace(id, adjustments_.size());
    if (added) {
      adjustments_.push_back({.row = 0, .id = static_cast<int32_t>(id - share_.own.begin)});
    }
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
  return AdjustedRow();
}

// Inverse of the cumulative distribution over the candidates that the filters keep.
absl::Status Sampler::Draw(TensorView raw, const SequenceState& sequence, RowAnswer* answer,
                           WalkCandidate* chosen) {
  const v1::SequenceSampling& sampling = sequence.sampling;
  RowSource source(this, raw, sequence);
  CandidateWalk walk(&source, options_.vocab_size, sampling.temperature(), answer->draw_log_sum,
                     &answer->draw);
  Kept kept = KeepTopKAndMinP(sampling, &walk);
  kept = KeepTopP(OrOne(sampling.top_p()), kept, &walk);
  const double target =
      kept.total * RandomUniform(sampling.seed(), static_cast<uint64_t>(sequence.tokens.size()));
  // Rounding may leave the target above the last sum: then the last candidate that has any weight
  // is it.
  int64_t index = 0;
  for (int64_t i = 0; i < kept.count; ++i) {
    if (i > 0 && walk.weight(i) == 0) break;
    index = i;
    if (walk.Cumulative(i + 1) > target) break;
  }
  *chosen = walk.candidate(index);
  return walk.status();
}

TensorView Sampler::AdjustedRow() const {
  return {.data = adjusted_->data(),
          .dtype = DType::kF32,
          .device = backend_->device(),
          .rows = 1,
          .cols = share_.own.size(),
          .row_stride = share_.own.size()};
}

}  // namespace tutti::worker
