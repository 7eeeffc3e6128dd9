// The bytes of a shard's weights: apart from their loading (weights.cc).
#include "worker/weights.h"

namespace tutti::worker {

int64_t ShardWeights::bytes() const {
  int64_t total = vectors == nullptr ? 0 : vectors->bytes();
  if (embedding != nullptr) total += embedding->bytes();
  if (head != nullptr && head != embedding) total += head->bytes();
  for (const LayerWeights& layer : layers) {
    for (const auto* weight :
         {&layer.qkv, &layer.attention_output, &layer.gate_up, &layer.down, &layer.router}) {
      if (*weight != nullptr) total += (*weight)->bytes();
    }
    for (const ExpertWeights& expert : layer.experts) {
      if (expert.gate_up == nullptr) continue;  // another rank's
      total += expert.gate_up->bytes() + expert.down->bytes();
    }
  }
  return total;
}

}  // namespace tutti::worker
