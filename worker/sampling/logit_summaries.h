// Blocks that the ranks of the last stage exchange so that each can sample a row whose logits lie
// on all of them: the best logit, the logarithm of the sum, and the first candidates in order. Each
// rank summarizes its own part of the vocabulary in a block of fixed layout; merged, the blocks
// give the same bits for any number of ranks, because sums are taken over ranges of the vocabulary
// that do not depend on it. EqualBlocks carries the blocks.
//
// Thread: the executor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "model/partition.h"
#include "worker/sampling/candidate_walk.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

// The part of the vocabulary that one rank has logits for.
struct VocabularyShare {
  int64_t vocab_size = 0;
  int ranks = 1;
  int rank = 0;
  model::Range own;
  int64_t widest = 0;  // of any rank's part
  // The rank's kLeaves / ranks ranges that are summed alone, in columns of its own logits.
  std::vector<model::Range> leaves;
};
VocabularyShare ShareVocabulary(int64_t vocab_size, int ranks, int rank);

// The parts of a row's summary that are wanted; the same at every rank.
struct RowQuestion {
  bool adjusted = false;           // penalties, bias or a mask apply: candidates may differ
  bool log_sum = false;            // of the model's own logits
  double inverse_temperature = 0;  // above 0: candidates to draw from, and their sum
  int64_t top = 0;                 // candidates of the model's own to report
};

struct RowBest {
  // kNothing: only -Inf. kLate: some rank does not know yet what may be drawn.
  enum State : int32_t { kNumber = 0, kNothing = 1, kPoisoned = 2, kLate = 3 };
  float logit = 0;
  float raw = 0;
  int32_t id = -1;
  int32_t state = kNothing;
};

// The answer of all ranks together.
struct RowAnswer {
  RowBest raw;
  RowBest best;  // after adjustment
  double log_sum = 0;
  double draw_log_sum = 0;
  std::vector<WalkCandidate> draw;  // the first min(kFirstPortion, vocabulary) to draw from
  std::vector<WalkCandidate> top;
};

class LogitSummaries {
 public:
  // REQUIRES: the backend outlives this
  LogitSummaries(kernels::Backend* backend, const VocabularyShare& share);

  // Bytes of the block of one rank; a multiple of 8.
  int64_t BlockBytes(const RowQuestion& question) const;
  // Takes what is asked of all rows alike from this rank's own logits. All at once: an answer from
  // a device costs the same for one row as for many, and a processor's threads share the rows.
  void Begin(std::span<const RowQuestion> questions, kernels::TensorView logits,
             const ProgressCallback& progress);
  // This rank does not know what may be drawn of a row of Begin's.
  void SetLate(size_t row) { bests_[row] = {.state = RowBest::kLate}; }
  // Writes this rank's block of one row of Begin's. `raw` and `adjusted` are that row of its
  // logits, the same view when nothing is adjusted.
  void Fill(const RowQuestion& question, size_t row, kernels::TensorView raw,
            kernels::TensorView adjusted, std::span<std::byte> block);
  // blocks[r] is rank r's.
  void Merge(const RowQuestion& question, std::span<const std::span<const std::byte>> blocks,
             RowAnswer* answer) const;

  // Bytes of a block that holds the first `count` candidates of a rank.
  int64_t ListBytes(int64_t count) const;
  void FillList(int64_t count, kernels::TensorView raw, kernels::TensorView adjusted,
                std::span<std::byte> block);
  // Bytes of a block that holds a rank's part of a row, and of the row before adjustment.
  int64_t RowBytes(bool with_raw) const;
  // The first `count` of all.
  void MergeLists(int64_t count, std::span<const std::span<const std::byte>> blocks,
                  std::vector<WalkCandidate>* out) const;

 private:
  // What Begin asks of `questions`, those of rows [first, ..) of its own.
  void Summarize(std::span<const RowQuestion> questions, kernels::TensorView logits, size_t first);
  // adjusted_best_, adjusted_sums_ and candidates_ of a row that is adjusted.
  void SummarizeAdjusted(const RowQuestion& question, kernels::TensorView raw,
                         kernels::TensorView adjusted);
  RowBest BestOf(const kernels::Candidate& best, kernels::TensorView row);
  // The best of a row without a largest number.
  RowBest NoBest(kernels::TensorView row);
  // The first of a row that Summarize has listed; empty for others.
  std::span<const kernels::Candidate> Listed(size_t row) const;
  void PutListed(std::span<const kernels::Candidate> listed, int64_t count,
                 std::span<std::byte> block) const;
  void PickRaw(kernels::TensorView raw);
  // candidates_, with candidate_raw_.
  void PutCandidates(int64_t count, std::span<std::byte> block) const;

  kernels::Backend* const backend_;
  const VocabularyShare share_;
  std::vector<kernels::ColumnRange> ranges_;  // share_.leaves
  // Kept for their memory:
  std::vector<kernels::Candidate> candidates_;  // id -1 behind the last
  std::vector<int32_t> candidate_ids_;
  std::vector<float> candidate_raw_;
  std::vector<RowBest> bests_;
  std::vector<kernels::Candidate> best_candidates_;
  std::vector<int32_t> listed_rows_;        // of a question
  std::vector<int32_t> list_of_row_;        // of Begin's, an index into listed_; -1: none
  std::vector<kernels::Candidate> listed_;  // [lists, places_]
  size_t places_ = 0;
  std::vector<double> inverse_temperatures_, sums_;
  std::vector<double> model_sums_, draw_sums_;  // [rows, leaves], the latter of rows not adjusted
  RowBest adjusted_best_;
  std::vector<double> adjusted_sums_;  // [leaves]
};

}  // namespace tutti::worker
