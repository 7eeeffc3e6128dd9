// Running sequences whose last row is to be computed again, because its token could not be drawn:
// the mask that a grammar allows was not made in time. A row costs little, but not nothing: each
// waits for more steps, the more often its mask was late.
//
// Thread: the engine's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

class LateRows {
 public:
  bool empty() const { return rows_.empty(); }
  size_t size() const { return rows_.size(); }

  // `last_step`: the last one that was planned.
  void Add(Sequence* sequence, StepId last_step) {
    const int steps_log = std::min(sequence->stay.late++, kLateStepsLogMax);
    rows_.push_back({sequence, last_step.value() + (uint64_t{1} << steps_log)});
  }
  // Whether it was here.
  bool Erase(const Sequence* sequence) {
    return std::erase_if(rows_, [&](const Row& row) { return row.sequence == sequence; }) > 0;
  }
  // Appends those that may be part of step `next` to *to, so many at most, those that wait longest
  // first; they are no longer here then.
  template <typename List>
  void TakeDue(uint64_t next, int32_t count_max, List* to) {
    std::erase_if(rows_, [&](const Row& row) {
      if (row.due > next || count_max == 0) return false;
      --count_max;
      to->push_back(row.sequence);
      return true;
    });
  }
  template <typename List>
  void TakeAll(List* to) {
    for (const Row& row : rows_) to->push_back(row.sequence);
    rows_.clear();
  }

 private:
  struct Row {
    Sequence* sequence = nullptr;
    uint64_t due = 0;  // the number of a step
  };
  std::vector<Row> rows_;
};

}  // namespace tutti::coordinator
