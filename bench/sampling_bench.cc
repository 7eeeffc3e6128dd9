// The time from logits to tokens, per row, for the sampling parameters that cost most and those of
// every day; sampling_bench --help.
//
// Medians over --passes. Logits of a trained model are imitated by a few that stand out of noise.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/backend.h"
#include "program/flags.h"
#include "worker/sampling/rank_threads_testing.h"
#include "worker/sampling/sampler.h"
#include "worker/sequence_table.h"

namespace tutti::bench {
namespace {

using worker::Sampler;
using worker::SampleRow;
using worker::SequenceState;

struct Options {
  int rows = 4;
  int ranks = 1;
  int threads = 1;
  int passes = 15;
  std::string filter;
  bool tokens = false;
  int64_t vocab = 151936;
};

struct Case {
  std::string name;
  std::function<float(int64_t id, Random* random)> logit;
  std::function<void(v1::SequenceSampling*)> sampling;
  int64_t history = 10;
};

// Noise of a deviation of about 2, with a few hundred ids of growing prominence.
float Trained(int64_t id, Random* random) {
  double noise = -6;
  for (int i = 0; i < 6; ++i) noise += 2 * random->Uniform();
  return static_cast<float>(noise + (id % 509 == 7 ? 12 * random->Uniform() : 0));
}

std::vector<Case> Cases() {
  const auto with = [](float temperature, float top_p) {
    return [temperature, top_p](v1::SequenceSampling* s) {
      s->set_temperature(temperature);
      s->set_top_p(top_p);
    };
  };
  std::vector<Case> cases;
  for (const float temperature : {0.f, 0.7f, 1.f, 5.f, 100.f}) {
    for (const float top_p : {0.9f, 1.f}) {
      char name[64];
      std::snprintf(name, sizeof name, "T %g, top_p %g", temperature, top_p);
      cases.push_back({name, Trained, with(temperature, top_p)});
    }
  }
  const auto all = [](v1::SequenceSampling* s) {
    s->set_temperature(100);
    s->set_top_p(0.999f);
    s->set_min_p(0.5f);
    s->set_top_k(100000);
    s->set_logprobs(true);
    s->set_top_logprobs(20);
    s->set_repetition_penalty(1.1f);
    s->set_frequency_penalty(0.01f);
    for (int i = 0; i < 1024; ++i) s->add_bias_ids(100 * i), s->add_bias_values(0.5f);
  };
  cases.push_back({"T 1, top_p 0.9, 20 logprobs", Trained, [](v1::SequenceSampling* s) {
                     s->set_temperature(1), s->set_top_p(0.9f), s->set_top_logprobs(20);
                   }});
  cases.push_back(
      {"T 1, penalties, 100,000 tokens", Trained,
       [](v1::SequenceSampling* s) { s->set_temperature(1), s->set_repetition_penalty(1.1f); },
       100000});
  cases.push_back({"everything, 100,000 tokens", Trained, all, 100000});
  cases.push_back({"T 100, all equal", [](int64_t, Random*) { return 1.f; }, with(100, 1)});
  cases.push_back({"T 100, top_p 0.9, two values",
                   [](int64_t id, Random*) { return id % 2 == 0 ? 1.f : 0.5f; }, with(100, 0.9f)});
  cases.push_back({"T 100, ascending",
                   [](int64_t id, Random*) { return static_cast<float>(id) * 1e-4f; },
                   with(100, 1)});
  cases.push_back({"T 1, top_p 0.9, ascending",
                   [](int64_t id, Random*) { return static_cast<float>(id) * 1e-4f; },
                   with(1, 0.9f)});
  return cases;
}

SequenceState SequenceOf(const Case& one, uint64_t seed, int64_t vocab) {
  v1::StepPlan plan;
  v1::NewSequence* added = plan.add_new_sequences();
  added->set_sequence(seed);
  for (int64_t t = 0; t < one.history; ++t) {
    added->add_tokens(static_cast<int32_t>(t * 7919 % vocab));
  }
  added->set_prompt_tokens(1);
  one.sampling(added->mutable_sampling());
  added->mutable_sampling()->set_seed(seed);
  worker::SequenceTable table({.vocab_size = static_cast<int32_t>(vocab),
                               .max_known_sequences = 1,
                               .max_model_len = 1 << 20});
  const absl::Status status = table.Apply(plan);
  CHECK(status.ok()) << status;
  return *table.Find(SequenceId(seed));
}

class RankBench {
 public:
  RankBench(const Options& options, const Case& one, int rank, kernels::Collective* collective)
      : options_(options), share_(worker::ShareVocabulary(options.vocab, options.ranks, rank)) {
    backend_ = *kernels::CreateBackend("cpu", {.num_threads = options.threads});
    sampler_ =
        *Sampler::Create(backend_.get(), {.vocab_size = options.vocab,
                                          .ranks = options.ranks,
                                          .rank = rank,
                                          .collective = options.ranks == 1 ? nullptr : collective,
                                          .exchange_bytes = options.vocab * 16 * options.ranks});
    Random random(5);
    for (int r = 0; r < options.rows; ++r) {
      sequences_.push_back(SequenceOf(one, static_cast<uint64_t>(r + 1), options.vocab));
      for (int64_t id = 0; id < options.vocab; ++id) {
        const float logit = one.logit(id, &random);
        if (id >= share_.own.begin && id < share_.own.end) logits_.push_back(logit);
      }
    }
    for (int r = 0; r < options.rows; ++r) {
      rows_.push_back({r, &sequences_[static_cast<size_t>(r)]});
    }
  }

