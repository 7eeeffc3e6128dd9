#include "kernels/backend.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/mask_row.h"
#include "kernels/quantised_source.h"

namespace tutti::kernels {

// Of backends in the host's memory.
void Backend::MaskLogits(TensorView logits, std::span<const int32_t> rows,
                         std::span<const uint32_t> masks) {
  const auto words = static_cast<size_t>(MaskWords(logits.cols));
  CHECK(logits.device == Device() && masks.size() == rows.size() * words);
  for (size_t i = 0; i < rows.size(); ++i) {
    MaskRow(logits.f32(rows[i]), masks.subspan(i * words, words), logits.cols);
  }
}

absl::StatusOr<std::unique_ptr<Weight>> Backend::PackQuantised(const QuantisedSource& source) {
  return absl::UnimplementedError(absl::StrCat(
      "weight ", source.name, ": backend \"", std::string(name()),
      "\" has no kernels for quantised weights; the cpu backend has, and a bf16 checkpoint of the "
      "same model loads here"));
}

void Backend::Bests(TensorView logits, std::span<Candidate> out) {
  std::vector<int32_t> ids(out.size());
  ArgMax(logits, ids);
  // As one row, of which each best has its place.
  TensorView all = logits;
  all.rows = 1;
  all.cols = (logits.rows - 1) * logits.row_stride + logits.cols;
  CHECK(all.cols <= std::numeric_limits<int32_t>::max());
  std::vector<int32_t> places;
  for (size_t r = 0; r < ids.size(); ++r) {
    if (ids[r] < 0) continue;
    places.push_back(static_cast<int32_t>(static_cast<int64_t>(r) * logits.row_stride + ids[r]));
  }
  std::vector<float> picked(places.size());
  if (!places.empty()) Pick(all, places, picked);
  size_t next = 0;
  for (size_t r = 0; r < ids.size(); ++r) {
    out[r] = {.id = ids[r]};
    if (ids[r] >= 0) out[r].logit = picked[next++];
  }
}

void Backend::TopCandidatesOfRows(TensorView logits, std::span<const int32_t> rows, int64_t count,
                                  std::span<Candidate> out) {
  CHECK(out.size() == rows.size() * static_cast<size_t>(count));
  std::vector<Candidate> found;
  for (size_t i = 0; i < rows.size(); ++i) {
    TopCandidates(logits, rows[i], count, &found);
    const auto to = out.subspan(i * static_cast<size_t>(count), static_cast<size_t>(count));
    std::fill(std::copy(found.begin(), found.end(), to.begin()), to.end(), Candidate{.id = -1});
  }
}

void Backend::Summarize(TensorView logits, const LogitQuestions& questions,
                        const LogitAnswers& answers) {
  Bests(logits, answers.bests);
  const auto rows = static_cast<size_t>(logits.rows);
  const size_t ranges = questions.ranges.size();
  const auto& temperatures = questions.inverse_temperatures;
  std::vector<double> sums;
  // Neighbours of one temperature together: they are mostly outputs of one request.
  for (size_t first = 0, end = 0; first < temperatures.size(); first = end) {
    const double temperature = temperatures[first];
    end = first + 1;
    while (end % rows != 0 && temperatures[end] == temperature) ++end;
    if (temperature == 0) continue;
    const TensorView some =
        logits.Rows(static_cast<int64_t>(first % rows), static_cast<int64_t>(end - first));
    sums.resize(end - first);
    for (size_t range = 0; range < ranges; ++range) {
      const auto& [begin, size] = questions.ranges[range];
      LogSumExp(some.Columns(begin, size), temperature, sums);
      for (size_t r = first; r < end; ++r) answers.sums[r * ranges + range] = sums[r - first];
    }
  }
  if (!questions.listed.empty()) {
    TopCandidatesOfRows(logits, questions.listed, questions.places, answers.listed);
  }
}

}  // namespace tutti::kernels
