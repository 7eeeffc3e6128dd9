// Runs the simulated cluster from many seeds. A failure prints its seed; TUTTI_SIM_SEED=n runs that
// one again, with TUTTI_SIM_TRACE=1 what the engine does; TUTTI_SIM_SEEDS=n sets how many are run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/support/sim_cluster.h"

namespace tutti::tests {
namespace {

// As many as take a dozen seconds.
constexpr uint64_t kSeeds = 700;

uint64_t Environment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t number = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &number)) number = otherwise;
  return number;
}

std::string Failures(const SimReport& report) {
  std::string text;
  for (const std::string& failure : report.failures) absl::StrAppend(&text, "  ", failure, "\n");
  return text;
}

TEST(SimulationTest, EverySeedKeepsThePromises) {
  const uint64_t only = Environment("TUTTI_SIM_SEED", 0);
  const uint64_t first = only > 0 ? only : 1;
  const uint64_t last = only > 0 ? only : Environment("TUTTI_SIM_SEEDS", kSeeds);
  SimReport sum;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SimOptions options = DrawSimOptions(seed);
    options.trace = only > 0 && Environment("TUTTI_SIM_TRACE", 0) > 0;
    const SimReport report = RunSimulation(options);
    ASSERT_TRUE(report.failures.empty()) << options.Text() << "\n"
                                         << Failures(report) << "again: TUTTI_SIM_SEED=" << seed;
    sum.requests += report.requests;
    sum.ended_well += report.ended_well;
    sum.tokens += report.tokens;
    sum.plans += report.plans;
    sum.preemptions += report.preemptions;
    sum.stale_frames += report.stale_frames;
    sum.hit_tokens += report.hit_tokens;
    sum.evictions += report.evictions;
    sum.epochs += report.epochs;
    sum.exchanges += report.exchanges;
    sum.rebuilt_tokens += report.rebuilt_tokens;
    sum.guesses += report.guesses;
    sum.right_guesses += report.right_guesses;
    sum.drafts += report.drafts;
    sum.right_drafts += report.right_drafts;
    sum.right_of_answers += report.right_of_answers;
  }
  const std::string text = absl::StrCat(
      last - first + 1, " seeds: ", sum.requests, " requests, ", sum.ended_well, " ended well, ",
      sum.tokens, " tokens, ", sum.plans, " steps, ", sum.preemptions, " preemptions, ",
      sum.hit_tokens, " tokens found cached, ", sum.evictions, " evictions, ", sum.epochs,
      " epochs, ", sum.stale_frames, " stale frames, ", sum.exchanges, " exchanges of ranks, ",
      sum.rebuilt_tokens, " tokens rebuilt, ", sum.right_guesses, " of ", sum.guesses,
      " guesses right, ", sum.right_drafts, " of ", sum.drafts, " by a draft model, ",
      sum.right_of_answers, " from finished answers");
  RecordProperty("summary", text);
  printf("%s\n", text.c_str());
  if (only > 0 || last < kSeeds) return;
  // The seeds reach the cases that they are for.
  EXPECT_GT(sum.ended_well, sum.requests / 4);
  EXPECT_GT(sum.preemptions, last / 4);
  EXPECT_GT(sum.stale_frames, last / 4);
  EXPECT_GT(sum.hit_tokens, last * 16);
  EXPECT_GT(sum.evictions, last);
  EXPECT_GT(sum.epochs, last + last / 4);
  EXPECT_GT(sum.exchanges, last * 16);
  EXPECT_GT(sum.rebuilt_tokens, last);
  EXPECT_GT(sum.guesses, last * 16);
  EXPECT_GT(sum.right_guesses, last * 8);
  EXPECT_GT(sum.guesses - sum.right_guesses, last * 8);
  EXPECT_GT(sum.right_drafts, last * 2);
  EXPECT_GT(sum.drafts - sum.right_drafts, last * 2);
  EXPECT_GT(sum.right_of_answers, last / 4);
}

// Seeds beyond those above that found something once: steps that a slowed worker takes seconds for;
// a reduced pipeline beside which another was made of those that had come to make it whole; a
// request that waited for a place of one pipeline and then of one that had been sent more steps.
TEST(SimulationTest, SeedsThatFoundSomethingKeepThePromises) {
  for (const uint64_t seed : {5321, 6778, 3406}) {
    const SimOptions options = DrawSimOptions(seed);
    const SimReport report = RunSimulation(options);
    EXPECT_TRUE(report.failures.empty()) << options.Text() << "\n" << Failures(report);
  }
}

// However a plan is bounded, the tokens are those of the oracle. The loads are such that plans
// would be larger: the bound is what keeps them small.
TEST(SimulationTest, SmallPlansGiveTheSameTokens) {
  constexpr uint64_t kLoads = 40;
  uint64_t bound_hit = 0;
  for (uint64_t seed = 1; seed <= kLoads; ++seed) {
    SimOptions options = DrawSimOptions(seed);
    options.faults = 0;
    CrowdPlans(&options);
    const SimReport small = RunSimulation(options);
    options.plan_bytes_max = coordinator::kPlanBytesMax;
    const SimReport large = RunSimulation(options);
    ASSERT_TRUE(large.failures.empty()) << options.Text() << "\n" << Failures(large);
    ASSERT_TRUE(small.failures.empty()) << options.Text() << "\n" << Failures(small);
    EXPECT_LE(small.plan_bytes, kSimPlanBytes) << seed;
    if (large.plan_bytes > kSimPlanBytes) ++bound_hit;
  }
  EXPECT_GT(bound_hit, kLoads / 4) << "loads on many pipelines do not reach it";
}

TEST(SimulationTest, ASlowWorkersPlaceMovesToTheSpare) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SimOptions options = DrawSimOptions(seed);
    StaySlow(&options);
    const SimReport report = RunSimulation(options);
    ASSERT_TRUE(report.failures.empty()) << options.Text() << "\n" << Failures(report);
    EXPECT_EQ(report.epochs, 2u) << options.Text() << ": one before, one without the slow worker";
  }
}

TEST(SimulationTest, ASeedIsARun) {
  for (const uint64_t seed : {3, 14, 15, 92, 65}) {
    const SimReport once = RunSimulation(DrawSimOptions(seed));
    const SimReport again = RunSimulation(DrawSimOptions(seed));
    EXPECT_EQ(once.trace, again.trace) << seed;
    EXPECT_EQ(once.plans, again.plans) << seed;
  }
  EXPECT_NE(RunSimulation(DrawSimOptions(3)).trace, RunSimulation(DrawSimOptions(4)).trace);
}

}  // namespace
}  // namespace tutti::tests
