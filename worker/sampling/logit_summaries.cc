#include "worker/sampling/logit_summaries.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/portable_math.h"
#include "model/limits.h"

namespace tutti::worker {
namespace {

using kernels::TensorView;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Writes and reads plain values one after the other.
class Writer {
 public:
  explicit Writer(std::span<std::byte> block) : at_(block.data()) {}
  template <class T>
  void Put(const T& value) {
    std::memcpy(at_, &value, sizeof(T));
    at_ += sizeof(T);
  }

 private:
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> block) : at_(block.data()) {}
  template <class T>
  T Read() {
    T value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  const std::byte* at_;
};

// log(sum of exp(part)), parts in order.
class LogSum {
 public:
  void Add(double part) {
    CHECK(count_ < parts_.size());
    parts_[count_++] = part;
  }
  double Total() const {
    double largest = -kInfinity;
    for (const double part : std::span(parts_).first(count_)) {
      if (std::isnan(part)) return part;
      largest = std::max(largest, part);
    }
    if (std::isinf(largest)) return largest;
    double sum = 0;
    for (const double part : std::span(parts_).first(count_)) sum += Exp(part - largest);
    return largest + Log(sum);
  }

 private:
  std::array<double, model::kLeaves> parts_;
  size_t count_ = 0;
};

// Ranks come in the order of their ids, so of equals the first stays.
void Improve(const RowBest& other, RowBest* best) {
  if (best->state == RowBest::kLate || other.state == RowBest::kNothing) return;
  if (best->state == RowBest::kPoisoned && other.state != RowBest::kLate) return;
  if (other.state == RowBest::kLate || other.state == RowBest::kPoisoned ||
      best->state == RowBest::kNothing || other.logit > best->logit) {
    *best = other;
  }
}

// The rows of one question to the backend. A processor lists one after another, and whoever watches
// wants to hear of it.
constexpr size_t kRowsTogether = 64;

int64_t RoundUp8(int64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

LogitSummaries::LogitSummaries(kernels::Backend* backend, const VocabularyShare& share)
    : backend_(backend), share_(share) {
  for (const model::Range& leaf : share_.leaves) ranges_.push_back({leaf.begin, leaf.size()});
}

VocabularyShare ShareVocabulary(int64_t vocab_size, int ranks, int rank) {
  VocabularyShare share{.vocab_size = vocab_size, .ranks = ranks, .rank = rank};
  share.own = model::SplitRange(vocab_size, model::kVocabSplitRows, ranks, rank);
  for (int r = 0; r < ranks; ++r) {
    share.widest = std::max(share.widest,
                            model::SplitRange(vocab_size, model::kVocabSplitRows, ranks, r).size());
  }
  for (int leaf = rank * model::kLeaves / ranks; leaf < (rank + 1) * model::kLeaves / ranks;
       ++leaf) {
    const model::Range range =
        model::SplitRange(vocab_size, model::kVocabSplitRows, model::kLeaves, leaf);
    share.leaves.push_back({range.begin - share.own.begin, range.end - share.own.begin});
  }
  CHECK(share.leaves.front().begin == 0 && share.leaves.back().end == share.own.size());
  return share;
}

int64_t LogitSummaries::ListBytes(int64_t count) const {
  return RoundUp8(std::min(count, share_.widest) * static_cast<int64_t>(sizeof(WalkCandidate)));
}

int64_t LogitSummaries::RowBytes(bool with_raw) const {
  return RoundUp8(share_.widest * static_cast<int64_t>(sizeof(float)) * (with_raw ? 2 : 1));
}

int64_t LogitSummaries::BlockBytes(const RowQuestion& question) const {
  const auto sums = static_cast<int64_t>(share_.leaves.size() * sizeof(double));
  int64_t bytes = sizeof(RowBest) + (question.adjusted ? sizeof(RowBest) : 0);
  if (question.log_sum) bytes += sums;
  if (question.inverse_temperature > 0) bytes += sums + ListBytes(kFirstPortion);
  if (question.top > 0) bytes += ListBytes(question.top);
  return bytes;
}

void LogitSummaries::Begin(std::span<const RowQuestion> questions, TensorView logits,
                           const ProgressCallback& progress) {
  CHECK(logits.rows == static_cast<int64_t>(questions.size()));
  const size_t rows = questions.size(), sums = rows * ranges_.size();
  bests_.assign(rows, RowBest());
  list_of_row_.assign(rows, -1);
  listed_.clear();
  places_ = static_cast<size_t>(std::min(kFirstPortion, logits.cols));
  // Of a rank without a token of its own.
  model_sums_.assign(sums, -kInfinity);
  draw_sums_.assign(sums, -kInfinity);
  if (logits.cols == 0) return;
  for (size_t first = 0; first < rows; first += kRowsTogether) {
    const size_t number = std::min(rows - first, kRowsTogether);
    Summarize(questions.subspan(first, number),
              logits.Rows(static_cast<int64_t>(first), static_cast<int64_t>(number)), first);
    Tell(progress);
  }
}

void LogitSummaries::Summarize(std::span<const RowQuestion> questions, TensorView logits,
                               size_t first) {
  const size_t rows = questions.size(), leaves = ranges_.size();
  inverse_temperatures_.assign(2 * rows, 0);
  listed_rows_.clear();
  const size_t lists = places_ == 0 ? 0 : listed_.size() / places_;
  bool sums = false;
  for (size_t r = 0; r < rows; ++r) {
    const RowQuestion& question = questions[r];
    const bool drawn = question.inverse_temperature > 0 && !question.adjusted;
    if (question.log_sum) inverse_temperatures_[r] = 1;
    if (drawn) inverse_temperatures_[rows + r] = question.inverse_temperature;
    sums = sums || drawn || question.log_sum;
    if (!drawn && (question.top == 0 || question.top > kFirstPortion)) continue;
    list_of_row_[first + r] = static_cast<int32_t>(lists + listed_rows_.size());
    listed_rows_.push_back(static_cast<int32_t>(r));
  }
  if (!sums) inverse_temperatures_.clear();
  best_candidates_.resize(rows);
  sums_.resize(inverse_temperatures_.size() * leaves);
  listed_.resize((lists + listed_rows_.size()) * places_);
  backend_->Summarize(logits,
                      {.inverse_temperatures = inverse_temperatures_,
                       .ranges = ranges_,
                       .listed = listed_rows_,
                       .places = static_cast<int64_t>(places_)},
                      {.bests = best_candidates_,
                       .sums = sums_,
                       .listed = std::span(listed_).subspan(lists * places_)});
  for (size_t r = 0; r < rows; ++r) {
    bests_[first + r] = BestOf(best_candidates_[r], logits.Rows(static_cast<int64_t>(r), 1));
  }
  if (!sums) return;
  const auto middle = sums_.begin() + static_cast<std::ptrdiff_t>(rows * leaves);
  const auto at = static_cast<std::ptrdiff_t>(first * leaves);
  std::copy(sums_.begin(), middle, model_sums_.begin() + at);
  std::copy(middle, sums_.end(), draw_sums_.begin() + at);
}

std::span<const kernels::Candidate> LogitSummaries::Listed(size_t row) const {
  const int32_t list = list_of_row_[row];
  if (list < 0) return {};
  return std::span(listed_).subspan(static_cast<size_t>(list) * places_, places_);
}

void LogitSummaries::PutListed(std::span<const kernels::Candidate> listed, int64_t count,
                               std::span<std::byte> block) const {
  Writer writer(block);
  const auto places = static_cast<size_t>(std::min(count, share_.widest));
  for (size_t i = 0; i < places; ++i) {
    const bool is_one = i < listed.size() && listed[i].id >= 0;
    writer.Put(is_one ? WalkCandidate{.id = static_cast<int32_t>(listed[i].id + share_.own.begin),
                                      .logit = listed[i].logit,
                                      .raw = listed[i].logit}
                      : WalkCandidate{.id = -1});
  }
}

RowBest LogitSummaries::BestOf(const kernels::Candidate& best, TensorView row) {
  if (best.id < 0) return NoBest(row);
  return {.logit = best.logit,
          .raw = best.logit,
          .id = static_cast<int32_t>(best.id + share_.own.begin),
          .state = RowBest::kNumber};
}

void LogitSummaries::Fill(const RowQuestion& question, size_t row, TensorView raw,
                          TensorView adjusted, std::span<std::byte> block) {
  Writer writer(block);
  writer.Put(bests_[row]);
  if (question.adjusted) {
    SummarizeAdjusted(question, raw, adjusted);
    writer.Put(adjusted_best_);
  }
  const size_t leaves = share_.leaves.size();
  const auto put_sums = [&](std::span<const double> sums) {
    for (const double sum : sums) writer.Put(sum);
  };
  if (question.log_sum) put_sums(std::span(model_sums_).subspan(row * leaves, leaves));
  if (question.inverse_temperature > 0) {
    put_sums(question.adjusted ? std::span<const double>(adjusted_sums_)
                               : std::span(draw_sums_).subspan(row * leaves, leaves));
  }
  int64_t lists = 0;
  if (question.inverse_temperature > 0) lists += ListBytes(kFirstPortion);
  if (question.top > 0) lists += ListBytes(question.top);
  std::span<std::byte> rest = block.last(static_cast<size_t>(lists));
  const std::span<const kernels::Candidate> listed = Listed(row);
  if (question.inverse_temperature > 0) {
    if (question.adjusted) {
      PutCandidates(kFirstPortion, rest);
    } else {
      PutListed(listed, kFirstPortion, rest);
    }
    rest = rest.subspan(static_cast<size_t>(ListBytes(kFirstPortion)));
  }
  if (question.top == 0) return;
  if (question.top > kFirstPortion || listed.empty()) {
    FillList(question.top, raw, raw, rest);
  } else {
    PutListed(listed, question.top, rest);
  }
}

void LogitSummaries::SummarizeAdjusted(const RowQuestion& question, TensorView raw,
                                       TensorView adjusted) {
  adjusted_best_ = RowBest();
  adjusted_sums_.assign(ranges_.size(), -kInfinity);
  candidates_.clear();
  if (adjusted.cols == 0) return;
  const bool drawn = question.inverse_temperature > 0;
  const size_t places = drawn ? places_ : 0;
  const int32_t this_row = 0;
  candidates_.resize(places + 1);  // the best is asked about with them
  backend_->Summarize(
      adjusted,
      {.inverse_temperatures = {&question.inverse_temperature, drawn ? size_t{1} : 0},
       .ranges = ranges_,
       .listed = {&this_row, drawn ? size_t{1} : 0},
       .places = static_cast<int64_t>(places)},
      {.bests = std::span(candidates_).last(1),
       .sums = drawn ? std::span(adjusted_sums_) : std::span<double>(),
       .listed = std::span(candidates_).first(places)});
  adjusted_best_ = BestOf(candidates_.back(), adjusted);
  PickRaw(raw);
  if (adjusted_best_.state == RowBest::kNumber) adjusted_best_.raw = candidate_raw_.back();
  candidates_.pop_back();
}

// candidate_raw_ of candidates_; of those that are none 0.
void LogitSummaries::PickRaw(TensorView raw) {
  candidate_ids_.clear();
  for (const kernels::Candidate& candidate : candidates_) {
    candidate_ids_.push_back(std::max(candidate.id, 0));
  }
  candidate_raw_.resize(candidates_.size());
  if (!candidates_.empty()) backend_->Pick(raw, candidate_ids_, candidate_raw_);
}

void LogitSummaries::FillList(int64_t count, TensorView raw, TensorView adjusted,
                              std::span<std::byte> block) {
  const int64_t places = std::min(count, share_.widest);
  candidates_.clear();
  if (adjusted.cols > 0) {
    backend_->TopCandidates(adjusted, 0, std::min(places, adjusted.cols), &candidates_);
  }
  PickRaw(raw);
  PutCandidates(count, block);
}

void LogitSummaries::PutCandidates(int64_t count, std::span<std::byte> block) const {
  Writer writer(block);
  const auto places = static_cast<size_t>(std::min(count, share_.widest));
  for (size_t i = 0; i < places; ++i) {
    const bool is_one = i < candidates_.size() && candidates_[i].id >= 0;
    writer.Put(is_one
                   ? WalkCandidate{.id = static_cast<int32_t>(candidates_[i].id + share_.own.begin),
                                   .logit = candidates_[i].logit,
                                   .raw = candidate_raw_[i]}
                   : WalkCandidate{.id = -1});
  }
}

RowBest LogitSummaries::NoBest(TensorView row) {
  double sum = 0;
  backend_->LogSumExp(row, 1, {&sum, 1});
  return {.state = sum == -kInfinity ? RowBest::kNothing : RowBest::kPoisoned};
}

void LogitSummaries::Merge(const RowQuestion& question,
                           std::span<const std::span<const std::byte>> blocks,
                           RowAnswer* answer) const {
  answer->raw = RowBest();
  answer->best = RowBest();
  answer->draw.clear();
  answer->top.clear();
  LogSum log_sum, draw_log_sum;
  for (const auto& block : blocks) {
    Reader reader(block);
    const auto raw = reader.Read<RowBest>();
    Improve(raw, &answer->raw);
    Improve(question.adjusted ? reader.Read<RowBest>() : raw, &answer->best);
    for (size_t i = 0; question.log_sum && i < share_.leaves.size(); ++i) {
      log_sum.Add(reader.Read<double>());
    }
    for (size_t i = 0; question.inverse_temperature > 0 && i < share_.leaves.size(); ++i) {
      draw_log_sum.Add(reader.Read<double>());
    }
  }
  answer->log_sum = log_sum.Total();
  answer->draw_log_sum = draw_log_sum.Total();
  const int64_t top_bytes = question.top > 0 ? ListBytes(question.top) : 0;
  std::vector<std::span<const std::byte>> lists(blocks.begin(), blocks.end());
  if (question.inverse_temperature > 0) {
    for (auto& list : lists) {
      list = list.last(static_cast<size_t>(ListBytes(kFirstPortion) + top_bytes));
    }
    MergeLists(kFirstPortion, lists, &answer->draw);
  }
  if (question.top > 0) {
    for (auto& list : lists) list = list.last(static_cast<size_t>(top_bytes));
    MergeLists(question.top, lists, &answer->top);
  }
}

void LogitSummaries::MergeLists(int64_t count, std::span<const std::span<const std::byte>> blocks,
                                std::vector<WalkCandidate>* out) const {
  out->clear();
  const int64_t places = std::min(count, share_.widest);
  for (const auto& block : blocks) {
    Reader reader(block);
    for (int64_t i = 0; i < places; ++i) {
      const auto candidate = reader.Read<WalkCandidate>();
      if (candidate.id < 0) break;
      out->push_back(candidate);
    }
  }
  if (blocks.size() > 1) std::sort(out->begin(), out->end(), ListedBefore);
  if (static_cast<int64_t>(out->size()) > count) out->resize(static_cast<size_t>(count));
}

}  // namespace tutti::worker
