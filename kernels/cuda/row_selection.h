// What sampling asks of rows of logits on a GPU, told to the host: best logits, sums of
// exponentials, and first candidates.
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
  // `results` and `arrays` are work space that calls may use, of their backend's.
  // REQUIRES: all three outlive this
  RowSelection(LaunchQueue* runtime, WorkSpace* results, Uploads* arrays)
      : runtime_(runtime), results_(results), arrays_(arrays) {}

  // Backend::Summarize. One wait for as many rows as the memory that is planned for results has
  // room for: 64 of a large vocabulary.
  void Summarize(TensorView logits, const LogitQuestions& questions, const LogitAnswers& answers);

  // Backend::Bests
  void Bests(TensorView logits, std::span<Candidate> out) { Summarize(logits, {}, {.bests = out}); }

  // Backend::TopCandidates. A wait; of more than kSelectedMax two: for how many there are, and for
  // them.
  void OneRow(TensorView logits, int64_t row, int64_t count, std::vector<Candidate>* out);

  // Backend::TopCandidatesOfRows, as OneRow; of up to kSelectedMax as Summarize.
  void Rows(TensorView logits, std::span<const int32_t> rows, int64_t count,
            std::span<Candidate> out);

 private:
  // The places of answers in `results`, and how their rows are divided.
  struct Plan {
    int64_t bests = 0, sums = 0, lists = 0, end = 0;  // bytes; behind `end` only kernels look
    int64_t best_part = 0, best_parts = 0;
    int64_t total = 0;
  };
  Plan PlanOf(TensorView logits, const LogitQuestions& questions, bool bests) const;
  // REQUIRES: places up to kSelectedMax
  void SummarizeSome(TensorView logits, const LogitQuestions& questions,
                     const LogitAnswers& answers);
  // Bests and sums of `some`, rows [first, ..) of `rows` that are asked about.
  void SumRows(TensorView some, int64_t first, int64_t rows, const LogitQuestions& questions,
               const LogitAnswers& answers);
  void LaunchBests(TensorView logits, const Plan& plan, char* space);
  void LaunchSums(TensorView logits, const LogitQuestions& questions, const Plan& plan,
                  char* space);
  void LaunchLists(TensorView logits, const LogitQuestions& questions, const Plan& plan,
                   char* space);
  void OneLongList(TensorView logits, int64_t row, int64_t count, std::vector<Candidate>* out);

  LaunchQueue* const runtime_;
  WorkSpace* const results_;
  Uploads* const arrays_;
  // Kept for their memory:
  std::vector<char> answer_;
  std::vector<DeviceCandidate> best_parts_;
  std::vector<Candidate> one_row_;
  std::vector<int32_t> ranges_;
};

}  // namespace tutti::kernels::cuda
