#include "bench/directory_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace tutti::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TraceFileTest : public testing::Test {
 protected:
  absl::StatusOr<ReplayTrace> Read(const std::string& text, bool skip_broken = false) {
    std::ofstream(path_) << text;
    return ReadReplayTrace(path_, skip_broken);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ =
      std::filesystem::temp_directory_path() / absl::StrCat("tutti-trace-", getpid());
};

constexpr const char* kGood =
    R"({"timestamp": 1500, "input_length": 600, "output_length": 7, "hash_ids": [3, 4]})"
    "\n";

TEST_F(TraceFileTest, ReadsRequestsInOrderOfArrival) {
  const auto trace = Read(absl::StrCat(
      kGood, R"({"timestamp": 1, "input_length": 512, "output_length": 0, "hash_ids": [9]})"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_THAT(trace->requests[0].blocks, ElementsAre(9));
  EXPECT_EQ(trace->requests[1].arrival_s, 1.5);
  EXPECT_EQ(trace->requests[1].input_tokens, 600);
  EXPECT_EQ(trace->requests[1].output_tokens, 7);
}

TEST_F(TraceFileTest, BrokenLinesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"{", "not a JSON object"},
      {"[1]", "not a JSON object"},
      {"\xff\xfe", "not a JSON object"},
      {R"({"input_length": 1, "output_length": 1, "hash_ids": [1]})", "timestamp is missing"},
      {R"({"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]})",
       "timestamp is -1"},
      {R"({"timestamp": "1", "input_length": 1, "output_length": 1, "hash_ids": [1]})",
       "timestamp is not a number"},
      {R"({"timestamp": 1, "input_length": 0, "output_length": 1, "hash_ids": []})",
       "input_length is 0"},
      {R"({"timestamp": 1, "input_length": 1e99, "output_length": 1, "hash_ids": [1]})",
       "input_length is 1e+99"},
      {R"({"timestamp": 1, "input_length": 513, "output_length": 1, "hash_ids": [1]})",
       "hash_ids has 1 ids, input_length of 513 needs 2"},
      {R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["x"]})",
       "hash_ids has \"x\""},
      {R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [4294967296]})",
       "hash_ids has 4294967296"},
      {R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 7})",
       "hash_ids is not a list"},
  };
  for (const auto& [line, wrong] : lines) {
    const auto refused = Read(absl::StrCat(kGood, line, "\n", kGood));
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << line;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(path_ + ":2: " + wrong));
    const auto skipped = Read(absl::StrCat(kGood, line, "\n", kGood), true);
    ASSERT_TRUE(skipped.ok());
    EXPECT_EQ(skipped->requests.size(), 2u);
    EXPECT_EQ(skipped->broken.size(), 1u);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Read("").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadReplayTrace("/nowhere/trace.jsonl", true).status()));
}

// Conversations of several turns; every turn has the blocks of the one before and new ones.
ReplayTrace Chats(uint64_t seed) {
  Random random(seed);
  ReplayTrace trace;
  int32_t next = 0;
  std::vector<std::vector<int32_t>> chats(30);
  for (int i = 0; i < 400; ++i) {
    std::vector<int32_t>& chat = chats[random.Between(0, 29)];
    if (chat.size() > 20) chat.clear();
    for (int64_t n = random.Between(1, 6); n > 0; --n) chat.push_back(next++);
    trace.requests.push_back({.arrival_s = i * 0.1,
                              .input_tokens = static_cast<int64_t>(chat.size()) * 512,
                              .output_tokens = random.Between(0, 100),
                              .blocks = chat});
  }
  return trace;
}

TEST(DirectoryBenchTest, APoolForAllFindsAll) {
  const ReplayTrace trace = Chats(1);
  const TraceFacts facts = FactsOf(trace);
  const DirectoryBenchRow row = Replay(trace, {}, 1, static_cast<int32_t>(facts.different));
  EXPECT_EQ(row.blocks, facts.blocks);
  EXPECT_EQ(row.hit_rate(), facts.best_hit_rate);
  EXPECT_EQ(row.waited, 0);
  EXPECT_EQ(row.spread(), 1);
}

// The coordinator's pool and directory, against the same rule in a few lines.
TEST(DirectoryBenchTest, OwnCacheFollowsItsRule) {
  const ReplayTrace trace = Chats(2);
  for (const int32_t blocks : {40, 80, 160, 320}) {
    EXPECT_EQ(Replay(trace, {}, 1, blocks).hits,
              ReplayRule(trace, {}, EvictionRule::kLeastRecentlyReleased, blocks).hits)
        << blocks;
  }
}

TEST(DirectoryBenchTest, WhoKnowsTheFutureFindsMost) {
  const ReplayTrace trace = Chats(3);
  for (const int32_t blocks : {60, 120, 240}) {
    const int64_t most = ReplayRule(trace, {}, EvictionRule::kKnowsTheFuture, blocks).hits;
    EXPECT_LE(Replay(trace, {}, 1, blocks).hits, most);
    for (const EvictionRule rule : {EvictionRule::kHeadsBeforeTails, EvictionRule::kFirstComputed,
                                    EvictionRule::kLeastUsed}) {
      EXPECT_LE(ReplayRule(trace, {}, rule, blocks).hits, most) << EvictionRuleName(rule);
    }
    EXPECT_LT(ReplayRule(trace, {}, EvictionRule::kHeadsBeforeTails, blocks).hits,
              Replay(trace, {}, 1, blocks).hits);
  }
}

TEST(DirectoryBenchTest, ConversationsReturnToTheirPipeline) {
  const ReplayTrace trace = Chats(4);
  const TraceFacts facts = FactsOf(trace);
  const DirectoryBenchRow row = Replay(trace, {}, 4, static_cast<int32_t>(facts.different));
  EXPECT_GE(row.hit_rate(), 0.9 * facts.best_hit_rate);
  EXPECT_LT(row.spread(), 1.5);
}

// The figures promised for the real trace.
TEST(DirectoryBenchTest, MooncakeTrace) {
  const char* const data = std::getenv("TUTTI_TESTDATA");
  if (data == nullptr) GTEST_SKIP() << "TUTTI_TESTDATA is not set";
  const auto trace =
      ReadReplayTrace(absl::StrCat(data, "/traces/mooncake_synthetic_trace.jsonl"), false);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const TraceFacts facts = FactsOf(*trace);
  EXPECT_NEAR(facts.best_hit_rate, 0.640, 0.001);
  const auto all = static_cast<int32_t>(facts.different);
  EXPECT_GE(Replay(*trace, {}, 1, all).hit_rate(), facts.best_hit_rate - 0.01);
  EXPECT_GE(Replay(*trace, {}, 8, all / 8).hit_rate(), 0.9 * facts.best_hit_rate);
}

TEST(DirectoryBenchTest, RefusesWhatCannotBe) {
  EXPECT_EQ(RunDirectoryBench({.trace = "/nowhere"}), 2);
  EXPECT_EQ(RunDirectoryBench({.trace = "/nowhere", .pipelines = {0}}), 2);
  EXPECT_EQ(RunDirectoryBench({.trace = "/nowhere", .pool_percent = {0}}), 2);
  EXPECT_EQ(RunDirectoryBench({.trace = "/nowhere", .prefill_tokens_per_second = 0}), 2);
}

}  // namespace
}  // namespace tutti::bench
