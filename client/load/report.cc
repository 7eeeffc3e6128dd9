#include "client/load/report.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/format.h"

namespace tutti::client {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::pair<const char*, double>, 4> kQuantiles = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}}};

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

double PerSecond(int64_t count, Duration elapsed) {
  return elapsed > Duration::zero() ? static_cast<double>(count) / Seconds(elapsed) : 0;
}

void AddRow(const std::string& name, const Histogram& histogram, Table* table) {
  std::vector<std::string> cells = {name};
  const auto cell = [&](Duration value) {
    return histogram.count() == 0 ? "-" : absl::StrFormat("%.2f", Milliseconds(value));
  };
  cells.push_back(cell(histogram.mean()));
  for (const auto& [label, share] : kQuantiles) cells.push_back(cell(histogram.Quantile(share)));
  cells.push_back(cell(histogram.max()));
  table->AddRow(std::move(cells));
}

OrderedJson ToJson(const Histogram& histogram) {
  OrderedJson json{{"count", histogram.count()}, {"mean", Milliseconds(histogram.mean())}};
  for (const auto& [label, share] : kQuantiles) {
    json[label] = Milliseconds(histogram.Quantile(share));
  }
  json["max"] = Milliseconds(histogram.max());
  return json;
}

}  // namespace

void LoadReport::AddToSecond(Duration at, int64_t tokens) {
  tokens_in_[std::chrono::floor<std::chrono::seconds>(at).count()] += tokens;
}

void LoadReport::AddTokens(const Turn& turn) {
  auto tokens = static_cast<int64_t>(turn.ids.size());
  output_tokens_ += tokens;
  for (const Turn::Gap& gap : turn.gaps) tokens -= gap.tokens;
  Duration at = turn.due + turn.first_token;
  if (tokens > 0) AddToSecond(at, tokens);
  for (const Turn::Gap& gap : turn.gaps) {
    at += gap.gap;
    AddToSecond(at, gap.tokens);
  }
}

void LoadReport::Add(const Turn& turn) {
  AddTokens(turn);
  refusals_ += turn.refusals;
  if (!turn.status.ok()) {
    Failures& failures = failures_[turn.status.code()];
    if (failures.time.count() == 0) failures.example = OneLine(turn.status.message());
    failures.time.Add(turn.total);
    return;
  }
  ++succeeded_;
  if (Good(turn)) ++good_;
  if (!turn.ids.empty()) first_token_.Add(turn.first_token);
  for (const Turn::Gap& gap : turn.gaps) token_gap_.Add(gap.gap / gap.tokens, gap.tokens);
  if (turn.ids.size() > 1) mean_gap_.Add(turn.token_gap);
  total_.Add(turn.total);
  Cache& cache = cache_[turn.turn];
  ++cache.turns;
  cache.prompt_tokens += turn.prompt_tokens;
  cache.cached_tokens += turn.cached_tokens;
  cache.repeated_tokens += turn.repeated_tokens;
  if (turn.right_answer) {
    ++answers_known_;
    if (turn.text == *turn.right_answer) ++answers_right_;
  }
}

bool LoadReport::Good(const Turn& turn) const {
  if (slo_.first_token && turn.first_token > *slo_.first_token) return false;
  return !slo_.token_gap || turn.token_gap <= *slo_.token_gap;
}

void LoadReport::Close(Duration elapsed, bool interrupted, int64_t most_at_once) {
  elapsed_ = elapsed;
  most_at_once_ = most_at_once;
  interrupted_ = interrupted;
}

std::optional<double> LoadReport::right_share() const {
  if (answers_known_ == 0) return std::nullopt;
  return Share(answers_right_, answers_known_);
}

LoadReport::Cache LoadReport::Total() const {
  Cache total;
  for (const auto& [turn, cache] : cache_) {
    total.turns += cache.turns;
    total.prompt_tokens += cache.prompt_tokens;
    total.cached_tokens += cache.cached_tokens;
    total.repeated_tokens += cache.repeated_tokens;
  }
  return total;
}

std::string LoadReport::ToText() const {
  std::string out =
      absl::StrFormat("%s%s requests answered in %s: %.2f requests/s, %.1f output tokens/s\n",
                      interrupted_ ? "interrupted; " : "", FormatCount(succeeded_),
                      FormatSeconds(Seconds(elapsed_)), PerSecond(succeeded_, elapsed_),
                      PerSecond(output_tokens_, elapsed_));
  if (slo_.first_token || slo_.token_gap) {
    absl::StrAppendFormat(&out, "goodput: %.2f requests/s (%s of those answered)\n",
                          PerSecond(good_, elapsed_), Percent(Share(good_, succeeded_)));
  }
  Table latency({{"", Table::Align::kLeft}, {"mean"}, {"p50"}, {"p90"}, {"p95"}, {"p99"}, {"max"}});
  AddRow("first token, ms", first_token_, &latency);
  AddRow("between tokens, ms", token_gap_, &latency);
  AddRow("whole answer, ms", total_, &latency);
  for (const auto& [code, failures] : failures_) {
    AddRow(absl::StrCat(absl::StatusCodeToString(code), ", ms"), failures.time, &latency);
  }
  absl::StrAppend(&out, "\n", latency.ToString(), "\n");
  Table cached({{"turn", Table::Align::kLeft},
                {"requests"},
                {"prompt tokens"},
                {"cached"},
                {"share"},
                {"of what earlier turns computed"}});
  const auto add = [&cached](const std::string& name, const Cache& cache) {
    cached.AddRow(
        {name, FormatCount(cache.turns), FormatCount(cache.prompt_tokens),
         FormatCount(cache.cached_tokens), Percent(Share(cache.cached_tokens, cache.prompt_tokens)),
         cache.repeated_tokens == 0 ? "-"
                                    : Percent(Share(cache.cached_tokens, cache.repeated_tokens))});
  };
  for (const auto& [turn, cache] : cache_) add(absl::StrCat(turn + 1), cache);
  if (cache_.size() > 1) add("all", Total());
  if (!cache_.empty()) out += cached.ToString();
  if (const auto right = right_share()) {
    absl::StrAppend(&out, "\nanswers right: ", FormatCount(answers_right_), " of ",
                    FormatCount(answers_known_), " (", Percent(*right), ")\n");
  }
  if (refusals_ > 0) {
    absl::StrAppend(&out,
                    "\nasked again after a refusal, as the service said: ", FormatCount(refusals_),
                    " times\n");
  }
  for (const auto& [code, failures] : failures_) {
    absl::StrAppend(&out, "\nfailed: ", FormatCount(failures.time.count()), " with ",
                    absl::StatusCodeToString(code), ", the first: ", failures.example, "\n");
  }
  return out;
}

