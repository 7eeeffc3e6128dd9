#include "kernels/cuda/row_selection.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/selection.h"
#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {
namespace {

static_assert(sizeof(Candidate) == sizeof(DeviceCandidate));
constexpr auto kCandidateBytes = static_cast<int64_t>(sizeof(DeviceCandidate));

int64_t Parts(int64_t count, int64_t part) { return (count + part - 1) / part; }

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

// Puts what a kernel found in no order in order; those that are none stand behind the others.
void PutInOrder(std::span<Candidate> found) {
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    if (a.id < 0 || b.id < 0) return a.id >= 0 && b.id < 0;
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
}

int32_t PartOf(int64_t lists) { return lists <= kSelectFewRows ? kSelectPartOfFew : kSelectPart; }

// Bytes that the parts of one of some rows take, before they are selected from again.
int64_t ScratchOf(int64_t cols, int64_t places, int64_t lists) {
  const int64_t parts = Parts(cols, PartOf(lists));
  if (parts <= 1) return 0;
  // The candidates of all parts, and those of parts of these.
  const int64_t again = Parts(parts * places, PartOf(lists));
  return (parts + (again > 1 ? again : 0)) * places * kCandidateBytes;
}

}  // namespace

RowSelection::Plan RowSelection::PlanOf(TensorView logits, const LogitQuestions& questions,
                                        bool bests) const {
  Plan plan;
  if (bests) {
    const int64_t most = std::max<int64_t>(1, kBestParts / logits.rows);
    const int64_t wanted = std::clamp<int64_t>(Parts(logits.cols, kBestPart), 1, most);
    plan.best_part = std::max<int64_t>(1, Parts(logits.cols, wanted));
    plan.best_parts = std::max<int64_t>(1, Parts(logits.cols, plan.best_part));
  }
  const auto lists = static_cast<int64_t>(questions.listed.size());
  plan.sums = plan.bests + logits.rows * plan.best_parts * kCandidateBytes;
  plan.lists = plan.sums + static_cast<int64_t>(questions.inverse_temperatures.size() *
                                                questions.ranges.size() * sizeof(double));
  plan.end = plan.lists + lists * questions.places * kCandidateBytes;
  plan.total = plan.end + lists * ScratchOf(logits.cols, questions.places, lists);
  return plan;
}

void RowSelection::Summarize(TensorView logits, const LogitQuestions& questions,
                             const LogitAnswers& answers) {
  const int64_t rows = logits.rows;
  if (rows == 0) return;
  const bool long_lists = questions.places > kSelectedMax;
  if (!long_lists &&
      PlanOf(logits, questions, !answers.bests.empty()).total <= GpuResultBytes(logits.cols)) {
    return SummarizeSome(logits, questions, answers);
  }
  // Some rows after the other, and then some lists.
  const int64_t sums = static_cast<int64_t>(questions.inverse_temperatures.size()) / rows;
  const auto ranges = static_cast<int64_t>(questions.ranges.size());
  const int64_t bytes = (Parts(logits.cols, kBestPart) + 1 + sums * ranges) * kCandidateBytes;
  const int64_t together = std::max<int64_t>(1, GpuResultBytes(logits.cols) / bytes);
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t number = std::min(together, rows - first);
    SumRows(logits.Rows(first, number), first, rows, questions, answers);
  }
  Rows(logits, questions.listed, questions.places, answers.listed);
}

