#include "worker/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "worker/sequence_table.h"

namespace tutti::worker {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class SamplerTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto backend = kernels::CreateBackend(GetParam(), {.num_threads = 1});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  // A sequence with these tokens, the first of which is the prompt.
  static SequenceState Sequence(const std::vector<TokenId>& tokens,
                                const v1::SequenceSampling& sampling) {
    v1::StepPlan plan;
    v1::NewSequence* added = plan.add_new_sequences();
    added->set_sequence(5);
    for (TokenId token : tokens) added->add_tokens(token);
    added->set_prompt_tokens(1);
    *added->mutable_sampling() = sampling;
    SequenceTable table({.vocab_size = 1 << 20, .max_known_sequences = 1, .max_model_len = 1000});
    const absl::Status status = table.Apply(plan);
    EXPECT_TRUE(status.ok()) << status;
    return *table.Find(SequenceId(5));
  }

  std::vector<v1::SampledToken> SampleRows(std::vector<std::vector<float>> rows,
                                           const std::vector<const SequenceState*>& sequences) {
    const auto vocab = static_cast<int64_t>(rows[0].size());
    if (sampler_ == nullptr || vocab != vocab_) {
      sampler_ = Sampler::Create(backend_.get(), {.vocab_size = vocab}).value();
      vocab_ = vocab;
    }
    auto buffer = backend_->Allocate(rows.size() * vocab * sizeof(float)).value();
    const kernels::TensorView logits = {.data = buffer->data(),
                                        .device = backend_->device(),
                                        .rows = static_cast<int64_t>(rows.size()),
                                        .cols = vocab,
                                        .row_stride = vocab};
    std::vector<SampleRow> sample_rows;
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy(rows[r].begin(), rows[r].end(), logits.f32(r));
      sample_rows.push_back({static_cast<int32_t>(r), sequences[r]});
    }
    std::vector<v1::SampledToken> sampled;
    const absl::Status status = sampler_->Sample(logits, sample_rows, &sampled);
    EXPECT_TRUE(status.ok()) << status;
    return sampled;
  }

  v1::SampledToken SampleOne(const std::vector<float>& logits, const SequenceState& sequence) {
    return SampleRows({logits}, {&sequence})[0];
  }

  // The token for `change`d default sampling after tokens `tokens`.
  TokenId Token(const std::vector<float>& logits, const std::vector<TokenId>& tokens,
                const std::function<void(v1::SequenceSampling*)>& change) {
    v1::SequenceSampling sampling;
    change(&sampling);
    return SampleOne(logits, Sequence(tokens, sampling)).token();
  }

  // The number of times that each token is drawn over many seeds.
  std::map<TokenId, int> Draws(const std::vector<float>& logits, v1::SequenceSampling sampling,
                               int draws) {
    std::map<TokenId, int> counts;
    for (int seed = 0; seed < draws; ++seed) {
      sampling.set_seed(seed);
      ++counts[SampleOne(logits, Sequence({0}, sampling)).token()];
    }
    return counts;
  }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<Sampler> sampler_;
  int64_t vocab_ = 0;
};

std::vector<float> LogitsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + 3));
  return logits;
}

// Each token's share of the draws within five standard deviations of its probability.
void ExpectShares(const std::map<TokenId, int>& counts, const std::vector<double>& probabilities,
                  int draws) {
  for (size_t id = 0; id < probabilities.size(); ++id) {
    const double p = probabilities[id];
    const auto found = counts.find(static_cast<TokenId>(id));
    const double count = found == counts.end() ? 0 : found->second;
    EXPECT_NEAR(count, draws * p, 5 * std::sqrt(draws * p * (1 - p)) + 1e-9) << "token " << id;
  }
}

TEST_P(SamplerTest, GreedyTakesTheLargestAndOfEqualsTheFirst) {
  EXPECT_EQ(Token({1, 3, 2, 3}, {0}, [](auto*) {}), 1);
  EXPECT_EQ(Token({-5, -5, -5}, {0}, [](auto*) {}), 0);
}

TEST_P(SamplerTest, SaysWhatItSampledAndWhere) {
  const v1::SampledToken token = SampleOne({1, 3, 2}, Sequence({0, 1, 2}, {}));
  EXPECT_EQ(token.sequence(), 5u);
  EXPECT_EQ(token.position(), 3);
  EXPECT_EQ(token.token(), 1);
  EXPECT_EQ(token.top_ids_size(), 0);
}

TEST_P(SamplerTest, TemperaturesNearZeroAreGreedy) {
  for (float temperature : {0.f, 1e-30f, 9e-6f}) {
    EXPECT_EQ(Token({1, 3, 3.0001f, 2}, {0},
                    [&](auto* s) { s->set_temperature(temperature), s->set_top_p(0.5); }),
              2);
  }
}