  // Milliseconds for all rows.
  double Pass() {
    sampled_.clear();
    const int64_t cols = share_.own.size();
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = sampler_->Sample(
        {logits_.data(), DType::kF32, {}, options_.rows, cols, cols}, rows_, &sampled_);
    const auto end = std::chrono::steady_clock::now();
    CHECK(status.ok()) << status;
    return std::chrono::duration<double, std::milli>(end - begin).count();
  }
  const std::vector<v1::SampledToken>& sampled() const { return sampled_; }

 private:
  const Options& options_;
  const worker::VocabularyShare share_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<SequenceState> sequences_;
  std::vector<float> logits_;
  std::vector<SampleRow> rows_;
  std::vector<v1::SampledToken> sampled_;
};

void Measure(const Options& options, const Case& one) {
  std::vector<double> times;
  std::string tokens;
  const int64_t bytes = options.vocab * 16 * options.ranks;
  worker::RunRanks(options.ranks, bytes, [&](int rank, kernels::Collective* collective) {
    RankBench bench(options, one, rank, collective);
    for (int pass = 0; pass <= options.passes; ++pass) {
      const double time = bench.Pass() / options.rows;
      if (rank == 0 && pass > 0) times.push_back(time);
    }
    if (rank != 0) return;
    for (const v1::SampledToken& token : bench.sampled()) {
      char text[64];
      std::snprintf(text, sizeof text, " %d/%a", token.token(), double{token.logprob()});
      tokens += text;
    }
  });
  std::sort(times.begin(), times.end());
  std::printf("%-34s %8.3f ms a row (best %.3f)%s\n", one.name.c_str(), times[times.size() / 2],
              times.front(), options.tokens ? tokens.c_str() : "");
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Options o;
  FlagSet program("", "Time from logits to tokens");
  program.Add({
      {.names = "--rows", .variable = &o.rows, .help = "rows of a step", .show_default = true},
      {.names = "--ranks", .variable = &o.ranks, .help = "1, 2, 4 or 8", .show_default = true},
      {.names = "--threads",
       .variable = &o.threads,
       .help = "threads of each rank's backend",
       .show_default = true},
      {.names = "--passes", .variable = &o.passes, .help = "passes per line", .show_default = true},
      {.names = "--filter",
       .variable = &o.filter,
       .help = "run only the lines whose name contains this"},
      {.names = "--tokens", .variable = &o.tokens, .help = "show what was drawn"},
  });
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  for (const Case& one : Cases()) {
    if (one.name.find(o.filter) != std::string::npos) Measure(o, one);
  }
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::Main(argc, argv); }
