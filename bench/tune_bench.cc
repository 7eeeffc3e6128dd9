#include "bench/tune_bench.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/backend.h"
#include "program/exit_code.h"
#include "worker/kernel_tuner.h"

namespace tutti::bench {
namespace {

using worker::KnobResult;
using worker::ValueTime;

void PrintTable(const kernels::Tunable& tunable, const std::vector<KnobResult>& results) {
  std::printf("%s\n\n", tunable.TunedFor().c_str());
  std::printf("%-10s %5s %7s %7s %9s %9s  %s\n", "knob", "rows", "rounds", "value", "median ms",
              "of usual", "");
  for (size_t k = 0; k < results.size(); ++k) {
    const KnobResult& result = results[k];
    const std::string_view effect = tunable.knobs()[k].effect;
    if (tunable.knobs()[k].values.size() == 1) continue;
    if (result.rounds == 0) {
      std::printf("%-10s %5lld: no time for %d rounds of it\n", result.name.c_str(),
                  static_cast<long long>(result.rows), worker::kTuneRoundsMin);
    }
    for (const ValueTime& time : result.values) {
      const bool first = &time == result.values.data();
      const char* mark = time.value == result.chosen  ? "chosen"
                         : time.value == result.usual ? "usual"
                                                      : "";
      std::printf("%-10s %5lld %7d %7lld %9.3f %9.3f  %-7s%.*s\n", result.name.c_str(),
                  static_cast<long long>(result.rows), result.rounds,
                  static_cast<long long>(time.value), time.seconds * 1e3, time.of_usual, mark,
                  first ? static_cast<int>(effect.size()) : 0, effect.data());
    }
  }
  std::printf("\n%s\n", worker::ChoicesText(tunable).c_str());
}

void PrintJson(const kernels::Tunable& tunable, const std::vector<KnobResult>& results) {
  nlohmann::ordered_json knobs = nlohmann::ordered_json::array();
  for (const KnobResult& result : results) {
    nlohmann::ordered_json values = nlohmann::ordered_json::array();
    for (const ValueTime& time : result.values) {
      values.push_back({{"value", time.value},
                        {"seconds", time.seconds},
                        {"of_usual", time.of_usual},
                        {"rounds_faster", time.rounds_faster}});
    }
    knobs.push_back({{"name", result.name},
                     {"rows", result.rows},
                     {"rounds", result.rounds},
                     {"usual", result.usual},
                     {"chosen", result.chosen},
                     {"values", values}});
  }
  const nlohmann::ordered_json json = {{"processor", tunable.TunedFor()},
                                       {"choices", worker::ChoicesText(tunable)},
                                       {"knobs", knobs}};
  std::printf("%s\n", json.dump(2).c_str());
}

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "tutti-bench: %s\n", std::string(status.message()).c_str());
  return ExitCodeOfStart(status);
}

}  // namespace

int RunTuneBench(const TuneBenchOptions& options) {
  const auto backend = kernels::CreateBackend(
      "cpu", {.num_threads = options.threads, .instruction_set = options.instruction_set});
  if (!backend.ok()) return Complain(backend.status());
  const auto results = worker::TuneBackend(
      backend->get(), DType::kBF16, {.seconds = options.seconds, .rounds_max = options.rounds});
  if (!results.ok()) return Complain(results.status());
  const auto* const tunable = (*backend)->tunable();
  if (options.json) {
    PrintJson(*tunable, *results);
  } else {
    PrintTable(*tunable, *results);
  }
  return 0;
}

}  // namespace tutti::bench
