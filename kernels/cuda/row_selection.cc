#include "kernels/cuda/row_selection.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/operands.h"

namespace tutti::kernels::cuda {
namespace {

static_assert(sizeof(Candidate) == sizeof(DeviceCandidate));

// Puts what a kernel found in no order in order, and leaves the first `count`.
void PutInOrder(int64_t count, std::vector<Candidate>* found) {
  std::sort(found->begin(), found->end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  found->resize(std::min(found->size(), static_cast<size_t>(count)));
}

void CopyPadded(std::span<const Candidate> from, std::span<Candidate> to) {
  std::fill(std::copy(from.begin(), from.end(), to.begin()), to.end(), Candidate{.id = -1});
}

// Of the best of each part of a row, in order.
Candidate BestOf(std::span<const DeviceCandidate> parts) {
  Candidate best = {.id = -1};
  for (const DeviceCandidate& part : parts) {
    if (part.id == kUnusableRow) return {.id = -1};
    if (part.id == kNoCandidate) continue;
    if (best.id < 0 || part.logit > best.logit) best = {.id = part.id, .logit = part.logit};
  }
  return best;
}

}  // namespace

void RowSelection::Bests(TensorView logits, std::span<Candidate> out) {
  if (logits.rows == 0) return;
  const int64_t most = std::max<int64_t>(1, kBestParts / logits.rows);
  const int64_t wanted = std::clamp<int64_t>((logits.cols + kBestPart - 1) / kBestPart, 1, most);
  const int64_t part = std::max<int64_t>(1, (logits.cols + wanted - 1) / wanted);
  const int64_t parts = std::max<int64_t>(1, (logits.cols + part - 1) / part);
  const int64_t bytes = logits.rows * parts * static_cast<int64_t>(sizeof(DeviceCandidate));
  auto* const space = results_->Of<DeviceCandidate>(logits.rows * parts);
  LaunchFindBests({.logits = logits.f32(),
                   .stride = Stride(logits),
                   .best = space,
                   .rows = logits.rows,
                   .vocab = static_cast<int32_t>(logits.cols),
                   .part = static_cast<int32_t>(part),
                   .parts = static_cast<int32_t>(parts)},
                  runtime_);
  parts_.resize(static_cast<size_t>(logits.rows * parts));
  runtime_->Download(parts_.data(), bytes, space, bytes, bytes, 1);
  for (size_t r = 0; r < out.size(); ++r) {
    const auto each = static_cast<size_t>(parts);
    out[r] = BestOf(std::span(parts_).subspan(r * each, each));
  }
}

void RowSelection::OneRow(TensorView logits, int64_t row, int64_t count,
                          std::vector<Candidate>* out) {
  out->clear();
  if (count == 0 || logits.cols == 0) return;
  char* const space = results_->Of<char>(SelectBytes(logits.cols));
  runtime_->Zero(space, sizeof(int32_t));
  LaunchSelect({.logits = logits.f32(row),
                .vocab = static_cast<int32_t>(logits.cols),
                .wanted = static_cast<int32_t>(std::min(count, logits.cols)),
                .room = logits.cols,
                .found = space},
               runtime_);
  int32_t found = 0;
  runtime_->Download(&found, sizeof(found), space, sizeof(found), sizeof(found), 1);
  out->resize(static_cast<size_t>(found));
  const auto bytes = static_cast<int64_t>(out->size() * sizeof(Candidate));
  runtime_->Download(out->data(), bytes, space + kSelectCountBytes, bytes, bytes, 1);
  PutInOrder(count, out);
}

void RowSelection::Rows(TensorView logits, std::span<const int32_t> rows, int64_t count,
                        std::span<Candidate> out) {
  // Room for as many again that equal the last.
  const int64_t room = std::min(2 * count, logits.cols);
  const int64_t together = SelectBytes(logits.cols) / SelectBytes(room);
  for (size_t first = 0; first < rows.size();) {
    const size_t number = std::min(rows.size() - first, static_cast<size_t>(together));
    SomeRows(logits, rows.subspan(first, number), count, room,
             out.subspan(first * static_cast<size_t>(count), number * static_cast<size_t>(count)));
    first += number;
  }
}

void RowSelection::SomeRows(TensorView logits, std::span<const int32_t> rows, int64_t count,
                            int64_t room, std::span<Candidate> out) {
  if (room == 0) return CopyPadded({}, out);
  const int64_t each = SelectBytes(room);
  const int64_t bytes = static_cast<int64_t>(rows.size()) * each;
  char* const space = results_->Of<char>(bytes);
  runtime_->Zero(space, bytes);
  LaunchSelect({.logits = logits.f32(),
                .stride = Stride(logits),
                .rows = static_cast<int64_t>(rows.size()),
                .row = ids_->Get(rows),
                .vocab = static_cast<int32_t>(logits.cols),
                .wanted = static_cast<int32_t>(std::min(count, logits.cols)),
                .room = room,
                .found = space},
               runtime_);
  found_.resize(static_cast<size_t>(bytes));
  runtime_->Download(found_.data(), bytes, space, bytes, bytes, 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* const found = found_.data() + static_cast<int64_t>(i) * each;
    int32_t size = 0;
    std::memcpy(&size, found, sizeof(size));
    if (size > room) {
      OneRow(logits, rows[i], count, &one_row_);
    } else {
      one_row_.resize(static_cast<size_t>(size));
      std::memcpy(one_row_.data(), found + kSelectCountBytes, one_row_.size() * sizeof(Candidate));
      PutInOrder(count, &one_row_);
    }
    const auto per_row = static_cast<size_t>(count);
    CopyPadded(one_row_, out.subspan(i * per_row, per_row));
  }
}

}  // namespace tutti::kernels::cuda
