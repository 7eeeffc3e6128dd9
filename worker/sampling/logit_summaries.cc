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
  if (best->state == RowBest::kPoisoned || other.state == RowBest::kNothing) return;
  if (other.state == RowBest::kPoisoned || best->state == RowBest::kNothing ||
      other.logit > best->logit) {
    *best = other;
  }
}

// The rows of one question to the backend. A processor lists one after another, and whoever watches
// wants to hear of it.
constexpr size_t kRowsListedTogether = 64;

int64_t RoundUp8(int64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

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
  FindBests(logits);
  auto& inverse = inverse_temperatures_;
  inverse.clear();
  for (const RowQuestion& question : questions) inverse.push_back(question.log_sum ? 1 : 0);
  SumRows(logits, inverse, &model_sums_);
  for (size_t r = 0; r < questions.size(); ++r) {
    inverse[r] = questions[r].adjusted ? 0 : questions[r].inverse_temperature;
  }
  SumRows(logits, inverse, &draw_sums_);
  ListRows(questions, logits, progress);
}

void LogitSummaries::ListRows(std::span<const RowQuestion> questions, TensorView logits,
                              const ProgressCallback& progress) {
  listed_rows_.clear();
  list_of_row_.assign(questions.size(), -1);
  if (logits.cols == 0) return;
  for (size_t r = 0; r < questions.size(); ++r) {
    const RowQuestion& question = questions[r];
    const bool drawn = question.inverse_temperature > 0 && !question.adjusted;
    if (!drawn && (question.top == 0 || question.top > kFirstPortion)) continue;
    list_of_row_[r] = static_cast<int32_t>(listed_rows_.size());
    listed_rows_.push_back(static_cast<int32_t>(r));
  }
  const auto places = static_cast<size_t>(std::min(kFirstPortion, logits.cols));
  listed_.resize(listed_rows_.size() * places);
  const std::span<const int32_t> rows(listed_rows_);
  for (size_t first = 0; first < rows.size(); first += kRowsListedTogether) {
    const size_t number = std::min(rows.size() - first, kRowsListedTogether);
    backend_->TopCandidatesOfRows(logits, rows.subspan(first, number), static_cast<int64_t>(places),
                                  std::span(listed_).subspan(first * places, number * places));
    Tell(progress);
  }
}

std::span<const kernels::Candidate> LogitSummaries::Listed(size_t row) const {
  const int32_t list = list_of_row_[row];
  if (list < 0) return {};
  const size_t places = listed_.size() / listed_rows_.size();
  return std::span(listed_).subspan(static_cast<size_t>(list) * places, places);
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

void LogitSummaries::SumRows(TensorView logits, std::span<const double> inverse_temperatures,
                             std::vector<double>* sums) {
  const size_t leaves = share_.leaves.size();
  sums->resize(inverse_temperatures.size() * leaves);
  // Neighbours of one temperature together: they are mostly outputs of one request.
  for (size_t first = 0, end = 0; first < inverse_temperatures.size(); first = end) {
    const double inverse_temperature = inverse_temperatures[first];
    end = first + 1;
    while (end < inverse_temperatures.size() && inverse_temperatures[end] == inverse_temperature) {
      ++end;
    }
    if (inverse_temperature == 0) continue;
    const TensorView rows =
        logits.Rows(static_cast<int64_t>(first), static_cast<int64_t>(end - first));
    leaf_sums_.resize(end - first);
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      const model::Range& range = share_.leaves[leaf];
      backend_->LogSumExp(rows.Columns(range.begin, range.size()), inverse_temperature, leaf_sums_);
      for (size_t r = first; r < end; ++r) (*sums)[r * leaves + leaf] = leaf_sums_[r - first];
    }
  }
}

