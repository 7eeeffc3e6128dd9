#include "worker/numeric_faults.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/limits.h"
#include "worker/sequence_table.h"

namespace tutti::worker {

bool NumericFaults::Begin(const Batch& batch, std::span<const float> out, const FirstsIn& in,
                          std::span<const v1::SampledToken> sampled) {
  lost_.clear();
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < static_cast<int32_t>(out.size()); ++row) {
    if (!std::isfinite(out[row])) rows.push_back(row);
  }
  for (size_t i = 0; i < sampled.size(); ++i) {
    // What a grammar ended is no loss of numbers. Of another rank's doing it looks like one, and
    // all ranks must agree whether layers are computed once more: they exchange rows for that.
    if (batch.sample_rows[i].sequence->grammar != nullptr) continue;
    if (sampled[i].token() == kTokenOfNoNumbers) rows.push_back(batch.sample_rows[i].row);
  }
  if (rows.empty()) return false;
  const std::span<const float> came = in();
  for (const int32_t row : rows) {
    if (!came.empty() && !std::isfinite(came[row])) continue;  // an earlier stage's
    const auto after = std::upper_bound(batch.row_begin.begin(), batch.row_begin.end(), row);
    const auto at = static_cast<size_t>(after - batch.row_begin.begin()) - 1;
    const uint64_t sequence = batch.sequences[at].value();
    if (!lost_.empty() && lost_.back().sequence == sequence) continue;
    if (static_cast<int64_t>(lost_.size()) < kNumericFaultsMax) lost_.push_back({sequence, row});
  }
  return !lost_.empty();
}

void NumericFaults::Look(std::span<const float> first, int32_t layer, bool in_mlp) {
  for (Lost& lost : lost_) {
    if (!lost.found && !std::isfinite(first[lost.row])) Found(&lost, layer, in_mlp);
  }
}

void NumericFaults::EndAtHead(int32_t layers) {
  for (Lost& lost : lost_) {
    if (!lost.found) Found(&lost, layers, false);
  }
}

void NumericFaults::Found(Lost* lost, int32_t layer, bool in_mlp) {
  lost->found = true;
  v1::NumericFault& fault = faults_.emplace_back();
  fault.set_sequence(lost->sequence);
  fault.set_layer(layer);
  fault.set_in_mlp(in_mlp);
}

std::vector<v1::NumericFault> NumericFaults::Pop() { return std::exchange(faults_, {}); }

}  // namespace tutti::worker
