#include "worker/kernel_tuner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/build_info.h"
#include "base/check.h"
#include "worker/product_probe.h"
#include "worker/shared_file.h"

namespace tutti::worker {
namespace {

using kernels::Knob;
using kernels::Tunable;

constexpr std::string_view kUsual = "usual";

double Median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

size_t IndexOfUsual(const Knob& knob) {
  const auto found = std::find(knob.values.begin(), knob.values.end(), knob.usual);
  CHECK(found != knob.values.end()) << knob.name;
  return static_cast<size_t>(found - knob.values.begin());
}

// Times of every value, in an order that begins elsewhere each round: what comes first in a round
// is not always the same.
std::vector<double> OneRound(Tunable* tunable, size_t index, int round,
                             const std::function<double(int64_t)>& seconds_of) {
  const Knob& knob = tunable->knobs()[index];
  std::vector<double> times(knob.values.size());
  for (size_t i = 0; i < times.size(); ++i) {
    const size_t at = (i + static_cast<size_t>(round)) % times.size();
    tunable->SetKnob(index, knob.values[at]);
    times[at] = seconds_of(knob.rows);
  }
  return times;
}

double Sum(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

KnobResult ChooseValue(const Knob& knob, const std::vector<std::vector<double>>& times) {
  KnobResult result = {.name = std::string(knob.name),
                       .rows = knob.rows,
                       .usual = knob.usual,
                       .chosen = knob.usual,
                       .rounds = static_cast<int>(times.size()),
                       .values = {}};
  if (times.empty()) return result;
  const size_t usual = IndexOfUsual(knob);
  double best = 1 - kTuneGain;
  for (size_t v = 0; v < knob.values.size(); ++v) {
    std::vector<double> seconds, of_usual;
    int faster = 0;
    for (const std::vector<double>& round : times) {
      seconds.push_back(round[v]);
      of_usual.push_back(round[v] / round[usual]);
      if (round[v] < round[usual]) ++faster;
    }
    const ValueTime time = {.value = knob.values[v],
                            .seconds = Median(seconds),
                            .of_usual = Median(of_usual),
                            .rounds_faster = static_cast<double>(faster) / result.rounds};
    result.values.push_back(time);
    if (time.of_usual <= best && time.rounds_faster >= kTuneRoundsFaster) {
      best = time.of_usual;
      result.chosen = time.value;
    }
  }
  return result;
}

std::vector<KnobResult> TuneKnobs(Tunable* tunable, const TuneLimits& limits,
                                  const std::function<double(int64_t)>& seconds_of) {
  std::vector<KnobResult> results;
  double left = limits.seconds;
  const size_t count = tunable->knobs().size();
  for (size_t index = 0; index < count; ++index) {
    const Knob& knob = tunable->knobs()[index];
    if (knob.values.size() == 1) {  // nothing to choose, on this instruction set
      results.push_back(ChooseValue(knob, {}));
      continue;
    }
    double share = left / static_cast<double>(count - index);
    // Not counted: it fills caches and wakes threads, and shows how many rounds there is time for.
    const double round_seconds = Sum(OneRound(tunable, index, 0, seconds_of));
    left -= round_seconds;
    share -= round_seconds;
    std::vector<std::vector<double>> times;
    if (share >= kTuneRoundsMin * round_seconds) {
      while (static_cast<int>(times.size()) < limits.rounds_max && share > 0) {
        const int round = static_cast<int>(times.size());
        const double took = Sum(times.emplace_back(OneRound(tunable, index, round, seconds_of)));
        share -= took;
        left -= took;
      }
    }
    results.push_back(ChooseValue(knob, times));
    tunable->SetKnob(index, results.back().chosen);
  }
  return results;
}

absl::StatusOr<std::vector<KnobResult>> TuneBackend(kernels::Backend* backend, DType dtype,
                                                    const TuneLimits& limits) {
  auto* const tunable = backend->tunable();
  if (tunable == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ", std::string(backend->name()), " backend has nothing to tune"));
  }
  int64_t rows_max = 1;
  for (const Knob& knob : tunable->knobs()) rows_max = std::max(rows_max, knob.rows);
  TUTTI_ASSIGN_OR_RETURN(const auto probe,
                         ProductProbe::Create(backend, {.dtype = dtype,
                                                        .in_features = kTuneInFeatures,
                                                        .out_features = kTuneOutFeatures,
                                                        .weight_bytes = kTuneWeightBytes,
                                                        .rows_max = rows_max}));
  return TuneKnobs(tunable, limits, [&](int64_t rows) {
    const int64_t few = std::max<int64_t>(1, probe->weights() / kTunePassesOfWeights);
    return probe->Seconds(rows, rows < kTuneManyRows ? few : 1);
  });
}

std::string ChoicesText(const Tunable& tunable) {
  std::vector<std::string> choices;
  const auto knobs = tunable.knobs();
  for (size_t k = 0; k < knobs.size(); ++k) {
    if (tunable.knob_value(k) == knobs[k].usual) continue;
    choices.push_back(absl::StrCat(std::string(knobs[k].name), "=", tunable.knob_value(k)));
  }
  return choices.empty() ? std::string(kUsual) : absl::StrJoin(choices, ",");
}

absl::Status SetChoices(std::string_view text, Tunable* tunable) {
  const auto knobs = tunable->knobs();
  std::vector<int64_t> values;
  for (const Knob& knob : knobs) values.push_back(knob.usual);
  const auto refuse = [&] {
    return absl::InvalidArgumentError(absl::StrCat("\"", absl::Utf8SafeCEscape(std::string(text)),
                                                   "\" chooses no values of these knobs"));
  };
  if (text != kUsual) {
    const std::vector<std::string> choices = absl::StrSplit(std::string(text), ',');
    for (const std::string& choice : choices) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(choice, '=');
      const auto knob = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& candidate) {
        return candidate.name == parts.first;
      });
      int64_t value = 0;
      if (knob == knobs.end() || !absl::SimpleAtoi(parts.second, &value)) return refuse();
      if (std::find(knob->values.begin(), knob->values.end(), value) == knob->values.end()) {
        return refuse();
      }
      values[static_cast<size_t>(knob - knobs.begin())] = value;
    }
  }
  for (size_t k = 0; k < knobs.size(); ++k) tunable->SetKnob(k, values[k]);
  return absl::OkStatus();
}

std::string TuneAtStart(kernels::Backend* backend, DType dtype, const std::string& file,
                        const std::function<absl::Status()>& keep_on) {
  auto* const tunable = backend->tunable();
  if (tunable == nullptr) return "";
  const SharedFile shared(file, keep_on);
  if (!shared.ok() && !absl::IsUnavailable(shared.status())) return "";
  const std::string key = absl::StrCat("tune/", tunable->TunedFor(), "/", std::string(BuildStamp()),
                                       "/", std::string(DTypeName(dtype)));
  const std::string known = shared.ok() ? shared.Find(key) : "";
  if (!known.empty() && SetChoices(known, tunable).ok()) {
    return absl::StrCat("kernels as measured before: ", known);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto results = TuneBackend(backend, dtype, {});
  if (!results.ok()) {
    return absl::StrCat("kernels not tuned: ", std::string(results.status().message()));
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string choices = ChoicesText(*tunable);
  if (shared.ok()) shared.Append(key, choices);
  return absl::StrFormat("kernels measured in %.2f s: %s", seconds, choices);
}

}  // namespace tutti::worker
