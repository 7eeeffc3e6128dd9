// Rows by grammars among others, through the whole sampler.
#include "worker/sampling/grammar_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/limits.h"
#include "worker/numeric_faults.h"
#include "worker/sampling/logit_summaries.h"
#include "worker/sampling/rank_threads_testing.h"
#include "worker/sampling/sampler.h"
#include "worker/sampling/toy_vocabulary_testing.h"
#include "worker/sequence_table.h"

namespace tutti::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kIds = 130;

class GrammarMaskTest : public ::testing::TestWithParam<std::string> {
 protected:
  GrammarMaskTest() { EXPECT_TRUE(pool_.SetVocabulary(ToyVocabulary(kIds), kIds).ok()); }
  void SetUp() override {
    auto backend = kernels::CreateBackend(GetParam(), {.num_threads = 1});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    sampler_ = Sampler::Create(backend_.get(), {.vocab_size = kIds}).value();
  }

  // A sequence with no output yet.
  const SequenceState* Add(v1::SequenceSampling sampling, const std::string& regex = "") {
    if (!regex.empty()) {
      sampling.mutable_grammar()->set_kind(v1::GRAMMAR_KIND_REGEX);
      sampling.mutable_grammar()->set_text(regex);
    }
    v1::StepPlan plan;
    v1::NewSequence* const added = plan.add_new_sequences();
    added->set_sequence(++last_);
    added->add_tokens(1);
    added->set_prompt_tokens(1);
    *added->mutable_sampling() = sampling;
    const absl::Status applied = table_.Apply(plan);
    EXPECT_TRUE(applied.ok()) << applied;
    const SequenceState* const state = table_.Find(SequenceId(last_));
    if (state->grammar != nullptr) state->grammar->Ask(state->output());
    return state;
  }
  // Logits that rise with the id.
  static std::vector<float> Rising() {
    std::vector<float> row;
    for (int32_t id = 0; id < kIds; ++id) row.push_back(0.01f * static_cast<float>(id));
    return row;
  }
  // `in_time`: all masks are there; a busy machine may take its time for them.
  std::vector<v1::SampledToken> Sample(const std::vector<std::vector<float>>& rows,
                                       const std::vector<const SequenceState*>& sequences,
                                       bool in_time = true) {
    for (const SequenceState* const sequence : sequences) {
      if (in_time && sequence->grammar != nullptr) sequence->grammar->Take().IgnoreError();
    }
    std::vector<float> logits;
    std::vector<SampleRow> sample_rows;
    for (size_t r = 0; r < rows.size(); ++r) {
      logits.insert(logits.end(), rows[r].begin(), rows[r].end());
      sample_rows.push_back({static_cast<int32_t>(r), sequences[r]});
    }
    std::vector<v1::SampledToken> sampled;
    sampler_->BeginStep(sample_rows);
    const absl::Status done = sampler_->Sample({.data = logits.data(),
                                                .rows = static_cast<int64_t>(rows.size()),
                                                .cols = kIds,
                                                .row_stride = kIds},
                                               sample_rows, &sampled);
    EXPECT_TRUE(done.ok()) << done;
    return sampled;
  }
  static TokenId Char(char c) { return 1 + c - ' '; }

  GrammarPool pool_{GrammarPool::Runs::kOnThread};
  SequenceTable table_{{.vocab_size = kIds, .max_known_sequences = 100, .max_model_len = 100},
                       &pool_};
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<Sampler> sampler_;
  uint64_t last_ = 0;
};

TEST_P(GrammarMaskTest, RowsWithoutAGrammarAreAsTheyWere) {
  const auto sampled = Sample({Rising(), Rising(), Rising()}, {Add({}), Add({}, "[a-c]"), Add({})});
  EXPECT_EQ(sampled[0].token(), kIds - 1);
  EXPECT_EQ(sampled[1].token(), Char('c'));
  EXPECT_EQ(sampled[2].token(), kIds - 1);
}

TEST_P(GrammarMaskTest, LogprobsAreAmongWhatIsAllowed) {
  v1::SequenceSampling sampling;
  sampling.set_logprobs(true);
  sampling.set_top_logprobs(5);
  for (const float temperature : {0.f, 1.f}) {
    sampling.set_temperature(temperature);
    const auto sampled = Sample({Rising()}, {Add(sampling, "[ac]")});
    EXPECT_THAT(sampled[0].top_ids(), ElementsAre(Char('c'), Char('a')));
    const double a = std::exp(0.01 * Char('a')), c = std::exp(0.01 * Char('c'));
    EXPECT_NEAR(sampled[0].top_logprobs(0), std::log(c / (a + c)), 1e-6);
    EXPECT_NEAR(sampled[0].top_logprobs(1), std::log(a / (a + c)), 1e-6);
  }
}

