// The layer that produced NaN or Inf. Weights or a checkpoint's type may be such that a value
// leaves the range of floating point; from there on the row is NaN, its logits too, and its request
// ends. This finds the layer to name in the error.
//
// A row that is lost is lost in all its elements one product later, so its first element tells. In
// a step that lost rows the stage's layers are computed once more, looking after each; other steps
// pay for a look at the rows they send.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "proto/peer_messages.h"
#include "worker/batch.h"

namespace tutti::worker {

class NumericFaults {
 public:
  // The first elements of a step's rows as they came; empty on the first stage.
  using FirstsIn = std::function<std::span<const float>()>;

  // Begins the search for rows that came as numbers and leave as none, by their first elements
  // `out` or, on the last stage, by `sampled`, one for each of batch.sample_rows. False: there are
  // none. `in` is asked only if rows leave as none, and `out` has been read by then.
  //   out  [batch.rows], empty on the last stage
  bool Begin(const Batch& batch, std::span<const float> out, const FirstsIn& in,
             std::span<const v1::SampledToken> sampled);

  // Looks for the rows searched for after one half of a layer; `first`: the first element of each
  // row of the step.
  void Look(std::span<const float> first, int32_t layer, bool in_mlp);
  // The rest were numbers after all layers: the head lost them. `layers`: of the whole model.
  void EndAtHead(int32_t layers);

  // One for each sequence, at most kNumericFaultsMax. None are left here.
  std::vector<v1::NumericFault> Pop();

 private:
  struct Lost {
    uint64_t sequence = 0;
    int32_t row = 0;
    bool found = false;
  };

  void Found(Lost* lost, int32_t layer, bool in_mlp);

  std::vector<Lost> lost_;
  std::vector<v1::NumericFault> faults_;
};

}  // namespace tutti::worker
