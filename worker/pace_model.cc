#include "worker/pace_model.h"

#include <algorithm>

#include "worker/limits.h"

namespace tutti::worker {

PaceModel::PaceModel(double read_bytes_per_second, double flops_per_second)
    : read_bytes_per_second_(read_bytes_per_second > 0 ? read_bytes_per_second : kAssumedReadSpeed),
      flops_per_second_(flops_per_second > 0 ? flops_per_second : kAssumedFlops) {}

double PaceModel::Predict(const kernels::Work& work) const {
  return std::max(0.0, work.bytes) / read_bytes_per_second_ +
         std::max(0.0, work.flops) / flops_per_second_;
}

Duration PaceModel::Allow(const kernels::Work& work) const {
  const double seconds = kSliceMargin * slowness_ * Predict(work);
  return kSliceTimeMin + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
                             std::min(seconds, Seconds(kSliceTimeMax - kSliceTimeMin))));
}

void PaceModel::Learn(const kernels::Work& work, Duration took) {
  const double predicted = Predict(work);
  if (predicted <= 0 || took <= Duration::zero()) return;
  const double now = std::clamp(Seconds(took) / predicted, kSlownessMin, kSlownessMax);
  slowness_ = now > slowness_ ? now : slowness_ + (1 - kSlownessKept) * (now - slowness_);
}

}  // namespace tutti::worker