TEST_P(SamplerTest, SmallTemperaturesAndHugeLogitsStayFinite) {
  const auto coldest = [](auto* s) { s->set_temperature(kGreedyTemperature); };
  EXPECT_EQ(Token({-3e38f, 3e38f, 1}, {0}, coldest), 1);
  EXPECT_EQ(Token({-3e38f, -3e38f, -2e38f}, {0}, coldest), 2);
  EXPECT_EQ(Token({0, 1e-3f}, {0}, coldest), 1);
  v1::SequenceSampling sampling;
  coldest(&sampling);
  // Ties stay ties however large: about half each.
  ExpectShares(Draws({1e30f, 1e30f, 0}, sampling, 2000), {0.5, 0.5, 0}, 2000);
  sampling.set_temperature(1e30f);
  ExpectShares(Draws({5, -5}, sampling, 2000), {0.5, 0.5}, 2000);
}

TEST_P(SamplerTest, LogitsThatAreNoNumbersPoisonTheirRowOnly) {
  v1::SequenceSampling hot;
  hot.set_temperature(1);
  hot.set_logprobs(true);
  const SequenceState greedy = Sequence({0}, {});
  const SequenceState random = Sequence({0}, hot);
  for (const SequenceState* bad : {&greedy, &random}) {
    const auto sampled = SampleRows(
        {{1, kNan, 2}, {1, 2, 3}, {1, kInf, 2}, {-kInf, -kInf, -kInf}, {-kInf, 1, -kInf}},
        {bad, &greedy, bad, bad, bad});
    EXPECT_EQ(sampled[0].token(), -1);
    EXPECT_EQ(sampled[1].token(), 2);
    EXPECT_EQ(sampled[2].token(), -1);
    EXPECT_EQ(sampled[3].token(), -1);
    EXPECT_EQ(sampled[4].token(), 1);
  }
}

TEST_P(SamplerTest, DrawsFromTheSoftmax) {
  const std::vector<double> p = {0.5, 0.25, 0.125, 0.0625, 0.0625};
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  ExpectShares(Draws(LogitsOf(p), sampling, 8000), p, 8000);
}

TEST_P(SamplerTest, TemperatureFlattensAndSharpens) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(0.5);  // squares the odds
  ExpectShares(Draws(LogitsOf({0.6, 0.3, 0.1}), sampling, 8000),
               {0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46}, 8000);
}

TEST_P(SamplerTest, TopKKeepsTheFirstKAndTellsTiesByTheirIds) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  sampling.set_top_k(2);
  ExpectShares(Draws(LogitsOf({0.2, 0.4, 0.2, 0.2}), sampling, 4000), {1. / 3, 2. / 3, 0, 0}, 4000);
  sampling.set_top_k(1);
  ExpectShares(Draws(LogitsOf({0.2, 0.4, 0.4}), sampling, 100), {0, 1, 0}, 100);
}

TEST_P(SamplerTest, TopPKeepsTheFewestThatHoldIt) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  sampling.set_top_p(0.7f);
  ExpectShares(Draws(LogitsOf({0.1, 0.5, 0.25, 0.15}), sampling, 4000), {0, 2. / 3, 1. / 3, 0},
               4000);
  sampling.set_top_p(1e-6f);
  ExpectShares(Draws(LogitsOf({0.1, 0.5, 0.25, 0.15}), sampling, 100), {0, 1, 0, 0}, 100);
}

TEST_P(SamplerTest, TopPIsAShareOfWhatTopKLeft) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  sampling.set_top_k(2);
  sampling.set_top_p(0.7f);  // of 0.4 + 0.3: the first holds 0.57 only
  ExpectShares(Draws(LogitsOf({0.4, 0.3, 0.2, 0.1}), sampling, 4000), {4. / 7, 3. / 7, 0, 0}, 4000);
  sampling.set_top_p(0.5f);
  ExpectShares(Draws(LogitsOf({0.4, 0.3, 0.2, 0.1}), sampling, 100), {1, 0, 0, 0}, 100);
}

TEST_P(SamplerTest, MinPIsAShareOfTheLargest) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  sampling.set_min_p(0.4f);
  ExpectShares(Draws(LogitsOf({0.5, 0.25, 0.15, 0.1}), sampling, 4000), {2. / 3, 1. / 3, 0, 0},
               4000);
}