void RowSelection::SumRows(TensorView some, int64_t first, int64_t rows,
                           const LogitQuestions& questions, const LogitAnswers& answers) {
  const auto begin = static_cast<size_t>(first), number = static_cast<size_t>(some.rows),
             all = static_cast<size_t>(rows), ranges = questions.ranges.size();
  const size_t sums = questions.inverse_temperatures.size() / all;
  std::vector<double> temperatures, values(sums * number * ranges);
  for (size_t sum = 0; sum < sums; ++sum) {
    const auto of_sum = questions.inverse_temperatures.subspan(sum * all + begin, number);
    temperatures.insert(temperatures.end(), of_sum.begin(), of_sum.end());
  }
  const auto bests = answers.bests.empty() ? answers.bests : answers.bests.subspan(begin, number);
  SummarizeSome(some, {.inverse_temperatures = temperatures, .ranges = questions.ranges},
                {.bests = bests, .sums = values});
  for (size_t sum = 0; sum < sums; ++sum) {
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(sum * number * ranges);
    std::copy_n(from, number * ranges,
                answers.sums.begin() + static_cast<std::ptrdiff_t>((sum * all + begin) * ranges));
  }
}

void RowSelection::SummarizeSome(TensorView logits, const LogitQuestions& questions,
                                 const LogitAnswers& answers) {
  const Plan plan = PlanOf(logits, questions, !answers.bests.empty());
  if (plan.end == 0) return;
  char* const space = results_->Of<char>(plan.total);
  if (!answers.bests.empty()) LaunchBests(logits, plan, space);
  if (!questions.inverse_temperatures.empty()) LaunchSums(logits, questions, plan, space);
  if (plan.end > plan.lists) LaunchLists(logits, questions, plan, space);
  answer_.resize(static_cast<size_t>(plan.end));
  runtime_->Download(answer_.data(), plan.end, space, plan.end, plan.end, 1);

  const auto parts = static_cast<size_t>(plan.best_parts);
  best_parts_.resize(answers.bests.size() * parts);
  std::memcpy(best_parts_.data(), answer_.data(), best_parts_.size() * sizeof(DeviceCandidate));
  for (size_t r = 0; r < answers.bests.size(); ++r) {
    answers.bests[r] = BestOf(std::span(best_parts_).subspan(r * parts, parts));
  }
  if (!answers.sums.empty()) {
    std::memcpy(answers.sums.data(), answer_.data() + plan.sums, answers.sums.size_bytes());
  }
  if (plan.end == plan.lists) return;
  std::memcpy(answers.listed.data(), answer_.data() + plan.lists, answers.listed.size_bytes());
  const auto places = static_cast<size_t>(questions.places);
  for (size_t i = 0; i < questions.listed.size(); ++i) {
    PutInOrder(answers.listed.subspan(i * places, places));
  }
}

void RowSelection::LaunchBests(TensorView logits, const Plan& plan, char* space) {
  LaunchFindBests({.logits = logits.f32(),
                   .stride = Stride(logits),
                   .best = reinterpret_cast<DeviceCandidate*>(space),
                   .rows = logits.rows,
                   .vocab = static_cast<int32_t>(logits.cols),
                   .part = static_cast<int32_t>(plan.best_part),
                   .parts = static_cast<int32_t>(plan.best_parts)},
                  runtime_);
}

void RowSelection::LaunchSums(TensorView logits, const LogitQuestions& questions, const Plan& plan,
                              char* space) {
  ranges_.clear();
  for (const ColumnRange& range : questions.ranges) {
    CHECK(range.begin >= 0 && range.begin + range.size <= logits.cols);
    ranges_.push_back(static_cast<int32_t>(range.begin));
    ranges_.push_back(static_cast<int32_t>(range.size));
  }
  const auto rows = static_cast<size_t>(logits.rows);
  LaunchLogSums({.logits = logits.f32(),
                 .stride = Stride(logits),
                 .inverse_temperature = arrays_->Get(questions.inverse_temperatures),
                 .range = arrays_->Get(std::span<const int32_t>(ranges_)),
                 .log_sum = reinterpret_cast<double*>(space + plan.sums),
                 .sums = static_cast<int32_t>(questions.inverse_temperatures.size() / rows),
                 .rows = static_cast<int32_t>(rows),
                 .ranges = static_cast<int32_t>(questions.ranges.size())},
                runtime_);
}