void LogitSummaries::FindBests(TensorView logits) {
  const auto rows = static_cast<size_t>(logits.rows);
  bests_.assign(rows, RowBest());
  if (logits.cols == 0) return;  // of a rank without a token of its own
  best_candidates_.resize(rows);
  backend_->Bests(logits, best_candidates_);
  for (size_t r = 0; r < rows; ++r) {
    const auto& [id, logit] = best_candidates_[r];
    bests_[r] = id < 0 ? NoBest(logits.Rows(static_cast<int64_t>(r), 1))
                       : RowBest{.logit = logit,
                                 .raw = logit,
                                 .id = static_cast<int32_t>(id + share_.own.begin),
                                 .state = RowBest::kNumber};
  }
}

void LogitSummaries::Fill(const RowQuestion& question, size_t row, TensorView raw,
                          TensorView adjusted, std::span<std::byte> block) {
  Writer writer(block);
  writer.Put(bests_[row]);
  if (question.adjusted) writer.Put(BestOf(raw, adjusted));
  const size_t leaves = share_.leaves.size();
  const auto put_sums = [&](std::span<const double> sums) {
    for (const double sum : sums) writer.Put(sum);
  };
  if (question.log_sum) put_sums(std::span(model_sums_).subspan(row * leaves, leaves));
  if (question.inverse_temperature > 0 && !question.adjusted) {
    put_sums(std::span(draw_sums_).subspan(row * leaves, leaves));
  } else if (question.inverse_temperature > 0) {
    SumRows(adjusted, {&question.inverse_temperature, 1}, &adjusted_sums_);
    put_sums(adjusted_sums_);
  }
  int64_t lists = 0;
  if (question.inverse_temperature > 0) lists += ListBytes(kFirstPortion);
  if (question.top > 0) lists += ListBytes(question.top);
  std::span<std::byte> rest = block.last(static_cast<size_t>(lists));
  const std::span<const kernels::Candidate> listed = Listed(row);
  if (question.inverse_temperature > 0) {
    if (question.adjusted || listed.empty()) {
      FillList(kFirstPortion, raw, adjusted, rest);
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

void LogitSummaries::FillList(int64_t count, TensorView raw, TensorView adjusted,
                              std::span<std::byte> block) {
  const int64_t places = std::min(count, share_.widest);
  candidates_.clear();
  if (adjusted.cols > 0) {
    backend_->TopCandidates(adjusted, 0, std::min(places, adjusted.cols), &candidates_);
  }
  candidate_ids_.clear();
  for (const kernels::Candidate& candidate : candidates_) candidate_ids_.push_back(candidate.id);
  candidate_raw_.resize(candidates_.size());
  if (!candidates_.empty()) backend_->Pick(raw, candidate_ids_, candidate_raw_);
  Writer writer(block);
  for (size_t i = 0; i < candidates_.size(); ++i) {
    writer.Put(WalkCandidate{.id = static_cast<int32_t>(candidates_[i].id + share_.own.begin),
                             .logit = candidates_[i].logit,
                             .raw = candidate_raw_[i]});
  }
  for (auto i = static_cast<int64_t>(candidates_.size()); i < places; ++i) {
    writer.Put(WalkCandidate{.id = -1});
  }
}

RowBest LogitSummaries::NoBest(TensorView row) {
  double sum = 0;
  backend_->LogSumExp(row, 1, {&sum, 1});
  return {.state = sum == -kInfinity ? RowBest::kNothing : RowBest::kPoisoned};
}

RowBest LogitSummaries::BestOf(TensorView raw, TensorView adjusted) {
  RowBest best;
  if (adjusted.cols == 0) return best;
  kernels::Candidate found;
  backend_->Bests(adjusted, {&found, 1});
  const int32_t id = found.id;
  if (id < 0) return NoBest(adjusted);
  backend_->Pick(raw, {&id, 1}, {&best.raw, 1});
  return {.logit = found.logit,
          .raw = best.raw,
          .id = static_cast<int32_t>(id + share_.own.begin),
          .state = RowBest::kNumber};
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
