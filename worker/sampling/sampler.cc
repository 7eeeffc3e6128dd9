#include "worker/sampling/sampler.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/limits.h"
#include "worker/sampling/draw_rule.h"
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
  return sequence.has_penalties() || !sequence.sampling.bias_ids().empty() || HasMask(sequence);
}

bool IsGreedy(const v1::SequenceSampling& sampling) {
  return !(sampling.temperature() >= kGreedyTemperature);
}

RowQuestion QuestionOf(const SequenceState& sequence, int64_t vocab_size) {
  const v1::SequenceSampling& sampling = sequence.sampling;
  return {.adjusted = IsAdjusted(sequence),
          .log_sum = WantsLogprobs(sampling),
          .inverse_temperature = IsGreedy(sampling) ? 0 : 1 / double{sampling.temperature()},
          .top = std::min<int64_t>(sampling.top_logprobs(), vocab_size)};
}

// Where a grammar and other limits on what is drawn leave nothing, no numbers are lost.
void EndByGrammar(const SequenceState& sequence, const RowAnswer& answer) {
  if (sequence.grammar == nullptr || !sequence.grammar->end().ok()) return;
  if (answer.raw.state == RowBest::kPoisoned || answer.best.state == RowBest::kPoisoned) return;
  sequence.grammar->End(absl::FailedPreconditionError(
      absl::StrCat("the grammar and the request's other limits on tokens leave none for position ",
                   sequence.output().size(), " of the output")));
}

void FillLogprobs(float raw, const RowAnswer& answer, v1::SampledToken* token) {
  token->set_logprob(static_cast<float>(raw - answer.log_sum));
  for (const WalkCandidate& candidate : answer.top) {
    if (candidate.logit == -std::numeric_limits<float>::infinity()) break;  // no grammar allows it
    token->add_top_ids(candidate.id);
    token->add_top_logprobs(static_cast<float>(candidate.logit - answer.log_sum));
  }
}

}  // namespace

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
      grammar_mask_(backend, share_.own),
      mask_(backend, share_.own),
      blocks_(options.ranks, options.rank, options.collective) {}

// As many rows at a time as one exchange takes; each rank finds the same groups.
absl::Status Sampler::Sample(TensorView logits, std::span<const SampleRow> rows,
                             std::vector<v1::SampledToken>* sampled,
                             const ProgressCallback& progress) {
  CHECK(logits.rows == static_cast<int64_t>(rows.size()) && logits.cols == share_.own.size());
  adjusted_from_ = nullptr;
  grammar_mask_.Apply(logits, rows, progress);
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
                      rows.subspan(first, i - first), sampled, progress));
      first = i;
      bytes = 0;
    }
    bytes += row_bytes;
  }
  return absl::OkStatus();
}

absl::Status Sampler::SampleGroup(TensorView logits, std::span<const SampleRow> rows,
                                  std::vector<v1::SampledToken>* sampled,
                                  const ProgressCallback& progress) {
  questions_.clear();
  for (const SampleRow& row : rows) {
    questions_.push_back(QuestionOf(*row.sequence, options_.vocab_size));
  }
  summaries_.Begin(questions_, logits, progress);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (grammar_mask_.IsLate(rows[i])) summaries_.SetLate(i);
  }
  Tell(progress);
  // A draw may need the blocks' memory for another exchange. So the rows of an exchange are all
  // merged before the first draw. One rank alone exchanges nothing and takes row by row.
  const size_t together = options_.ranks == 1 ? 1 : rows.size();
  std::vector<RowAnswer> answers(together);
  std::vector<int64_t> begin;
  for (size_t first = 0; first < rows.size(); first += together) {
    begin.assign(1, 0);
    for (size_t i = 0; i < together; ++i) {
      begin.push_back(begin.back() + summaries_.BlockBytes(questions_[first + i]));
    }
    TUTTI_ASSIGN_OR_RETURN(const auto block, blocks_.Begin(begin.back()));
    for (size_t i = 0; i < together; ++i) {
      const RowQuestion& question = questions_[first + i];
      const TensorView raw = logits.Rows(static_cast<int64_t>(first + i), 1);
      const TensorView adjusted =
          question.adjusted ? Adjusted(raw, *rows[first + i].sequence) : raw;
      summaries_.Fill(question, first + i, raw, adjusted,
                      block.subspan(begin[i], begin[i + 1] - begin[i]));
      Tell(progress);
    }
    TUTTI_RETURN_IF_ERROR(blocks_.Exchange());
    for (size_t i = 0; i < together; ++i) {
      MergeRow(questions_[first + i], begin[i], begin[i + 1], &answers[i]);
    }
    for (size_t i = 0; i < together; ++i) {
      const Row row = {.raw = logits.Rows(static_cast<int64_t>(first + i), 1),
                       .sequence = *rows[first + i].sequence,
                       .progress = progress};
      TUTTI_RETURN_IF_ERROR(SampleRowInto(row, &answers[i], &sampled->emplace_back()));
      Tell(progress);
    }
  }
  return absl::OkStatus();
}

