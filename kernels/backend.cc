#include "kernels/backend.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::kernels {

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

}  // namespace tutti::kernels