// More than both portions of candidates, nearly flat: every filter has to look far down.
TEST_P(SamplerTest, FiltersAreExactOverLargeFlatVocabularies) {
  constexpr int kVocab = 5000;
  std::vector<float> logits(kVocab, 1.f);
  for (int i = 0; i < kVocab; ++i) logits[(i * 7) % kVocab] -= 1e-5f * static_cast<float>(i);
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  const auto largest_rank = [&](int draws) {
    int largest = 0;
    for (const auto& [id, count] : Draws(logits, sampling, draws)) {
      for (int i = 0; i < kVocab; ++i) {
        if ((i * 7) % kVocab == id) largest = std::max(largest, i);
      }
    }
    return largest;
  };
  sampling.set_top_p(0.5f);  // ranks up to about 2,469: weights fall by 5 % over the range
  EXPECT_NEAR(largest_rank(300), 2455, 45);
  sampling.set_top_p(1);
  sampling.set_top_k(1500);
  EXPECT_NEAR(largest_rank(300), 1490, 40);
  sampling.set_top_k(0);
  sampling.set_min_p(0.98f);  // e^-0.0202
  EXPECT_NEAR(largest_rank(300), 2000, 45);
  sampling.set_min_p(0);
  EXPECT_NEAR(largest_rank(300), 4970, 90);
}

TEST_P(SamplerTest, RandomnessDependsOnSeedAndPositionOnly) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  sampling.set_seed(77);
  sampling.set_logprobs(true);
  const std::vector<float> logits(500, 0.f);
  const SequenceState here = Sequence({1, 2, 3}, sampling);
  const SequenceState elsewhere = Sequence({9, 8, 7}, sampling);
  const SequenceState later = Sequence({1, 2, 3, 4}, sampling);
  sampling.set_seed(78);
  const SequenceState other_seed = Sequence({1, 2, 3}, sampling);
  const v1::SampledToken alone = SampleOne(logits, here);
  const auto together =
      SampleRows({logits, logits, logits, logits}, {&later, &other_seed, &elsewhere, &here});
  EXPECT_EQ(together[3].token(), alone.token());
  EXPECT_EQ(together[3].logprob(), alone.logprob());
  EXPECT_EQ(together[2].token(), alone.token());
  EXPECT_NE(together[0].token(), alone.token());
  EXPECT_NE(together[1].token(), alone.token());
}

TEST_P(SamplerTest, PenaltiesAndBiasMoveGreedyChoices) {
  const std::vector<float> logits = {2, 1.8f, -1, -1.1f};
  // Token 0 is the prompt, token 1 was generated.
  EXPECT_EQ(Token(logits, {0, 1}, [](auto*) {}), 0);
  EXPECT_EQ(Token(logits, {0, 1}, [](auto* s) { s->set_repetition_penalty(3); }), 0);
  EXPECT_EQ(Token(logits, {0}, [](auto* s) { s->set_repetition_penalty(3); }), 1);
  EXPECT_EQ(Token({2, 1.9f, 1}, {0, 1}, [](auto* s) { s->set_repetition_penalty(3); }), 2);
  // Negative logits are multiplied.
  EXPECT_EQ(Token({-1, -1.5f}, {0}, [](auto* s) { s->set_repetition_penalty(2); }), 1);
  // Presence and frequency look at the output only.
  EXPECT_EQ(Token(logits, {0}, [](auto* s) { s->set_presence_penalty(2); }), 0);
  EXPECT_EQ(Token({1.8f, 2, 0}, {0, 1}, [](auto* s) { s->set_presence_penalty(0.5f); }), 0);
  EXPECT_EQ(Token({1.8f, 2, 0}, {0, 1}, [](auto* s) { s->set_frequency_penalty(0.15f); }), 1);
  EXPECT_EQ(Token({1.8f, 2, 0}, {0, 1, 1}, [](auto* s) { s->set_frequency_penalty(0.15f); }), 0);
  EXPECT_EQ(Token(logits, {0}, [](auto* s) { s->add_bias_ids(3), s->add_bias_values(4); }), 3);
  EXPECT_EQ(Token(logits, {0}, [](auto* s) { s->add_bias_ids(0), s->add_bias_values(-100); }), 1);
}

// The ends of what a request may ask for, with logits beyond any in use.
TEST_P(SamplerTest, PenaltiesAtTheirEndsKeepNumbersNumbers) {
  for (const float logit : {3e36f, -3e36f, 1e5f, 1e-45f}) {
    for (const float penalty : {0.01f, 100.f}) {
      for (const float temperature : {0.f, kGreedyTemperature, 100.f}) {
        EXPECT_NE(Token({logit, -logit, 0}, {0, 1, 1, 0, 2},
                        [&](auto* s) {
                          s->set_repetition_penalty(penalty);
                          s->set_presence_penalty(-2);
                          s->set_frequency_penalty(-2);
                          s->add_bias_ids(1), s->add_bias_values(100);
                          s->set_temperature(temperature);
                        }),
                  -1)
            << logit << " " << penalty << " " << temperature;
      }
    }
  }
}