// The row's bytes of every rank's block are [begin, end).
void Sampler::MergeRow(const RowQuestion& question, int64_t begin, int64_t end, RowAnswer* answer) {
  views_.clear();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    views_.push_back(blocks_.block(rank).subspan(begin, end - begin));
  }
  summaries_.Merge(question, views_, answer);
}

absl::Status Sampler::SampleRowInto(const Row& row, RowAnswer* answer, v1::SampledToken* token) {
  const SequenceState& sequence = row.sequence;
  token->set_sequence(sequence.id.value());
  token->set_position(static_cast<int32_t>(sequence.tokens.size()));
  token->set_token(answer->raw.state == RowBest::kLate ? kLateToken : kTokenOfNoNumbers);
  if (answer->raw.state == RowBest::kLate) return absl::OkStatus();
  if (answer->raw.state != RowBest::kNumber || answer->best.state != RowBest::kNumber) {
    EndByGrammar(sequence, *answer);
    return absl::OkStatus();
  }
  WalkCandidate chosen = {.id = answer->best.id, .raw = answer->best.raw};
  if (!IsGreedy(sequence.sampling)) TUTTI_RETURN_IF_ERROR(Draw(row, answer, &chosen));
  token->set_token(chosen.id);
  if (WantsLogprobs(sequence.sampling)) FillLogprobs(chosen.raw, *answer, token);
  return absl::OkStatus();
}

// `raw` with penalties, bias and mask, in the adjusted row; `raw` itself when there are none.
TensorView Sampler::Adjusted(TensorView raw, const SequenceState& sequence) {
  if (!IsAdjusted(sequence) || raw.cols == 0) return raw;
  if (adjusted_from_ == raw.data) return AdjustedRow();
  ListAdjustments(sequence);
  backend_->Convert(raw, AdjustedRow());
  backend_->AdjustLogits(AdjustedRow(), adjustments_);
  mask_.Apply(sequence, AdjustedRow());
  adjusted_from_ = raw.data;
  return AdjustedRow();
}

// One adjustment for each id, so their order does not matter. Ids of other ranks are theirs.
void Sampler::ListAdjustments(const SequenceState& sequence) {
  const v1::SequenceSampling& sampling = sequence.sampling;
  adjustments_.clear();
  const auto is_own = [this](TokenId id) { return id >= share_.own.begin && id < share_.own.end; };
  // A table and not a map: a history may have as many ids as the vocabulary. Few of them are
  // biased, and bits, which the nearest cache holds, say which.
  const bool biased = sampling.bias_ids_size() > 0;
  if (biased) {
    places_.resize(static_cast<size_t>(share_.own.size()), -1);
    is_biased_.resize(places_.size());
  }
  const auto index_of = [this](TokenId id) { return static_cast<size_t>(id - share_.own.begin); };
  const auto place_of = [&](TokenId id) -> int32_t& { return places_[index_of(id)]; };
  for (int i = 0; i < sampling.bias_ids_size(); ++i) {
    const TokenId id = sampling.bias_ids(i);
    if (!is_own(id)) continue;
    int32_t& place = place_of(id);
    if (place < 0) {
      place = static_cast<int32_t>(adjustments_.size());
      is_biased_[index_of(id)] = true;
      adjustments_.push_back({.row = 0, .id = static_cast<int32_t>(id - share_.own.begin)});
    }
    adjustments_[static_cast<size_t>(place)].bias += sampling.bias_values(i);
  }
  const size_t biased_ids = adjustments_.size();
  if (sequence.has_penalties()) {
    const float repetition = OrOne(sampling.repetition_penalty());
    const float presence = sampling.presence_penalty();
    const float frequency = sampling.frequency_penalty();
    adjustments_.reserve(biased_ids + sequence.counts.size());
    for (const auto& [id, count] : sequence.counts) {
      if (!is_own(id)) continue;
      const float penalty =
          count.in_output == 0 ? 0 : presence + frequency * static_cast<float>(count.in_output);
      if (biased && is_biased_[index_of(id)]) {
        kernels::LogitAdjustment& entry = adjustments_[static_cast<size_t>(place_of(id))];
        entry.repetition = repetition;
        entry.bias -= penalty;
      } else {
        adjustments_.push_back({.row = 0,
                                .id = static_cast<int32_t>(id - share_.own.begin),
                                .repetition = repetition,
                                .bias = 0 - penalty});
      }
    }
  }
  for (const kernels::LogitAdjustment& entry : std::span(adjustments_).first(biased_ids)) {
    places_[static_cast<size_t>(entry.id)] = -1;
    is_biased_[static_cast<size_t>(entry.id)] = false;
  }
}

