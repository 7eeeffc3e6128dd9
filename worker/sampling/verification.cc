#include "worker/sampling/verification.h"

#include "base/check.h"
#include "base/fail_point.h"
#include "worker/sequence_table.h"

namespace tutti::worker {

Verification::Verification(std::span<const SampleRow> rows, std::vector<v1::SampledToken>* sampled)
    : rows_(rows), sampled_(sampled) {
  CHECK(sampled->empty());
}

Verification::~Verification() {
  for (SequenceState* const sequence : gone_on_) sequence->TakeBack();
}

// What was not drawn, and what lost its numbers, is no guess.
bool Verification::FollowsFromWrong(size_t row) const {
  if (rows_[row].goes_on == nullptr) return false;
  v1::SampledToken& before = (*sampled_)[row - 1];
  if (rows_[row - 1].goes_on == nullptr && before.token() >= 0 &&
      TUTTI_FAIL_POINT("worker.first_guess_unverified")) {
    before.set_token(rows_[row].guess);
  }
  return before.token() != rows_[row].guess;
}

void Verification::GoOn(const SampleRow& row) {
  row.goes_on->Append(row.guess);
  gone_on_.push_back(row.goes_on);
  if (row.sequence->grammar != nullptr) row.sequence->grammar->Ask(row.sequence->output());
}

Verification::Rows Verification::Next(size_t end) {
  size_t next = sampled_->size();
  for (; next < end && FollowsFromWrong(next); ++next) {
    sampled_->emplace_back().set_token(kTokenNotDrawn);
  }
  Rows rows{.begin = next, .end = next};
  if (next == end) return rows;
  if (rows_[next].goes_on != nullptr) GoOn(rows_[next]);
  ++rows.end;
  while (rows.end < end && rows_[rows.end].goes_on == nullptr) ++rows.end;
  return rows;
}

}  // namespace tutti::worker
