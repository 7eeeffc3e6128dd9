// The time that the next step will take: the prediction from the speeds that workers measured,
// corrected by what steps of about so many rows have really taken.
//
// Of each stage the ratio of both is kept for every power of two of rows, as the median of its last
// steps, so that a step that another process delayed changes nothing. Between sizes that have been
// seen the ratio is interpolated. What was not seen for long counts as less and less, down to what
// the sizes beside it say, so that a bad beginning is tried again. Where a speed is unknown there
// is no prediction before the first steps; a step then costs as much as so many rows and some
// (kRowsOfAStep) of each other.
//
// Beside them the time of one pass of the draft model, the median of the last ones too. What is
// not asked for long, as it takes too long, becomes cheaper until it is tried again. And the time
// that a step is on its way, which drafts save as they save steps.
//
// Thread: the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "placement/placement.h"
#include "placement/step_cost.h"

namespace tutti::coordinator {

// The load of a step, sequence by sequence.
class LoadSum {
 public:
  // `count` rows of a sequence that follow its first `first` tokens; `sampled` of them become
  // tokens.
  void Add(int32_t first, int32_t count, int32_t sampled);
  placement::StepLoad load() const;

 private:
  double rows_ = 0;
  double attended_ = 0;  // tokens, over all rows
  double kv_tokens_ = 0;
  double sampled_ = 0;
};

class StepTimes {
 public:
  // No stages: nothing is known.
  StepTimes() = default;
  explicit StepTimes(std::vector<placement::StagePlacement> stages);

  // A rank of the stage has computed a step for so long.
  void OnStep(int32_t stage, const placement::StepLoad& load, double seconds);
  // A step that nothing else was under way beside took so long from plan to result, without what
  // its stages and the draft model took.
  void OnWay(double seconds) { way_.Add(seconds, 0); }
  // That time, of late; 0: it is not known.
  double way_seconds() const { return way_.count == 0 ? 0 : way_.Median(); }
  // The draft model read its weights so often behind a step, which took so long.
  void OnDrafts(int32_t passes, double seconds);
  // The time of one pass of the draft model; nothing: it is not known yet.
  std::optional<double> draft_pass_seconds() const;
  // The time of a step through all stages; nothing: not known.  REQUIRES: load.rows >= 1
  std::optional<double> Predict(const placement::StepLoad& load) const;

  // One of the sizes that have been seen, from the smallest.
  struct Seen {
    int32_t rows = 0;    // the most of its size
    double seconds = 0;  // predicted for so many without tokens before them
  };
  std::vector<Seen> seen() const;

 private:
  static constexpr size_t kSizes = 17;  // up to 2^16 rows, the largest --max-batch-tokens
  static constexpr size_t kKept = 7;
  struct Size {
    std::array<float, kKept> ratios{};
    uint64_t steps = 0;  // that the ratios are the last of
    uint64_t last = 0;   // of the stage's steps
    double median = 0;
  };
  struct Stage {
    placement::StagePlacement placement;
    uint64_t steps = 0;
    std::array<Size, kSizes> sizes;
  };

  // The last of some times.
  struct Times {
    std::array<float, kKept> seconds{};
    uint64_t count = 0;  // that they are the last of
    uint64_t last = 0;   // of the last stage's steps, when there was the last one

    void Add(double one, uint64_t step);
    double Median() const;  // REQUIRES: count > 0
  };

  static std::optional<double> Ratio(const Stage& stage, double rows);

  std::vector<Stage> stages_;
  Times drafts_;  // of one pass of the draft model, in steps that had some
  Times way_;
};

}  // namespace tutti::coordinator
