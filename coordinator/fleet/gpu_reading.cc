#include "coordinator/fleet/gpu_reading.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/gpu_reading.h"

namespace tutti::coordinator {
namespace {

// False for what is no number, too.
bool FromZeroTo(double value, double most) { return value >= 0 && value <= most; }

bool IsLine(const std::string& text) {
  return text.size() <= kGpuTextBytesMax && PrintableOf(text, text.size()) == text;
}

}  // namespace

absl::Status CheckGpuReading(const v1::GpuReading& reading) {
  const int64_t total = reading.total_bytes();
  if (total < 0 || total > kGpuMemoryBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("its beat says that its GPU has ", total,
                                                   " bytes; 0 to ", kGpuMemoryBytesMax,
                                                   " are believed"));
  }
  for (const int64_t bytes : {reading.used_bytes(), reading.own_bytes(), reading.other_bytes()}) {
    if (bytes >= 0 && bytes <= total) continue;
    return absl::InvalidArgumentError(absl::StrCat("its beat says that ", bytes, " of the ", total,
                                                   " bytes of its GPU are held, which cannot be"));
  }
  if (!FromZeroTo(reading.busy_share(), 1) ||
      !FromZeroTo(reading.power_watts(), kGpuPowerWattsMax) ||
      !FromZeroTo(reading.power_limit_watts(), kGpuPowerWattsMax) ||
      !FromZeroTo(reading.temperature_celsius(), kGpuCelsiusMax) ||
      !FromZeroTo(reading.age_seconds(), kGpuAgeSecondsMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its beat says that its GPU is busy for ", reading.busy_share(),
                     " of the time, draws ", reading.power_watts(), " W of ",
                     reading.power_limit_watts(), " W and is at ", reading.temperature_celsius(),
                     " degrees, ", reading.age_seconds(), " s ago, which cannot be"));
  }
  for (const std::string* text : {&reading.name(), &reading.holders(), &reading.trouble()}) {
    if (IsLine(*text)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "its beat says something of its GPU in ", text->size(),
        " bytes; a line of printable ASCII of at most ", kGpuTextBytesMax, " is expected"));
  }
  return absl::OkStatus();
}

v1::GpuReading KeptGpuReading(const v1::GpuReading& reading) {
  v1::GpuReading kept = reading;
  kept.DiscardUnknownFields();
  kept.clear_cuda_bytes();
  return kept;
}

void FillGpu(const v1::GpuReading& reading, Duration since, v1::GpuReading* status) {
  *status = reading;
  status->set_age_seconds(reading.age_seconds() + Seconds(since));
}

void FillCudaBytes(const v1::MemoryBytes& held, v1::GpuReading* status) {
  if (status->own_bytes() == 0) return;
  int64_t rest = status->own_bytes();
  for (const int64_t part : {held.weights(), held.kv(), held.activations()}) {
    rest -= std::clamp<int64_t>(part, 0, rest);
  }
  status->set_cuda_bytes(rest);
}

}  // namespace tutti::coordinator