void RowSelection::LaunchLists(TensorView logits, const LogitQuestions& questions, const Plan& plan,
                               char* space) {
  const auto lists = static_cast<int64_t>(questions.listed.size());
  const int64_t places = questions.places;
  auto* const out = reinterpret_cast<DeviceCandidate*>(space + plan.lists);
  auto* const scratch = reinterpret_cast<DeviceCandidate*>(space + plan.end);
  DeviceCandidate* const halves[] = {scratch,
                                     scratch + lists * Parts(logits.cols, PartOf(lists)) * places};
  SelectPartsArgs args = {
      .logits = logits.f32(),
      .stride = Stride(logits),
      .row = arrays_->Get(questions.listed),
      .rows = lists,
      .count = static_cast<int32_t>(logits.cols),
      .part = PartOf(lists),
      .wanted = static_cast<int32_t>(places),
      .id_bits = static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(logits.cols)))};
  for (int level = 0;; ++level) {
    args.parts = static_cast<int32_t>(Parts(args.count, args.part));
    args.out = args.parts == 1 ? out : halves[level % 2];
    LaunchSelectParts(args, runtime_);
    if (args.parts == 1) return;
    args.candidates = args.out;
    args.count = args.parts * args.wanted;
  }
}

void RowSelection::OneRow(TensorView logits, int64_t row, int64_t count,
                          std::vector<Candidate>* out) {
  out->clear();
  count = std::min(count, logits.cols);
  if (count == 0) return;
  if (count > kSelectedMax) return OneLongList(logits, row, count, out);
  out->resize(static_cast<size_t>(count));
  const auto this_row = static_cast<int32_t>(row);
  Rows(logits, {&this_row, 1}, count, *out);
  while (!out->empty() && out->back().id < 0) out->pop_back();
}

void RowSelection::Rows(TensorView logits, std::span<const int32_t> rows, int64_t count,
                        std::span<Candidate> out) {
  const auto each = static_cast<size_t>(count);
  if (count == 0 || rows.empty()) return;
  if (logits.cols == 0) return std::fill(out.begin(), out.end(), Candidate{.id = -1});
  if (count > kSelectedMax) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto to = out.subspan(i * each, each);
      OneRow(logits, rows[i], count, &one_row_);
      std::fill(std::copy(one_row_.begin(), one_row_.end(), to.begin()), to.end(),
                Candidate{.id = -1});
    }
    return;
  }
  const int64_t bytes = count * kCandidateBytes + ScratchOf(logits.cols, count, 1);
  const auto together =
      static_cast<size_t>(std::max<int64_t>(1, GpuResultBytes(logits.cols) / bytes));
  for (size_t first = 0; first < rows.size(); first += together) {
    const size_t number = std::min(together, rows.size() - first);
    SummarizeSome(logits, {.listed = rows.subspan(first, number), .places = count},
                  {.listed = out.subspan(first * each, number * each)});
  }
}

void RowSelection::OneLongList(TensorView logits, int64_t row, int64_t count,
                               std::vector<Candidate>* out) {
  char* const space = results_->Of<char>(SelectBytes(logits.cols));
  runtime_->Zero(space, sizeof(int32_t));
  LaunchSelect({.logits = logits.f32(row),
                .found = space,
                .vocab = static_cast<int32_t>(logits.cols),
                .wanted = static_cast<int32_t>(count)},
               runtime_);
  int32_t found = 0;
  runtime_->Download(&found, sizeof(found), space, sizeof(found), sizeof(found), 1);
  out->resize(static_cast<size_t>(found));
  const auto bytes = static_cast<int64_t>(out->size() * sizeof(Candidate));
  runtime_->Download(out->data(), bytes, space + kSelectCountBytes, bytes, bytes, 1);
  PutInOrder(*out);
  out->resize(std::min(out->size(), static_cast<size_t>(count)));
}

}  // namespace tutti::kernels::cuda
