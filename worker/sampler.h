// From logits to tokens.
//
// What a row gives depends on its logits, its sequence's tokens and sampling parameters, and
// nothing else: randomness is RandomUniform(seed, position), where position is the index the
// sampled token will have in the sequence.
//
// The order of operations, which is vLLM's: repetition, presence and frequency penalties and logit
// bias; temperature; min_p; top_k; top_p. Each filter keeps a prefix of the candidates ordered by
// (logit descending, id ascending), and top_p is a share of what the filters before it left. Equal
// logits at the edge of top_k are told apart by their ids.
//
// Log-probabilities are natural logarithms of the model's own distribution: before penalties, bias,
// temperature and filters.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "tutti/v1/peer.pb.h"
#include "worker/batch.h"

namespace tutti {

// Below this temperature sampling is exact greedy: the largest logit, of equals the smallest id.
// Between two f32 logits that differ by as little as 1e-3, the odds at this temperature are e^100
// to one.
inline constexpr float kGreedyTemperature = 1e-5f;

class Sampler {
 public:
  // REQUIRES: the backend outlives the sampler. RESOURCE_EXHAUSTED when memory is short.
  static absl::StatusOr<std::unique_ptr<Sampler>> Create(kernels::Backend* backend,
                                                         int64_t vocab_size);

  // Appends one token to *sampled for each row, in order. A row whose logits are not numbers (NaN,
  // +Inf, or nothing but -Inf) has token -1.
  //
  //   logits [rows, vocab] f32, in memory the host can read; may be changed
  void Sample(kernels::TensorView logits, std::span<const SampleRow> rows,
              std::vector<v1::SampledToken>* sampled);

  int64_t bytes() const { return adjusted_->bytes(); }

 private:
  Sampler(kernels::Backend* backend, int64_t vocab_size,
          std::unique_ptr<kernels::DeviceBuffer> adjusted);

  void SampleRowInto(kernels::TensorView raw, const SequenceState& sequence, TokenId best,
                     v1::SampledToken* token);
  bool Adjust(kernels::TensorView raw, const SequenceState& sequence);
  TokenId Draw(kernels::TensorView logits, const SequenceState& sequence);
  void FillLogprobs(kernels::TensorView raw, const SequenceState& sequence,
                    v1::SampledToken* token);
  kernels::TensorView AdjustedRow() const;

  kernels::Backend* const backend_;
  const int64_t vocab_size_;
  const std::unique_ptr<kernels::DeviceBuffer> adjusted_;  // one row of logits

  // Kept for their memory:
  std::vector<TokenId> best_;
  std::vector<kernels::LogitAdjustment> adjustments_;
  std::vector<kernels::Candidate> candidates_;
};

}  // namespace tutti
