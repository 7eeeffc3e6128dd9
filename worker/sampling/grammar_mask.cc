#include "worker/sampling/grammar_mask.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "worker/limits.h"
#include "worker/sequence_table.h"

namespace tutti::worker {
namespace {

constexpr int64_t kMaskWordBits = 32;

}  // namespace

GrammarMask::GrammarMask(kernels::Backend* backend, const model::Range& own)
    : backend_(backend), own_(own) {
  CHECK(own.size() == 0 || own.begin % kMaskWordBits == 0) << own.begin;
}

void GrammarMask::BeginStep(std::span<const SampleRow> rows) {
  undecided_ = rows;
  left_ = left_behind_guesses_ = {};
}

// Masks that have come while the step was computed count.
void GrammarMask::DecidePatience() {
  if (undecided_.empty()) return;
  const bool can_draw = std::any_of(undecided_.begin(), undecided_.end(), [](const SampleRow& row) {
    return row.goes_on == nullptr &&
           (row.sequence->grammar == nullptr || row.sequence->grammar->IsReady());
  });
  left_ = can_draw ? Duration(kLateMaskGrace) : Duration(kLateMaskPatience);
  left_behind_guesses_ = kGuessedMaskGrace;
  undecided_ = {};
}

void GrammarMask::FindLate(std::span<const SampleRow> rows, const ProgressCallback& progress) {
  late_.clear();
  for (const SampleRow& row : rows) {
    GrammarAnswer* const answer = row.sequence->grammar.get();
    if (answer == nullptr || answer->IsReady()) continue;
    DecidePatience();
    Duration* const left = row.goes_on == nullptr ? &left_ : &left_behind_guesses_;
    const Instant begin = std::chrono::steady_clock::now();
    const bool is_there = *left > Duration() && answer->WaitUntil(begin + *left, progress);
    const Duration waited = std::chrono::steady_clock::now() - begin;
    *left = std::max(Duration(), *left - waited);
    waited_ += waited;
    if (is_there) continue;
    late_.insert(row.sequence);
    answer->CountLate();
  }
}

void GrammarMask::Apply(kernels::TensorView logits, std::span<const SampleRow> rows,
                        const ProgressCallback& progress) {
  masked_.clear();
  masks_.clear();
  ended_.clear();
  FindLate(rows, progress);
  const int64_t words = (own_.size() + kMaskWordBits - 1) / kMaskWordBits;
  for (size_t i = 0; i < rows.size(); ++i) {
    GrammarAnswer* const answer = rows[i].sequence->grammar.get();
    if (answer == nullptr || IsLate(rows[i])) continue;
    const auto row = static_cast<int32_t>(i);
    const auto mask = answer->Take();
    if (!mask.ok()) {
      answer->End(mask.status());
      // A rank that ran out of what its grammar may use tells the others so.
      ended_.push_back({.row = row, .id = 0, .bias = std::numeric_limits<float>::quiet_NaN()});
      continue;
    }
    const auto own = mask->subspan(static_cast<size_t>(own_.begin / kMaskWordBits));
    masked_.push_back(row);
    masks_.insert(masks_.end(), own.begin(), own.begin() + words);
  }
  if (logits.cols == 0) return;
  if (!masked_.empty()) backend_->MaskLogits(logits, masked_, masks_);
  if (!ended_.empty()) backend_->AdjustLogits(logits, ended_);
}

}  // namespace tutti::worker
