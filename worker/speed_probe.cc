#include "worker/speed_probe.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
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

// Others' work that counts: with a tenth of the processors it costs about a tenth of the speed, and
// speeds within 15 % count as equal.
constexpr double kOthersShareCounts = 0.1;
constexpr int kMeasuresMax = 4;
// Short work of others, as a start of several programs is, may be over by then.
constexpr auto kPauseForOthers = std::chrono::milliseconds(300);
// For which a speed beside others is told to equal workers: those of one start come within it.
constexpr int64_t kBesideOthersForS = 60;
// Between a speed and the time of a measurement beside others, and between that and their share.
constexpr char kBesideOthers = '!';
constexpr char kOthersShare = ':';

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// The speed that was left in a file, and is still good; not known: none.
MeasuredSpeed KeptSpeed(const std::string& text) {
  const size_t mark = text.find(kBesideOthers);
  double share = 0;
  if (mark != std::string::npos) {
    const std::vector<std::string> told = absl::StrSplit(text.substr(mark + 1), kOthersShare);
    int64_t when = 0;
    const bool is_told = told.size() == 2 && absl::SimpleAtoi(told[0], &when) &&
                         absl::SimpleAtod(told[1], &share) && share > 0 && share <= 1;
    const int64_t age = static_cast<int64_t>(std::time(nullptr)) - when;
    if (!is_told || age < 0 || age > kBesideOthersForS) return {};
  }
  auto speed = ParseSpeed(text.substr(0, mark));
  if (!speed.ok()) return {};
  speed->others_share = share;
  return *speed;
}

// The time of the quickest of a few passes: a disturbance only makes one longer.
template <class Fn>
double Best(const Fn& pass) {
  double best = pass();
  for (int i = 1; i < kProbePasses; ++i) best = std::min(best, pass());
  return best;
}

}  // namespace

double OthersShare::Since() {
  // "cpu user nice system idle iowait irq softirq steal ...", over all processors.
  std::ifstream file("/proc/stat");
  std::string name;
  double ticks[8] = {};
  file >> name;
  for (double& one : ticks) file >> one;
  rusage own{};
  if (!file || name != "cpu" || getrusage(RUSAGE_SELF, &own) != 0) return 0;
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  double all = 0;
  for (const double one : ticks) all += one / per_second;
  const double busy = all - (ticks[3] + ticks[4]) / per_second;
  const double mine = SecondsOf(own.ru_utime) + SecondsOf(own.ru_stime);
  const double others = (busy - busy_s_) - (mine - own_s_);
  const double span = all - all_s_;
  busy_s_ = busy;
  own_s_ = mine;
  all_s_ = all;
  return span <= 0 ? 0 : std::clamp(others / span, 0.0, 1.0);
}

MeasuredSpeed MeasureWhenQuiet(const std::function<MeasuredSpeed()>& measure,
                               const std::function<double()>& others_share,
                               const std::function<void()>& pause) {
  MeasuredSpeed best;
  for (int i = 0; i < kMeasuresMax; ++i) {
    if (i > 0) pause();
    (void)others_share();
    const MeasuredSpeed speed = measure();
    const double share = others_share();
    best.read_bytes_per_second = std::max(best.read_bytes_per_second, speed.read_bytes_per_second);
    best.flops_per_second = std::max(best.flops_per_second, speed.flops_per_second);
    best.others_share = share > kOthersShareCounts ? share : 0;
    if (best.others_share == 0) break;
  }
  return best;
}

absl::StatusOr<MeasuredSpeed> MeasureSpeed(kernels::Backend* backend, DType dtype) {
  TUTTI_ASSIGN_OR_RETURN(const auto probe,
                         ProductProbe::Create(backend, {.dtype = dtype,
                                                        .in_features = kProbeWidth,
                                                        .out_features = kProbeWidth,
                                                        .weight_bytes = kProbeWeightBytes,
                                                        .rows_max = kProbeRows}));
  const auto measure = [&] {
    MeasuredSpeed speed;
    speed.read_bytes_per_second = static_cast<double>(probe->bytes()) /
                                  Best([&] { return probe->Seconds(1, probe->weights()); });
    speed.flops_per_second = 2.0 * kProbeRows * kProbeWidth * kProbeWidth /
                             Best([&] { return probe->Seconds(kProbeRows, 1); });
    return speed;
  };
  OthersShare others;
  return MeasureWhenQuiet(
      measure, [&] { return others.Since(); },
      [] { std::this_thread::sleep_for(kPauseForOthers); });
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
  const MeasuredSpeed known = KeptSpeed(shared.Find(key));
  if (known.known()) return known;
  TUTTI_ASSIGN_OR_RETURN(MeasuredSpeed speed, measure());
  // Rounded as other workers will read it.
  speed.read_bytes_per_second = std::round(speed.read_bytes_per_second);
  speed.flops_per_second = std::round(speed.flops_per_second);
  std::string text =
      absl::StrFormat("%.0fB/s@%.0fflop/s", speed.read_bytes_per_second, speed.flops_per_second);
  if (speed.others_share > 0) {
    absl::StrAppendFormat(&text, "%c%d%c%.3f", kBesideOthers, std::time(nullptr), kOthersShare,
                          speed.others_share);
  }
  if (!shared.Append(key, text)) spdlog::warn("--speed-file {}: cannot be written", file);
  return speed;
}

}  // namespace tutti::worker
