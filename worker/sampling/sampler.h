// The way from logits to tokens.
//
// A row's token depends on its logits, its sequence's tokens and sampling parameters, and nothing
// else: randomness is RandomUniform(seed, position), where position is the index the sampled token
// will have in the sequence.
//
// The order of operations, which is vLLM's but for the first: what a grammar allows
// (grammar_mask.h); repetition, presence and frequency penalties and logit bias; the mask
// (logit_mask.h); temperature; min_p; top_k; top_p. Each filter keeps a prefix of
// the candidates ordered by (logit descending, id ascending), and top_p is a share of the weight
// that earlier filters left. Equal logits at the edge of top_k are told apart by their ids.
//
// Log-probabilities are natural logarithms of the model's own distribution, among the tokens that a
// grammar allows: before penalties, bias, mask, temperature and filters.
//
// Over several ranks each has the logits of its own part of the vocabulary. They tell each other
// the best candidates and the normaliser's parts of each row, and all of them sample, with the same
// result. Randomly drawn rows of very flat distributions take another exchange or two: of more
// candidates, and of the whole row.
//
// The time of a row is bounded whatever its parameters: a fixed number of passes over its logits.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/collective.h"
#include "proto/peer_messages.h"
#include "worker/batch.h"
#include "worker/sampling/candidate_walk.h"
#include "worker/sampling/equal_blocks.h"
#include "worker/sampling/grammar_mask.h"
#include "worker/sampling/logit_mask.h"
#include "worker/sampling/logit_summaries.h"
#include "worker/sampling/row_draw.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

// Below this temperature sampling is exact greedy: the largest logit, of equals the smallest id.
// Between two f32 logits that differ by as little as 1e-3, the odds at this temperature are e^100
// to one.
inline constexpr float kGreedyTemperature = 1e-5f;

class Sampler {
 public:
  struct Options {
    int64_t vocab_size = 0;
    // Over ranks:
    int ranks = 1;
    int rank = 0;
    kernels::Collective* collective = nullptr;  // null for one rank
    int64_t exchange_bytes = 0;                 // the most for one exchange
  };

  // REQUIRES: backend and collective outlive the sampler. RESOURCE_EXHAUSTED when memory is short.
  static absl::StatusOr<std::unique_ptr<Sampler>> Create(kernels::Backend* backend,
                                                         const Options& options);

  // A step begins, of these rows: those of Sample up to the next one are among them.
  void BeginStep(std::span<const SampleRow> rows) { grammar_mask_.BeginStep(rows); }

  // Appends one token to *sampled for each row, in order. A row whose logits are not numbers (NaN,
  // +Inf, or nothing but -Inf, with the mask or without) has token -1, and where that is a
  // grammar's doing, its answer has ended. A row whose mask some rank lacks has token kLateToken.
  // Errors are the collective's. Changes the logits of rows with a grammar.
  // `progress` is told of every row, and before each further look into one.
  // REQUIRES: rows with a grammar are of the step that has begun
  //
  //   logits [rows, the rank's part of the vocabulary] f32, of the backend's device
  absl::Status Sample(kernels::TensorView logits, std::span<const SampleRow> rows,
                      std::vector<v1::SampledToken>* sampled,
                      const ProgressCallback& progress = nullptr);

  int64_t bytes() const { return adjusted_->bytes(); }
  // Time that rows have waited for masks of grammars, in all.
  Duration mask_wait() const { return grammar_mask_.waited(); }

 private:
  // One row on its way.
  struct Row {
    kernels::TensorView raw;
    const SequenceState& sequence;
    const ProgressCallback& progress;
  };

  Sampler(kernels::Backend* backend, const Options& options,
          std::unique_ptr<kernels::DeviceBuffer> adjusted);

  absl::Status SampleGroup(kernels::TensorView logits, std::span<const SampleRow> rows,
                           std::vector<v1::SampledToken>* sampled,
                           const ProgressCallback& progress);
  void MergeRow(const RowQuestion& question, int64_t begin, int64_t end, RowAnswer* answer);
  absl::Status SampleRowInto(const Row& row, RowAnswer* answer, v1::SampledToken* token);
  absl::Status Draw(const Row& row, RowAnswer* answer, WalkCandidate* chosen);
  absl::Status FetchMore(const Row& row, std::vector<WalkCandidate>* candidates);
  absl::Status DrawFromAll(const Row& row, const DrawRule& rule, WalkCandidate* chosen);
  absl::Status GatherRow(const Row& row, bool with_raw);

  kernels::TensorView Adjusted(kernels::TensorView raw, const SequenceState& sequence);
  void ListAdjustments(const SequenceState& sequence);
  kernels::TensorView AdjustedRow() const;

  kernels::Backend* const backend_;
  const Options options_;
  const VocabularyShare share_;
  const std::unique_ptr<kernels::DeviceBuffer> adjusted_;  // one row of logits
  LogitSummaries summaries_;
  GrammarMask grammar_mask_;
  LogitMask mask_;
  EqualBlocks blocks_;

  CandidateWalk walk_;
  RowDraw row_draw_;
  // The row of logits that the adjusted row has been made from; null: none.
  const void* adjusted_from_ = nullptr;

  // Kept for their memory:
  std::vector<RowQuestion> questions_;
  std::vector<kernels::LogitAdjustment> adjustments_;
  std::vector<int32_t> places_;  // [own ids], in adjustments_, of biased ids; -1
  std::vector<bool> is_biased_;  // [own ids]
  std::vector<std::span<const std::byte>> views_;
  std::vector<float> whole_row_, whole_raw_;  // [vocabulary], of all ranks
};

}  // namespace tutti::worker
