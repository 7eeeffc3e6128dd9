#include "coordinator/steps/step_times.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "placement/placement_prediction.h"

namespace tutti::coordinator {
namespace {

// The cost of a stage's step beside its rows, in rows, where its speed is unknown: reading
// weights takes a processor as long as computing some ten or twenty rows.
constexpr int32_t kRowsOfAStep = 16;
// After so many steps of other sizes the time of a size fades, by a tenth each time: minutes until
// a wrong one is forgotten, and few steps that are too long meanwhile where it was right.
constexpr uint64_t kFresh = 512;
// Steps of a size after which one that was disturbed does not make its median.
constexpr uint64_t kSureSteps = 3;
constexpr double kFaded = 0.9;

// The least power of two with so many rows.
size_t SizeOf(double rows, size_t sizes) {
  const double size = std::ceil(std::log2(std::max(1.0, rows)));
  return std::min(sizes - 1, static_cast<size_t>(size));
}

// The time of a stage whose speed is unknown, in no unit: its ratios to this are seconds.
double NominalSeconds(const placement::StepLoad& load) { return kRowsOfAStep + load.rows; }

double PriorSeconds(const placement::StagePlacement& stage, const placement::StepLoad& load) {
  const double predicted = placement::PredictStageSeconds(stage, load, {});
  return predicted > 0 ? predicted : NominalSeconds(load);
}

}  // namespace

void LoadSum::Add(int32_t first, int32_t count, int32_t sampled) {
  rows_ += count;
  attended_ += double{1} * count * (first + (double{1} * count + 1) / 2);
  kv_tokens_ += double{1} * first + count;
  sampled_ += sampled;
}

placement::StepLoad LoadSum::load() const {
  return {.rows = rows_,
          .depth = attended_ / std::max(1.0, rows_),
          .kv_tokens = kv_tokens_,
          .sampled = sampled_};
}

StepTimes::StepTimes(std::vector<placement::StagePlacement> stages) {
  for (placement::StagePlacement& placement : stages) {
    stages_.push_back({.placement = std::move(placement), .steps = 0, .sizes = {}});
  }
}

void StepTimes::OnStep(int32_t number, const placement::StepLoad& load, double seconds) {
  if (!(seconds > 0) || load.rows < 1) return;
  Stage& stage = stages_[number];
  Size& size = stage.sizes[SizeOf(load.rows, kSizes)];
  // A time that is old says nothing beside what is new.
  if (stage.steps - size.last >= kFresh) size.steps = 0;
  size.ratios[size.steps++ % kKept] =
      static_cast<float>(seconds / PriorSeconds(stage.placement, load));
  size.last = ++stage.steps;
  std::array<float, kKept> sorted = size.ratios;
  const auto kept = static_cast<int64_t>(std::min<uint64_t>(size.steps, kKept));
  // The median of an even number is the lower one: the first steps of a process are its slowest.
  const auto median = sorted.begin() + (kept - 1) / 2;
  std::nth_element(sorted.begin(), median, sorted.begin() + kept);
  size.median = *median;
}

void StepTimes::Times::Add(double one, uint64_t step) {
  seconds[count++ % kKept] = static_cast<float>(one);
  last = step;
}

double StepTimes::Times::Median() const {
  std::array<float, kKept> sorted = seconds;
  const auto kept = static_cast<int64_t>(std::min<uint64_t>(count, kKept));
  // The lower one of an even number, as above.
  const auto median = sorted.begin() + (kept - 1) / 2;
  std::nth_element(sorted.begin(), median, sorted.begin() + kept);
  return *median;
}

void StepTimes::OnDrafts(int32_t passes, double seconds) {
  if (!(seconds > 0) || passes < 1 || stages_.empty()) return;
  drafts_.Add(seconds / passes, stages_.back().steps);
}

std::optional<double> StepTimes::draft_pass_seconds() const {
  if (drafts_.count < kSureSteps) return std::nullopt;
  const uint64_t age = (stages_.back().steps - drafts_.last) / kFresh;
  return drafts_.Median() * std::pow(kFaded, static_cast<double>(age));
}

// Nothing: no step has been seen, and the speed is unknown.
std::optional<double> StepTimes::Ratio(const Stage& stage, double rows) {
  if (stage.steps == 0) {
    if (!stage.placement.speed.known()) return std::nullopt;
    return 1;
  }
  const size_t own = SizeOf(rows, kSizes);
  const auto is_new = [&](size_t at) {
    return stage.sizes[at].steps > 0 && stage.steps - stage.sizes[at].last < kFresh;
  };
  const auto is_sure = [&](size_t at) { return is_new(at) && stage.sizes[at].steps >= kSureSteps; };
  // The median of a step or two may be one that another process delayed, and a size that looks too
  // slow is not tried again: it counts only where no other is known better.
  bool any_sure = false;
  for (size_t at = 0; at < kSizes; ++at) any_sure |= is_sure(at);
  const auto is_fresh = [&](size_t at) { return any_sure ? is_sure(at) : is_new(at); };
  if (is_fresh(own)) return stage.sizes[own].median;
  // The last step at least is new.
  size_t below = own;
  while (below > 0 && !is_fresh(below)) --below;
  size_t above = own;
  while (above + 1 < kSizes && !is_fresh(above)) ++above;
  if (!is_fresh(below)) below = above;
  if (!is_fresh(above)) above = below;
  const double low = stage.sizes[below].median;
  const double part =
      above == below ? 0 : static_cast<double>(own - below) / static_cast<double>(above - below);
  const double beside = low + (stage.sizes[above].median - low) * part;
  if (stage.sizes[own].steps == 0) return beside;
  if (is_new(own)) return std::min(beside, stage.sizes[own].median);
  const double age = static_cast<double>(stage.steps - stage.sizes[own].last);
  const double faded = stage.sizes[own].median * std::pow(kFaded, std::floor(age / kFresh));
  return std::max(faded, std::min(beside, stage.sizes[own].median));
}

std::optional<double> StepTimes::Predict(const placement::StepLoad& load) const {
  if (stages_.empty()) return std::nullopt;
  double seconds = 0;
  for (const Stage& stage : stages_) {
    const std::optional<double> ratio = Ratio(stage, load.rows);
    if (!ratio.has_value()) return std::nullopt;
    seconds += *ratio * PriorSeconds(stage.placement, load);
  }
  return seconds;
}

std::vector<StepTimes::Seen> StepTimes::seen() const {
  std::vector<Seen> all;
  if (stages_.empty()) return all;
  for (size_t size = 0; size < kSizes; ++size) {
    if (stages_.front().sizes[size].steps == 0) continue;
    const auto rows = static_cast<int32_t>(int32_t{1} << size);
    const std::optional<double> seconds =
        Predict({.rows = static_cast<double>(rows), .depth = 0, .kv_tokens = 0, .sampled = 1});
    if (seconds.has_value()) all.push_back({rows, *seconds});
  }
  return all;
}

}  // namespace tutti::coordinator
