// Chooses the values of a backend's knobs (kernels/tunable.h) by measuring them on this machine, at
// start. Nothing here changes a bit of any answer.
//
// Thread: the one that owns the backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/tunable.h"
#include "worker/limits.h"

namespace tutti::worker {

// The times of one value of a knob.
struct ValueTime {
  int64_t value = 0;
  double seconds = 0;        // median
  double of_usual = 0;       // median over the rounds: its time over the usual value's in it
  double rounds_faster = 0;  // share of the rounds in which it took less
};

struct KnobResult {
  std::string name;
  int64_t rows = 0;  // of the products that were timed
  int64_t usual = 0;
  int64_t chosen = 0;
  int rounds = 0;  // 0: there was no time for it
  std::vector<ValueTime> values;
};

struct TuneLimits {
  double seconds = kTuneSeconds;  // of measurement, all knobs together
  int rounds_max = kTuneRoundsMax;
};

// The value for times measured alternately, times[round][value]: the quickest one, if it is quicker
// than values[usual] by kTuneGain in the median and in most rounds; else the usual one. So a host
// that changes its speed while it is measured, or noise, moves nothing.
KnobResult ChooseValue(const kernels::Knob& knob, const std::vector<std::vector<double>>& times);

// Sets the knobs one after another, each to the value chosen for it. In every round all values of a
// knob are timed, in turn; a knob for which there is time for less than kTuneRoundsMin rounds keeps
// its value.
//
// `seconds_of`: does a product of so many rows and returns the time that it took, in seconds.
std::vector<KnobResult> TuneKnobs(kernels::Tunable* tunable, const TuneLimits& limits,
                                  const std::function<double(int64_t rows)>& seconds_of);

// TuneKnobs on weights of its own: kTuneWeightBytes of memory for as long. FAILED_PRECONDITION: the
// backend has no knobs; RESOURCE_EXHAUSTED: the memory cannot be had.
absl::StatusOr<std::vector<KnobResult>> TuneBackend(kernels::Backend* backend, DType dtype,
                                                    const TuneLimits& limits);

// The knobs that are not at their usual value: "ahead-1=0,block=96"; "usual" where all are.
std::string ChoicesText(const kernels::Tunable& tunable);
// Sets the knobs as such a text says, those it does not name to their usual value. INVALID_ARGUMENT
// quotes the text, and no knob is changed: an unknown name, or a value that the knob does not take.
absl::Status SetChoices(std::string_view text, kernels::Tunable* tunable);

// Sets the knobs of `backend` as `file` says for this processor, build and type of weights, or else
// by TuneBackend, whose choices are then kept there: workers of one machine that share a file
// measure one after another, and equal ones once. file "": measures. Returns a line for the log;
// "" where there is nothing to choose, or `keep_on` ended the wait for the file (SharedFile). What
// fails leaves the usual values.
std::string TuneAtStart(kernels::Backend* backend, DType dtype, const std::string& file,
                        const std::function<absl::Status()>& keep_on = nullptr);

}  // namespace tutti::worker