std::string LoadReport::ToVllmText(const LoadShape& shape) const {
  std::string out;
  const auto heading = [&out](absl::string_view text, char fill) {
    const size_t left = (50 - text.size()) / 2;
    absl::StrAppend(&out, std::string(left, fill), text, std::string(50 - text.size() - left, fill),
                    "\n");
  };
  const auto count = [&out](const char* name, int64_t value) {
    absl::StrAppendFormat(&out, "%-40s %-10d\n", name, value);
  };
  const auto figure = [&out](const std::string& name, double value) {
    absl::StrAppendFormat(&out, "%-40s %-10.2f\n", name, value);
  };
  const auto times = [&](const char* name, const Histogram& histogram) {
    figure(absl::StrCat("Mean ", name, " (ms):"), Milliseconds(histogram.mean()));
    figure(absl::StrCat("Median ", name, " (ms):"), Milliseconds(histogram.Quantile(0.5)));
    figure(absl::StrCat("P99 ", name, " (ms):"), Milliseconds(histogram.Quantile(0.99)));
  };
  int64_t failed = 0;
  for (const auto& [code, failures] : failures_) failed += failures.time.count();
  const int64_t input = Total().prompt_tokens;
  int64_t most_in_a_second = 0;
  for (const auto& [second, tokens] : tokens_in_) {
    most_in_a_second = std::max(most_in_a_second, tokens);
  }
  heading(" Serving Benchmark Result ", '=');
  count("Successful requests:", succeeded_);
  count("Failed requests:", failed);
  if (shape.concurrency > 0) count("Maximum request concurrency:", shape.concurrency);
  if (shape.rate > 0) figure("Request rate configured (RPS):", shape.rate);
  figure("Benchmark duration (s):", Seconds(elapsed_));
  count("Total input tokens:", input);
  count("Total generated tokens:", output_tokens_);
  figure("Request throughput (req/s):", PerSecond(succeeded_, elapsed_));
  if (slo_.first_token || slo_.token_gap) {
    figure("Request goodput (req/s):", PerSecond(good_, elapsed_));
  }
  figure("Output token throughput (tok/s):", PerSecond(output_tokens_, elapsed_));
  figure("Peak output token throughput (tok/s):", static_cast<double>(most_in_a_second));
  figure("Peak concurrent requests:", static_cast<double>(most_at_once_));
  figure("Total token throughput (tok/s):", PerSecond(input + output_tokens_, elapsed_));
  heading("Time to First Token", '-');
  times("TTFT", first_token_);
  heading("Time per Output Token (excl. 1st token)", '-');
  times("TPOT", mean_gap_);
  heading("Inter-token Latency", '-');
  times("ITL", token_gap_);
  heading("", '=');
  return out;
}

nlohmann::ordered_json LoadReport::ToJson() const {
  OrderedJson json{{"seconds", Seconds(elapsed_)},
                   {"interrupted", interrupted_},
                   {"answered", succeeded_},
                   {"most_at_once", most_at_once_},
                   {"refusals", refusals_},
                   {"requests_per_second", PerSecond(succeeded_, elapsed_)},
                   {"output_tokens", output_tokens_},
                   {"output_tokens_per_second", PerSecond(output_tokens_, elapsed_)},
                   {"good", good_},
                   {"goodput_per_second", PerSecond(good_, elapsed_)},
                   {"first_token_ms", tutti::client::ToJson(first_token_)},
                   {"token_gap_ms", tutti::client::ToJson(token_gap_)},
                   {"total_ms", tutti::client::ToJson(total_)}};
  const auto add = [](const Cache& cache) {
    return OrderedJson{{"requests", cache.turns},
                       {"prompt_tokens", cache.prompt_tokens},
                       {"cached_tokens", cache.cached_tokens},
                       {"cached_share", Share(cache.cached_tokens, cache.prompt_tokens)},
                       {"repeated_tokens", cache.repeated_tokens}};
  };
  json["prompts"] = add(Total());
  json["turns"] = OrderedJson::array();
  for (const auto& [turn, cache] : cache_) json["turns"].push_back(add(cache));
  if (const auto right = right_share()) {
    json["answers_known"] = answers_known_;
    json["answers_right"] = answers_right_;
  }
  json["failures"] = OrderedJson::object();
  for (const auto& [code, failures] : failures_) {
    json["failures"][absl::StatusCodeToString(code)] =
        OrderedJson{{"count", failures.time.count()},
                    {"ms", tutti::client::ToJson(failures.time)},
                    {"example", failures.example}};
  }
  return json;
}

}  // namespace tutti::client