TEST_P(SamplerTest, PenaltiesThatOverflowPoison) {
  EXPECT_EQ(
      Token({1, 2}, {0, 1},
            [](auto* s) { s->set_presence_penalty(-3e38f), s->set_frequency_penalty(-3e38f); }),
      -1);
}

TEST_P(SamplerTest, LogprobsAreTheModelsOwn) {
  const std::vector<double> p = {0.1, 0.4, 0.3, 0.2};
  v1::SequenceSampling sampling;
  sampling.set_logprobs(true);
  sampling.set_top_logprobs(2);
  sampling.set_temperature(0.1f);
  sampling.set_top_k(1);
  sampling.add_bias_ids(0);
  sampling.add_bias_values(50);
  const v1::SampledToken token = SampleOne(LogitsOf(p), Sequence({0}, sampling));
  EXPECT_EQ(token.token(), 0);
  EXPECT_NEAR(token.logprob(), std::log(0.1), 1e-6);
  EXPECT_THAT(token.top_ids(), ElementsAre(1, 2));
  EXPECT_NEAR(token.top_logprobs(0), std::log(0.4), 1e-6);
  EXPECT_NEAR(token.top_logprobs(1), std::log(0.3), 1e-6);
}

TEST_P(SamplerTest, NoEndBeforeTheLeastLength) {
  const auto least_two = [](auto* s) {
    s->set_min_tokens(2);
    for (const int32_t id : {1, 3}) s->add_end_ids(id);
  };
  const std::vector<float> logits = {1, 9, 2, 8};
  EXPECT_EQ(Token(logits, {0}, least_two), 2);
  EXPECT_EQ(Token(logits, {0, 2}, least_two), 2);
  EXPECT_EQ(Token(logits, {0, 2, 2}, least_two), 1) << "the prompt's token does not count";
}

TEST_P(SamplerTest, RowsOfTokensThatMustNotCome) {
  const auto bans = [](auto* s) {
    s->add_banned()->add_ids(3);
    v1::BannedTokens& row = *s->add_banned();
    for (const int32_t id : {2, 2, 1}) row.add_ids(id);
  };
  const std::vector<float> logits = {1, 7, 6, 9};
  EXPECT_EQ(Token(logits, {0}, bans), 1);
  EXPECT_EQ(Token(logits, {0, 2}, bans), 1);
  EXPECT_EQ(Token(logits, {0, 2, 2}, bans), 2);
  EXPECT_EQ(Token(logits, {0, 2, 2, 0}, bans), 1);
  EXPECT_EQ(Token(logits, {2, 2}, bans), 1) << "the prompt is not the output";
}

TEST_P(SamplerTest, OnlyAllowedTokensAreDrawn) {
  const std::vector<double> probabilities = {0.5, 0.1, 0.2, 0.2};
  v1::SequenceSampling sampling;
  sampling.set_temperature(1);
  for (const int32_t id : {1, 2}) sampling.add_allowed_ids(id);
  ExpectShares(Draws(LogitsOf(probabilities), sampling, 2000), {0, 1.0 / 3, 2.0 / 3, 0}, 2000);
  sampling.set_top_k(1);
  ExpectShares(Draws(LogitsOf(probabilities), sampling, 50), {0, 0, 1, 0}, 50);
}

TEST_P(SamplerTest, LogprobsKnowNoMask) {
  v1::SequenceSampling plain;
  plain.set_logprobs(true);
  plain.set_top_logprobs(3);
  v1::SequenceSampling masked = plain;
  masked.add_allowed_ids(1);
  const auto whole = SampleOne({1, 3, 2, 5}, Sequence({0}, plain));
  const auto one = SampleOne({1, 3, 2, 5}, Sequence({0}, masked));
  EXPECT_EQ(one.token(), 1);
  EXPECT_THAT(one.top_ids(), ElementsAre(3, 1, 2));
  EXPECT_EQ(one.top_logprobs(0), whole.top_logprobs(0));
  EXPECT_EQ(one.logprob(), whole.top_logprobs(1));
}

TEST_P(SamplerTest, WhereNothingIsLeftTheRowIsPoisoned) {
  const auto all = [](auto* s) { s->add_allowed_ids(1), s->add_banned()->add_ids(1); };
  EXPECT_EQ(Token({1, 3}, {0}, all), -1);
}

TEST_P(SamplerTest, MoreTopLogprobsThanTokens) {
  v1::SequenceSampling sampling;
  sampling.set_top_logprobs(10);
  EXPECT_THAT(SampleOne({1, 2}, Sequence({0}, sampling)).top_ids(), ElementsAre(1, 0));
}

TEST_P(SamplerTest, AVocabularyOfOne) {
  EXPECT_EQ(Token({-7}, {0}, [](auto* s) { s->set_temperature(1), s->set_top_p(0.5f); }), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, SamplerTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tutti::worker
