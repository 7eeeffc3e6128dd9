#include "worker/speed_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/speed_text.h"
#include "kernels/several_classes.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"
#include "worker/product_probe.h"
#include "worker/shared_file.h"

namespace tutti::worker {
namespace {

// A class is compared with another by calls of a millisecond: beside other work of the machine a
// call is left alone now and then if it is shorter than a slice of a processor's time.
constexpr int64_t kCompareOutFeatures = 512;  // of each thread
constexpr int64_t kCompareRows = 64;
constexpr int kComparePasses = 24;

// The time of the quickest of a few passes: a disturbance only makes one longer.
template <class Fn>
double Best(const Fn& pass) {
  double best = pass();
  for (int i = 1; i < kProbePasses; ++i) best = std::min(best, pass());
  return best;
}

}  // namespace

absl::StatusOr<MeasuredSpeed> MeasureSpeed(kernels::Backend* backend, DType dtype) {
  TUTTI_ASSIGN_OR_RETURN(const auto probe,
                         ProductProbe::Create(backend, {.dtype = dtype,
                                                        .in_features = kProbeWidth,
                                                        .out_features = kProbeWidth,
                                                        .weight_bytes = kProbeWeightBytes,
                                                        .rows_max = kProbeRows}));
  MeasuredSpeed speed;
  speed.read_bytes_per_second = static_cast<double>(probe->bytes()) /
                                Best([&] { return probe->Seconds(1, probe->weights()); });
  speed.flops_per_second = 2.0 * kProbeRows * kProbeWidth * kProbeWidth /
                           Best([&] { return probe->Seconds(kProbeRows, 1); });
  return speed;
}

absl::StatusOr<MeasuredSpeed> SpeedFrom(const std::string& one, const MeasuredSpeed& speed,
                                        kernels::Backend* backend, int threads, DType dtype) {
  auto* const several = backend->several_classes();
  CHECK(several != nullptr);
  const std::string other(backend->numerics_class());
  TUTTI_ASSIGN_OR_RETURN(
      const auto probe,
      ProductProbe::Create(backend, {.dtype = dtype,
                                     .in_features = kProbeWidth,
                                     .out_features = kCompareOutFeatures * std::max(threads, 1),
                                     .weight_bytes = 1,
                                     .rows_max = kCompareRows}));
  double of_one = std::numeric_limits<double>::infinity();
  double of_other = of_one;
  for (int pass = 0; pass < kComparePasses; ++pass) {
    several->ComputeIn(one);
    of_one = std::min(of_one, probe->Seconds(kCompareRows, 1));
    several->ComputeIn(other);
    of_other = std::min(of_other, probe->Seconds(kCompareRows, 1));
  }
  return MeasuredSpeed{.read_bytes_per_second = speed.read_bytes_per_second,
                       .flops_per_second = speed.flops_per_second * of_one / of_other};
}

absl::StatusOr<MeasuredSpeed> ParseSpeed(const std::string& text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '@');
  if (parts.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no speed; write reading and computing, such as 900GB/s@71Tflop/s"));
  }
  MeasuredSpeed speed;
  TUTTI_ASSIGN_OR_RETURN(speed.read_bytes_per_second, ParseByteRate(parts[0], "900GB/s"));
  TUTTI_ASSIGN_OR_RETURN(speed.flops_per_second, ParseFlopRate(parts[1]));
  return speed;
}

absl::StatusOr<MeasuredSpeed> SharedSpeed(
    const std::string& file, const std::string& key,
    const std::function<absl::StatusOr<MeasuredSpeed>()>& measure,
    const std::function<absl::Status()>& keep_on) {
  if (file.empty()) return measure();
  const SharedFile shared(file, keep_on);
  if (!shared.ok()) {
    if (!absl::IsUnavailable(shared.status())) return shared.status();
    spdlog::warn("--speed-file {}: cannot be used: {}; measuring alone", file,
                 std::string(shared.status().message()));
    return measure();
  }
  const absl::StatusOr<MeasuredSpeed> known = ParseSpeed(shared.Find(key));
  if (known.ok()) return *known;
  TUTTI_ASSIGN_OR_RETURN(MeasuredSpeed speed, measure());
  // Rounded as other workers will read it.
  speed.read_bytes_per_second = std::round(speed.read_bytes_per_second);
  speed.flops_per_second = std::round(speed.flops_per_second);
  const std::string text =
      absl::StrFormat("%.0fB/s@%.0fflop/s", speed.read_bytes_per_second, speed.flops_per_second);
  if (!shared.Append(key, text)) spdlog::warn("--speed-file {}: cannot be written", file);
  return speed;
}

}  // namespace tutti::worker
