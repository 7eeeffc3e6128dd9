// Rotary embedding of one step's rows: the frequencies each turns with, and the factor of its
// queries.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "model/model_config.h"
#include "worker/batch.h"

namespace tutti::worker {

class StepRotary {
 public:
  // Rows [first_row, first_row + rows) of the step turn alike.
  struct Run {
    int64_t first_row = 0;
    int64_t rows = 0;
    const std::vector<float>* inverse_frequency = nullptr;  // [head_dim / 2]
  };

  explicit StepRotary(const model::ModelConfig& config);

  // A row's frequencies are a function of its sequence's prompt's length, and of its position; see
  // model/rotary.h.
  void Prepare(const Batch& batch);

  // Cover the rows of the step in order.
  std::span<const Run> runs() const { return runs_; }
  // Scales of every row; empty when all are 1.
  std::span<const float> query_scale() const { return query_scale_; }

 private:
  const std::vector<float>& Frequencies(int64_t variant);
  int64_t VariantAt(const Batch& batch, int64_t variant, int64_t row) const;
  void Add(int64_t first_row, int64_t rows, const std::vector<float>* frequencies);

  const model::RopeConfig rope_;
  const int64_t head_dim_;
  const int64_t logn_length_;
  // Frequencies by variant: one for each doubling of the prompt, so at most some twenty; or one for
  // each length, of which those of a step are kept. Never moves.
  std::map<int64_t, std::vector<float>> frequencies_;
  std::vector<Run> runs_;
  std::vector<float> query_scale_;
};

}  // namespace tutti::worker
