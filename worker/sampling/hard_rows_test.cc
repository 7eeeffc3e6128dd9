// Rows that are hard on sampling: a bounded amount of work whatever the parameters, signs of life
// meanwhile, and the same bits for any number of ranks, threads and neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/random.h"
#include "worker/sampling/counting_backend_testing.h"
#include "worker/sampling/hard_rows_testing.h"
#include "worker/sampling/rank_threads_testing.h"
#include "worker/sampling/sampler.h"
#include "worker/sequence_table.h"

namespace tutti::worker {
namespace {

SequenceState SequenceOf(const v1::SequenceSampling& sampling, std::vector<TokenId> tokens = {0}) {
  SequenceState sequence;
  sequence.id = SequenceId(1);
  sequence.prompt_tokens = 1;
  sequence.sampling = sampling;
  for (size_t i = 0; sequence.has_penalties() && i < tokens.size(); ++i) {
    TokenCount& count = sequence.counts[tokens[i]];
    if (i == 0) {
      count.in_prompt = true;
    } else {
      ++count.in_output;
    }
  }
  sequence.tokens = std::move(tokens);
  return sequence;
}

struct Rows {
  std::vector<std::vector<float>> logits;
  std::vector<SequenceState> sequences;
};

struct Place {
  int ranks = 1;
  int threads = 1;
};

// Token, log-probability and alternatives of every row, to the bit; rank 0's, after comparing it
// with the others'.
std::vector<std::vector<uint32_t>> Bits(const Rows& rows, const Place& place) {
  const auto vocab = static_cast<int64_t>(rows.logits[0].size());
  const int64_t bytes = (vocab + 1024) * 24;
  std::vector<std::vector<std::vector<uint32_t>>> of_rank(static_cast<size_t>(place.ranks));
  RunRanks(place.ranks, bytes, [&](int rank, kernels::Collective* collective) {
    const auto backend = *kernels::CreateBackend("cpu", {.num_threads = place.threads});
    const auto sampler = *Sampler::Create(backend.get(), {.vocab_size = vocab,
                                                          .ranks = place.ranks,
                                                          .rank = rank,
                                                          .collective = collective,
                                                          .exchange_bytes = bytes});
    const model::Range own = ShareVocabulary(vocab, place.ranks, rank).own;
    std::vector<float> logits;
    std::vector<SampleRow> sample_rows;
    for (size_t r = 0; r < rows.logits.size(); ++r) {
      const auto& row = rows.logits[r];
      logits.insert(logits.end(), row.begin() + own.begin, row.begin() + own.end);
      sample_rows.push_back({static_cast<int32_t>(r), &rows.sequences[r]});
    }
    std::vector<v1::SampledToken> sampled;
    const absl::Status status = sampler->Sample({.data = logits.data(),
                                                 .rows = static_cast<int64_t>(rows.logits.size()),
                                                 .cols = own.size(),
                                                 .row_stride = own.size()},
                                                sample_rows, &sampled);
    EXPECT_TRUE(status.ok()) << status;
    for (const v1::SampledToken& token : sampled) {
      auto& bits = of_rank[static_cast<size_t>(rank)].emplace_back();
      bits.push_back(static_cast<uint32_t>(token.token()));
      bits.push_back(std::bit_cast<uint32_t>(token.logprob()));
      for (const int32_t id : token.top_ids()) bits.push_back(static_cast<uint32_t>(id));
      for (const float p : token.top_logprobs()) bits.push_back(std::bit_cast<uint32_t>(p));
    }
  });
  for (const auto& other : of_rank) EXPECT_EQ(other, of_rank[0]);
  return of_rank[0];
}

// Excludes tokens in one of the ways that there are; `tokens` is what the sequence ends with.
void DrawMask(Random* random, int vocab, const std::vector<TokenId>& tokens,
              v1::SequenceSampling* sampling) {
  const auto id = [&] { return static_cast<int32_t>(random->Between(0, vocab - 1)); };
  const int64_t kind = random->Between(0, 3);
  if (kind == 0 || kind == 3) {
    sampling->set_min_tokens(static_cast<uint32_t>(tokens.size()));
    for (int i = 0; i < 5; ++i) sampling->add_end_ids(id());
  }
  if (kind == 1 || kind == 3) {
    for (int i = 0; i < 40; ++i) {
      v1::BannedTokens& banned = *sampling->add_banned();
      const int64_t others = random->Between(0, 3);
      for (size_t t = tokens.size() - others; t < tokens.size(); ++t) banned.add_ids(tokens[t]);
      banned.add_ids(id());
    }
  }
  if (kind >= 2) {
    const int step = random->Chance(0.5) ? 3 : vocab / 50;
    for (int32_t allowed = id() % step; allowed < vocab; allowed += step) {
      sampling->add_allowed_ids(allowed);
    }
  }
}

// Every hard row with parameters of many kinds.
Rows ManyRows(int vocab) {
  Rows rows;
  Random random(3);
  for (const HardRow& row : HardRows(vocab)) {
    for (int i = 0; i < 10; ++i) {
      v1::SequenceSampling sampling;
      sampling.set_seed(random.Bits());
      sampling.set_temperature(i == 0   ? 100.f
                               : i == 9 ? 0.f
                                        : static_cast<float>(3 * random.Uniform()));
      if (i % 2 == 1) sampling.set_top_p(0.95f);
      if (i == 2) sampling.set_top_k(vocab - 3);
      if (i == 3) sampling.set_min_p(0.01f);
      sampling.set_logprobs(true);
      sampling.set_top_logprobs(static_cast<uint32_t>(i));
      if (i >= 4 && i < 8) {
        sampling.set_repetition_penalty(1.5f);
        sampling.set_frequency_penalty(0.5f);
        for (int b = 0; b < 10; ++b) {
          sampling.add_bias_ids(static_cast<int32_t>(random.Between(0, vocab - 1)));
          sampling.add_bias_values(2);
        }
      }
      std::vector<TokenId> tokens;
      for (int t = 0; t < 200; ++t) {
        tokens.push_back(static_cast<TokenId>(random.Between(0, vocab - 1)));
      }
      if (i >= 6) DrawMask(&random, vocab, tokens, &sampling);
      rows.logits.push_back(row.logits);
      rows.sequences.push_back(SequenceOf(sampling, std::move(tokens)));
    }
  }
  return rows;
}

TEST(HardRowsTest, TheSameBitsForAnyRanksThreadsAndNeighbours) {
  const Rows rows = ManyRows(1500);
  const auto expected = Bits(rows, {});
  for (const Place place : {Place{1, 3}, Place{2, 1}, Place{4, 2}, Place{8, 1}}) {
    EXPECT_EQ(Bits(rows, place), expected) << place.ranks << " ranks";
  }
  for (size_t r = 0; r < rows.logits.size(); ++r) {
    const Rows one = {{rows.logits[r]}, {rows.sequences[r]}};
    ASSERT_EQ(Bits(one, {})[0], expected[r]) << r;
  }
}

// One request, 64 outputs, the flattest distribution: its worker must be seen to live between any
// two rows, and no row may cost a sort of the vocabulary.
TEST(HardRowsTest, TheWorkOfARowIsBoundedWhateverTheParameters) {
  constexpr int kVocab = 20000;
  constexpr int kOutputs = 64;
  // Reads of a whole row: the largest twice (with and without adjustments), the normalisers of the
  // model and of the draw, the adjusted row made twice and masked, candidates three times, and
  // what is fetched for the last look.
  constexpr int64_t kPasses = 11;
  for (const HardRow& row : HardRows(kVocab)) {
    for (const bool everything : {false, true}) {
      SCOPED_TRACE(row.name + (everything ? ", everything" : ""));
      v1::SequenceSampling sampling;
      sampling.set_temperature(100);
      std::vector<TokenId> tokens = {0};
      if (everything) {
        sampling.set_top_k(kVocab - 1);
        sampling.set_top_p(0.9999f);
        sampling.set_min_p(1e-30f);
        sampling.set_top_logprobs(20);
        sampling.set_repetition_penalty(1.1f);
        for (int id = 1; id < kVocab; ++id) tokens.push_back(id);
        for (int i = 0; i < 1024; ++i) sampling.add_bias_ids(i), sampling.add_bias_values(1);
        for (int i = 1; i < kVocab; ++i) sampling.add_allowed_ids(i);
        for (int i = 1; i < 256; ++i) sampling.add_banned()->add_ids(i);
      }
      std::vector<SequenceState> sequences(kOutputs, SequenceOf(sampling, tokens));
      CountingBackend backend(*kernels::CreateBackend("cpu", {.num_threads = 1}));
      const auto sampler = *Sampler::Create(&backend, {.vocab_size = kVocab});
      std::vector<float> logits;
      std::vector<SampleRow> sample_rows;
      for (int i = 0; i < kOutputs; ++i) {
        logits.insert(logits.end(), row.logits.begin(), row.logits.end());
        SequenceState& sequence = sequences[static_cast<size_t>(i)];
        sequence.sampling.set_seed(static_cast<uint64_t>(i));
        sample_rows.push_back({i, &sequence});
      }
      std::vector<v1::SampledToken> sampled;
      std::vector<int64_t> read_until;
      const absl::Status status = sampler->Sample(
          {.data = logits.data(), .rows = kOutputs, .cols = kVocab, .row_stride = kVocab},
          sample_rows, &sampled, [&] { read_until.push_back(backend.logits_read()); });
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_LE(backend.most_ordered(), kSecondPortion);
      EXPECT_LE(backend.logits_read(), kPasses * kOutputs * kVocab);
      EXPECT_GE(static_cast<int64_t>(read_until.size()), 2 * kOutputs);
      // A question to all rows at once is one operator over all of them; after it none goes by
      // without a sign.
      for (size_t i = 1; i < read_until.size(); ++i) {
        EXPECT_LE(read_until[i] - read_until[i - 1], kPasses * kVocab);
      }
    }
  }
}

// The second portion would be most of the row.
TEST(HardRowsTest, OfASmallVocabularyOnlyTheFirstPortionIsPutInOrder) {
  for (const int vocab : {int{kPortionedVocabulary}, int{kPortionedVocabulary} - 1, 1248}) {
    v1::SequenceSampling sampling;
    sampling.set_temperature(100);
    SequenceState sequence = SequenceOf(sampling, {0});
    CountingBackend backend(*kernels::CreateBackend("cpu", {.num_threads = 1}));
    const auto sampler = *Sampler::Create(&backend, {.vocab_size = vocab});
    std::vector<float> logits(static_cast<size_t>(vocab));
    for (size_t id = 0; id < logits.size(); ++id) logits[id] = static_cast<float>(id % 97);
    for (uint64_t seed = 0; seed < 64; ++seed) {
      sequence.sampling.set_seed(seed);
      std::vector<v1::SampledToken> sampled;
      const std::vector<SampleRow> rows = {{0, &sequence}};
      const absl::Status status = sampler->Sample(
          {.data = logits.data(), .rows = 1, .cols = vocab, .row_stride = vocab}, rows, &sampled,
          [] {});
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(backend.most_ordered(),
              vocab < kPortionedVocabulary ? kFirstPortion : kSecondPortion);
  }
}

// The formula of penalties and biases, token by token.
TEST(HardRowsTest, AdjustmentsOfLongHistories) {
  constexpr int kVocab = 3000;
  Random random(9);
  for (int round = 0; round < 20; ++round) {
    v1::SequenceSampling sampling;
    sampling.set_repetition_penalty(round % 3 == 0 ? 0.f : 1.3f);
    sampling.set_presence_penalty(0.25f);
    sampling.set_frequency_penalty(round % 2 == 0 ? -0.125f : 0.5f);
    std::vector<float> bias(kVocab), logits(kVocab);
    for (int b = 0; b < 300 * (round % 4); ++b) {
      const auto id = static_cast<int32_t>(random.Between(0, kVocab - 1));
      sampling.add_bias_ids(id);
      sampling.add_bias_values(0.5f);
      bias[static_cast<size_t>(id)] += 0.5f;
    }
    std::vector<TokenId> tokens;
    for (int t = 0; t < 4000; ++t) {
      tokens.push_back(static_cast<TokenId>(random.Between(0, kVocab - 1)));
    }
    const SequenceState sequence = SequenceOf(sampling, tokens);
    int32_t best = 0;
    float largest = -std::numeric_limits<float>::infinity();
    for (int id = 0; id < kVocab; ++id) {
      float& logit = logits[static_cast<size_t>(id)];
      logit = static_cast<float>(4 * random.Uniform() - 2);
      const auto found = sequence.counts.find(id);
      float moved = logit, added = bias[static_cast<size_t>(id)];
      if (found != sequence.counts.end()) {
        if (round % 3 != 0) moved = logit > 0 ? logit / 1.3f : logit * 1.3f;
        const auto times = static_cast<float>(found->second.in_output);
        if (times > 0) added -= 0.25f + sampling.frequency_penalty() * times;
      }
      if (moved + added > largest) largest = moved + added, best = id;
    }
    EXPECT_EQ(Bits({{logits}, {sequence}}, {})[0][0], static_cast<uint32_t>(best)) << round;
  }
}

}  // namespace
}  // namespace tutti::worker