absl::Status Sampler::Draw(const Row& row, RowAnswer* answer, WalkCandidate* chosen) {
  CHECK(!answer->draw.empty());
  const DrawRule rule(row.sequence.sampling, options_.vocab_size, answer->draw.front().logit,
                      answer->draw_log_sum, row.sequence.tokens.size());
  std::optional<WalkCandidate> drawn = walk_.Draw(rule, answer->draw);
  const bool is_small = options_.ranks == 1 && options_.vocab_size < kPortionedVocabulary;
  if (!drawn.has_value() && !is_small && walk_.needed() <= kSecondPortion) {
    Tell(row.progress);
    TUTTI_RETURN_IF_ERROR(FetchMore(row, &answer->draw));
    drawn = walk_.Draw(rule, answer->draw);
  }
  if (!drawn.has_value()) {
    Tell(row.progress);
    return DrawFromAll(row, rule, chosen);
  }
  *chosen = *drawn;
  return absl::OkStatus();
}

// The second portion of one row, from all ranks.
absl::Status Sampler::FetchMore(const Row& row, std::vector<WalkCandidate>* candidates) {
  TUTTI_ASSIGN_OR_RETURN(const auto block, blocks_.Begin(summaries_.ListBytes(kSecondPortion)));
  summaries_.FillList(kSecondPortion, row.raw, Adjusted(row.raw, row.sequence), block);
  TUTTI_RETURN_IF_ERROR(blocks_.Exchange());
  views_.clear();
  for (int rank = 0; rank < options_.ranks; ++rank) views_.push_back(blocks_.block(rank));
  summaries_.MergeLists(kSecondPortion, views_, candidates);
  return absl::OkStatus();
}

absl::Status Sampler::DrawFromAll(const Row& row, const DrawRule& rule, WalkCandidate* chosen) {
  std::span<const float> logits, raw;
  if (options_.ranks == 1 && backend_->device() == kernels::Device()) {
    const auto size = static_cast<size_t>(options_.vocab_size);
    logits = {Adjusted(row.raw, row.sequence).f32(), size};
    raw = {row.raw.f32(), size};
  } else {
    const bool with_raw = IsAdjusted(row.sequence) && WantsLogprobs(row.sequence.sampling);
    TUTTI_RETURN_IF_ERROR(GatherRow(row, with_raw));
    logits = whole_row_;
    raw = with_raw ? whole_raw_ : whole_row_;
  }
  const int32_t id = row_draw_.Draw(rule, logits);
  const auto place = static_cast<size_t>(id);
  *chosen = {.id = id, .logit = logits[place], .raw = raw[place]};
  return absl::OkStatus();
}

// The row of all ranks in host memory.
absl::Status Sampler::GatherRow(const Row& row, bool with_raw) {
  const auto widest = static_cast<size_t>(share_.widest) * sizeof(float);
  TUTTI_ASSIGN_OR_RETURN(const auto block, blocks_.Begin(summaries_.RowBytes(with_raw)));
  const auto put = [&](TensorView logits, std::span<std::byte> to) {
    if (logits.cols == 0) return;
    backend_->Convert(logits, {.data = to.data(),
                               .dtype = DType::kF32,
                               .rows = 1,
                               .cols = logits.cols,
                               .row_stride = logits.cols});
  };
  put(Adjusted(row.raw, row.sequence), block);
  if (with_raw) put(row.raw, block.subspan(widest));
  TUTTI_RETURN_IF_ERROR(blocks_.Exchange());
  const auto take = [&](size_t offset, std::vector<float>* whole) {
    whole->resize(static_cast<size_t>(options_.vocab_size));
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const model::Range range =
          model::SplitRange(options_.vocab_size, model::kVocabSplitRows, options_.ranks, rank);
      std::memcpy(whole->data() + range.begin, blocks_.block(rank).data() + offset,
                  static_cast<size_t>(range.size()) * sizeof(float));
    }
  };
  take(0, &whole_row_);
  if (with_raw) take(widest, &whole_raw_);
  return absl::OkStatus();
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
