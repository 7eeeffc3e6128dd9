// The time that a piece of work may take on this worker: predicted from its speed, as measured at
// start and as its steps have shown since.
//
// Thread: the executor's.
#pragma once

#include "base/clock.h"
#include "kernels/work_meter.h"

namespace tutti::worker {

class PaceModel {
 public:
  // The speeds of the worker's hello; 0: not known.
  PaceModel(double read_bytes_per_second, double flops_per_second);

  // The most that `work` may take while the processors are the worker's own.
  Duration Allow(const kernels::Work& work) const;
  // A step of that much work took so long.
  void Learn(const kernels::Work& work, Duration took);

 private:
  double Predict(const kernels::Work& work) const;  // seconds

  const double read_bytes_per_second_;
  const double flops_per_second_;
  double slowness_ = 1;  // of recent steps beside what was predicted, near the worst
};

}  // namespace tutti::worker
