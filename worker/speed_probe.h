// The speed at which this worker reads its memory and multiplies matrices, measured with the
// backend's own product: the work of a step, so that predictions hold.
//
// Threads: the one that owns the backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "kernels/backend.h"

namespace tutti::worker {

struct MeasuredSpeed {
  double read_bytes_per_second = 0;  // of weights, in a product of one row; 0: unknown
  double flops_per_second = 0;       // in a product of many rows; a multiply-add is two
  // Of the machine's processors that others had meanwhile, where that is enough to count; 0: the
  // machine was quiet.
  double others_share = 0;
  bool known() const { return read_bytes_per_second > 0 && flops_per_second > 0; }
};

// Takes about 0.2 s and kProbeWeightBytes of memory for as long; up to four times so long, with
// pauses, while others have more than a tenth of the machine's processors.
// RESOURCE_EXHAUSTED: the memory cannot be had.
absl::StatusOr<MeasuredSpeed> MeasureSpeed(kernels::Backend* backend, DType dtype);

// The share of the machine's processors that others have had since the last call, or since this was
// made; 0 where the system does not tell.
class OthersShare {
 public:
  OthersShare() { (void)Since(); }
  double Since();

 private:
  double busy_s_ = 0, own_s_ = 0, all_s_ = 0;
};

// The best of `measure`, called until others had little of the machine while it ran, and at most
// four times, `pause` between them. `others_share`: since it was called last.
MeasuredSpeed MeasureWhenQuiet(const std::function<MeasuredSpeed()>& measure,
                               const std::function<double()>& others_share,
                               const std::function<void()>& pause);

// The speed in the class that `backend` computes in now, from that in class `one`: by how much the
// shortest of many short products differ that take turns, so that what else the machine does
// changes their ratio little, and with it the choice of a class (docs/decisions/0066). Both read
// memory at its speed. Takes about 0.1 s.
// RESOURCE_EXHAUSTED: the memory cannot be had.
// REQUIRES: the backend has several classes, `one` among them
absl::StatusOr<MeasuredSpeed> SpeedFrom(const std::string& one, const MeasuredSpeed& speed,
                                        kernels::Backend* backend, int threads, DType dtype);

// "900GB/s@71Tflop/s", as `tutti plan` takes them. INVALID_ARGUMENT quotes the text.
absl::StatusOr<MeasuredSpeed> ParseSpeed(const std::string& text);

// The speed in `file` under `key`, or else the result of `measure`, which is then kept there for
// others. Workers of one machine that share a file measure one after another, each undisturbed by
// the others, and equal ones get the same. A file that cannot be used, or holds no speed, is left
// out: then `measure` decides alone. One that was measured beside others is for the workers of
// this start: a minute later it is measured again.
//
// `key`: names all that the speed depends on, without blanks. Waits while another process measures,
// as SharedFile does; that `keep_on` ended the wait is an error.
absl::StatusOr<MeasuredSpeed> SharedSpeed(
    const std::string& file, const std::string& key,
    const std::function<absl::StatusOr<MeasuredSpeed>()>& measure,
    const std::function<absl::Status()>& keep_on = nullptr);

}  // namespace tutti::worker
