// The largest logits of rows, told to the host: Backend::TopCandidates on a GPU.
//
// Thread: the backend's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/sampling.h"

namespace tutti::kernels::cuda {

class RowSelection {
 public:
  // `results` and `ids` are work space that calls may use, of their backend's.
  // REQUIRES: all three outlive this
  RowSelection(LaunchQueue* runtime, WorkSpace* results, Uploads* ids)
      : runtime_(runtime), results_(results), ids_(ids) {}

  // Backend::Bests. A launch and a wait.
  void Bests(TensorView logits, std::span<Candidate> out);

  // Backend::TopCandidates. A launch, and two waits: for how many there are, and for them.
  void OneRow(TensorView logits, int64_t row, int64_t count, std::vector<Candidate>* out);

  // Backend::TopCandidatesOfRows. A launch and a wait for as many rows as the memory that one whole
  // row takes has room for, so that no plan has to count it; those of more equals than fit are
  // asked about by themselves.
  void Rows(TensorView logits, std::span<const int32_t> rows, int64_t count,
            std::span<Candidate> out);

 private:
  void SomeRows(TensorView logits, std::span<const int32_t> rows, int64_t count, int64_t room,
                std::span<Candidate> out);

  LaunchQueue* const runtime_;
  WorkSpace* const results_;
  Uploads* const ids_;
  // Kept for their memory:
  std::vector<char> found_;
  std::vector<Candidate> one_row_;
  std::vector<DeviceCandidate> parts_;
};

}  // namespace tutti::kernels::cuda
