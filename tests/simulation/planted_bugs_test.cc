// The harness is itself tested: with a bug planted, some seed must fail, by a check of the
// simulator or by a CHECK of the engine. Each bug runs in a child process, because a CHECK ends the
// process.
#include "coordinator/planted_bugs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/support/sim_cluster.h"

namespace tutti::tests {
namespace {

constexpr uint64_t kSeeds = 1000;

struct Case {
  std::string name;
  uint32_t engine = 0;
  OracleBugs oracle;
};

Case OfEngine(const std::string& name, coordinator::PlantedBug bug) {
  return {.name = name, .engine = static_cast<uint32_t>(bug)};
}

// Runs seeds until one fails. Exits with 1 if one did, 0 if none; a CHECK aborts.
[[noreturn]] void Search(const Case& planted) {
  const int null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO);
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimOptions options = DrawSimOptions(seed);
    options.planted_bugs = planted.engine;
    options.oracle_bugs = planted.oracle;
    if (!RunSimulation(options).failures.empty()) _exit(1);
  }
  _exit(0);
}

class PlantedBugTest : public testing::TestWithParam<Case> {};

TEST_P(PlantedBugTest, IsFound) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) Search(GetParam());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const bool found = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
  EXPECT_TRUE(found) << kSeeds << " seeds did not notice: " << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedBugTest,
    testing::Values(OfEngine("SkipEpochCheck", coordinator::PlantedBug::kSkipEpochCheck),
                    OfEngine("FreeBlockEarly", coordinator::PlantedBug::kFreeBlockEarly),
                    OfEngine("FreeBlockTwice", coordinator::PlantedBug::kFreeBlockTwice),
                    OfEngine("ForgetFinished", coordinator::PlantedBug::kForgetFinished),
                    OfEngine("KeepComputed", coordinator::PlantedBug::kKeepComputed),
                    OfEngine("FreeSharedBlock", coordinator::PlantedBug::kFreeSharedBlock),
                    OfEngine("HashWithoutTenant", coordinator::PlantedBug::kHashWithoutTenant),
                    OfEngine("KeepEvicted", coordinator::PlantedBug::kKeepEvicted),
                    OfEngine("KeepBacklog", coordinator::PlantedBug::kKeepBacklog),
                    OfEngine("ForgetOnFirstRank", coordinator::PlantedBug::kForgetOnFirstRank),
                    OfEngine("SkipRankEpoch", coordinator::PlantedBug::kSkipRankEpoch),
                    Case{.name = "StaleExchange", .oracle = {.stale_exchange = true}},
                    Case{.name = "StaleSampling", .oracle = {.stale_sampling = true}},
                    Case{.name = "ShortContext", .oracle = {.short_context = true}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::tests