// Penalties and bias choose among what is allowed.
TEST_P(GrammarMaskTest, OtherLimitsAreBesideIt) {
  v1::SequenceSampling sampling;
  sampling.add_bias_ids(Char('z'));
  sampling.add_bias_values(100);
  sampling.add_bias_ids(Char('a'));
  sampling.add_bias_values(50);
  EXPECT_EQ(Sample({Rising()}, {Add(sampling, "[a-c]")})[0].token(), Char('a'));
  sampling.add_allowed_ids(Char('b'));
  sampling.add_allowed_ids(Char('z'));
  EXPECT_EQ(Sample({Rising()}, {Add(sampling, "[a-c]")})[0].token(), Char('b'));
}

TEST_P(GrammarMaskTest, NothingLeftEndsTheAnswerAndNoOther) {
  v1::SequenceSampling others;
  others.add_allowed_ids(Char('z'));
  const SequenceState* const none = Add(others, "[a-c]");
  const SequenceState* const dead = Add({}, "\xC3\xA4");
  const auto sampled = Sample({Rising(), Rising(), Rising()}, {none, dead, Add({}, "x")});
  EXPECT_EQ(sampled[0].token(), -1);
  EXPECT_THAT(std::string(none->grammar->end().message()), HasSubstr("position 0 of the output"));
  EXPECT_EQ(sampled[1].token(), -1);
  EXPECT_TRUE(absl::IsFailedPrecondition(dead->grammar->end())) << dead->grammar->end();
  EXPECT_EQ(sampled[2].token(), Char('x'));
}

// Numbers that are lost are no grammar's doing.
TEST_P(GrammarMaskTest, LostNumbersAreSaidToBe) {
  std::vector<float> lost = Rising();
  lost[static_cast<size_t>(Char('b'))] = std::numeric_limits<float>::quiet_NaN();
  const SequenceState* const sequence = Add({}, "[a-c]");
  EXPECT_EQ(Sample({lost}, {sequence})[0].token(), -1);
  EXPECT_TRUE(sequence->grammar->end().ok()) << sequence->grammar->end();
}

// Where another rank ran out of what its grammar may use, this one sees numbers that are lost. It
// must not begin to look for the layer: nobody would answer it.
TEST_P(GrammarMaskTest, NoLayerIsLookedForWhereAnotherRankEndedTheAnswer) {
  const SequenceState* const by_grammar = Add({}, "[a-c]");
  const SequenceState* const free = Add({});
  std::vector<v1::SampledToken> sampled(1);
  sampled[0].set_token(-1);
  for (const SequenceState* const sequence : {by_grammar, free}) {
    Batch batch;
    batch.rows = 1;
    batch.sequences = {sequence->id};
    batch.row_begin = {0, 1};
    batch.sample_rows = {{0, sequence}};
    NumericFaults faults;
    const auto none = [] { return std::span<const float>(); };
    EXPECT_EQ(faults.Begin(batch, {}, none, sampled), sequence == free);
  }
}

// A schema that the quick maker has no time for.
std::string ManyProperties() {
  std::string properties;
  for (int i = 0; i < 5'000; ++i) {
    absl::StrAppend(&properties, i == 0 ? "" : ",", "\"p", i, "\":{\"type\":\"integer\"}");
  }
  return "{\"type\":\"object\",\"properties\":{" + properties + "}}";
}

TEST_P(GrammarMaskTest, NobodyWaitsForAnothersGrammar) {
  v1::SequenceSampling sampling;
  sampling.mutable_grammar()->set_kind(v1::GRAMMAR_KIND_JSON_SCHEMA);
  sampling.mutable_grammar()->set_text(ManyProperties());
  const SequenceState* const late = Add(sampling);
  const SequenceState* const quick = Add({}, "[a-c]");
  EXPECT_TRUE(quick->grammar->Take().ok());
  const auto begin = std::chrono::steady_clock::now();
  auto sampled = Sample({Rising(), Rising(), Rising()}, {late, Add({}), quick}, /*in_time=*/false);
  EXPECT_EQ(sampled[0].token(), kLateToken);
  EXPECT_TRUE(late->grammar->end().ok()) << late->grammar->end();
  EXPECT_EQ(sampled[1].token(), kIds - 1);
  EXPECT_EQ(sampled[2].token(), Char('c'));
  EXPECT_GE(sampler_->mask_wait(), Duration(kLateMaskGrace));
  EXPECT_LT(sampler_->mask_wait(), std::chrono::steady_clock::now() - begin);
  // Its row is drawn in a later step, and then is what it would have been.
  while (sampled[0].token() == kLateToken &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    late->grammar->Ask(late->output());
    sampled = Sample({Rising()}, {late}, /*in_time=*/false);
  }
  EXPECT_TRUE(ToyText(sampled[0].token()).starts_with("{")) << sampled[0].token();
  metrics::Exposition exposition;
  pool_.Write(&exposition);
  EXPECT_THAT(exposition.Release(), HasSubstr("tutti_worker_patient_answers_total 1\n"));
}

