#include "tests/soak/innocents.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::tests {
namespace {

constexpr size_t kFailuresKept = 5;
constexpr uint32_t kAnswerTokens = 24;
// No question waits longer on a service that answers at all.
constexpr Duration kAnswerTimeout = std::chrono::seconds(60);

v1::GenerateRequest MakeQuestion(int number) {
  v1::GenerateRequest request;  // without a name: several clients ask the same at once
  std::string text = absl::StrCat("Question ", number, ": ");
  for (int i = 0; i < 4 * number; ++i) absl::StrAppend(&text, number * 31 + i, "+", i, "= ");
  request.set_text(text);
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_max_tokens(kAnswerTokens);
  sampling.set_ignore_eos(true);
  sampling.set_logprobs(true);
  sampling.set_top_logprobs(number % 2 == 0 ? 5 : 0);
  sampling.set_seed(static_cast<uint64_t>(1000 + number));
  sampling.set_temperature(number % 3 == 0 ? 0.0F : 0.8F);
  if (number % 3 == 1) sampling.set_top_p(0.9F);
  return request;
}

void AppendBits(const v1::GenerateResponse& message, std::string* bits) {
  for (const v1::OutputToken& token : message.tokens()) {
    absl::StrAppend(bits, token.id(), ":", std::bit_cast<uint32_t>(token.logprob()));
    for (const v1::TokenLogprob& top : token.top()) {
      absl::StrAppend(bits, ",", top.id(), ":", std::bit_cast<uint32_t>(top.logprob()));
    }
    absl::StrAppend(bits, ";");
  }
}

}  // namespace

struct Innocents::Notes {
  client::Histogram totals;
  client::Histogram firsts;
  Duration gap_max{};
  InnocentReport counts;
};

Innocents::Innocents(std::string address, int clients, const Clock* clock)
    : address_(std::move(address)), clients_(clients), clock_(clock) {
  for (int number = 0; number < 12; ++number) {
    questions_.push_back({MakeQuestion(number), absl::StrCat("question ", number)});
  }
}

bool Innocents::IsAsBefore(const std::string& question, const std::string& answer) {
  const MutexLock lock(&mutex_);
  return answers_.emplace(question, answer).first->second == answer;
}

void Innocents::AskUntil(Instant end, int client, Notes* notes) {
  const auto connection = client::Client::Create({.address = address_});
  if (!connection.ok()) {
    ++notes->counts.failures;
    notes->counts.first_failures.push_back(connection.status().ToString());
    return;
  }
  for (size_t turn = static_cast<size_t>(client); clock_->Now() < end; ++turn) {
    const Question& question = questions_[turn % questions_.size()];
    const Instant asked = clock_->Now();
    Instant last = asked;
    bool is_first = true;
    std::string bits;
    const auto finished = (*connection)
                              ->Generate(question.request, {.timeout = kAnswerTimeout},
                                         [&](const v1::GenerateResponse& message) {
                                           const Instant now = clock_->Now();
                                           if (std::exchange(is_first, false))
                                             notes->firsts.Add(now - asked);
                                           notes->gap_max = std::max(notes->gap_max, now - last);
                                           last = now;
                                           AppendBits(message, &bits);
                                           return absl::OkStatus();
                                         });
    if (!finished.ok()) {
      ++notes->counts.failures;
      if (notes->counts.first_failures.size() < kFailuresKept) {
        notes->counts.first_failures.push_back(finished.status().ToString());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    notes->totals.Add(clock_->Now() - asked);
    ++notes->counts.answers;
    if (!IsAsBefore(question.name, bits)) ++notes->counts.different;
  }
}

InnocentReport Innocents::Run(Duration how_long) {
  const Instant end = clock_->Now() + how_long;
  std::vector<Notes> notes(static_cast<size_t>(clients_));
  std::vector<std::thread> threads;
  threads.reserve(notes.size());
  for (int i = 0; i < clients_; ++i) {
    threads.emplace_back([this, end, i, &notes] { AskUntil(end, i, &notes[size_t(i)]); });
  }
  for (std::thread& thread : threads) thread.join();
  InnocentReport report;
  Duration gap{};
  double p50 = 0;
  for (const Notes& note : notes) {
    report.answers += note.counts.answers;
    report.failures += note.counts.failures;
    report.different += note.counts.different;
    gap = std::max(gap, note.gap_max);
    // Figures of the client that fared worst: a share of unlucky clients must not vanish in the
    // mean.
    if (note.totals.count() > 0) {
      p50 = std::max(p50, Milliseconds(note.totals.Quantile(0.5)));
      report.total_p99_ms = std::max(report.total_p99_ms, Milliseconds(note.totals.Quantile(0.99)));
      report.first_p99_ms = std::max(report.first_p99_ms, Milliseconds(note.firsts.Quantile(0.99)));
    }
    for (const std::string& failure : note.counts.first_failures) {
      if (report.first_failures.size() < kFailuresKept) report.first_failures.push_back(failure);
    }
  }
  report.total_p50_ms = p50;
  report.gap_max_ms = Milliseconds(gap);
  return report;
}

}  // namespace tutti::tests