// However many they are, and however they come: a step waits for all of them together.
TEST_P(GrammarMaskTest, RowsThatComeInTurnWaitTogether) {
  v1::SequenceSampling sampling;
  sampling.mutable_grammar()->set_kind(v1::GRAMMAR_KIND_JSON_SCHEMA);
  std::vector<SampleRow> rows = {{0, Add({})}};
  for (int i = 1; i <= 20; ++i) {
    sampling.mutable_grammar()->set_text(absl::StrCat(ManyProperties(), std::string(i, ' ')));
    rows.push_back({i, Add(sampling)});
  }
  std::vector<float> logits = Rising();
  sampler_->BeginStep(rows);
  for (const SampleRow& row : rows) {
    std::vector<v1::SampledToken> sampled;
    const absl::Status done = sampler_->Sample(
        {.data = logits.data(), .rows = 1, .cols = kIds, .row_stride = kIds}, {&row, 1}, &sampled);
    EXPECT_TRUE(done.ok()) << done;
    EXPECT_EQ(sampled[0].token() == kLateToken, row.row > 0) << row.row;
  }
  // Each of them beyond that time may look once.
  EXPECT_GE(sampler_->mask_wait(), Duration(kLateMaskGrace));
  EXPECT_LT(sampler_->mask_wait(), 5 * Duration(kLateMaskPatience)) << "20 times that, one by one";
}

// All ranks put a row off that one of them has no mask for.
TEST_P(GrammarMaskTest, RanksPutOffTheSameRows) {
  constexpr int kRanks = 2;
  v1::SequenceSampling sampling;
  sampling.mutable_grammar()->set_kind(v1::GRAMMAR_KIND_JSON_SCHEMA);
  sampling.mutable_grammar()->set_text(ManyProperties());
  const SequenceState* late = nullptr;
  std::barrier ready(kRanks);
  const SequenceState* const quick = Add({}, "[a-c]");
  EXPECT_TRUE(quick->grammar->Take().ok());
  std::vector<std::vector<v1::SampledToken>> sampled(kRanks);
  RunRanks(kRanks, 1 << 20, [&](int rank, kernels::Collective* collective) {
    auto backend = kernels::CreateBackend(GetParam(), {.num_threads = 1}).value();
    const auto sampler = Sampler::Create(backend.get(), {.vocab_size = kIds,
                                                         .ranks = kRanks,
                                                         .rank = rank,
                                                         .collective = collective,
                                                         .exchange_bytes = 1 << 20})
                             .value();
    const model::Range own = ShareVocabulary(kIds, kRanks, rank).own;
    std::vector<float> logits;
    for (int row = 0; row < 2; ++row) {
      for (int64_t id = own.begin; id < own.end; ++id)
        logits.push_back(0.01f * static_cast<float>(id));
    }
    // Begun when all is ready to sample: it takes some 40 ms.
    ready.arrive_and_wait();
    if (rank == 0) late = Add(sampling);
    // The other rank has the mask of the first row, as it takes it.
    const std::vector<SampleRow> rows = {{0, rank == 0 ? late : quick}, {1, quick}};
    sampler->BeginStep(rows);
    const absl::Status done = sampler->Sample(
        {.data = logits.data(), .rows = 2, .cols = own.size(), .row_stride = own.size()}, rows,
        &sampled[static_cast<size_t>(rank)]);
    EXPECT_TRUE(done.ok()) << done;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto& of_rank = sampled[static_cast<size_t>(rank)];
    ASSERT_EQ(of_rank.size(), 2u);
    EXPECT_EQ(of_rank[0].token(), kLateToken) << rank;
    EXPECT_EQ(of_rank[1].token(), Char('c')) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GrammarMaskTest, ::testing::Values("reference", "cpu"));

}  // namespace
}  // namespace tutti::worker
