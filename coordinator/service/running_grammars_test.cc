#include "coordinator/service/running_grammars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr Hash128 kOne{.low = 1}, kTwo{.low = 2}, kThree{.low = 3};

std::shared_ptr<RunningGrammars> Make() {
  return std::make_shared<RunningGrammars>(
      RunningGrammars::Limits{.tenant = 2, .tenant_bytes = 100, .all = 3, .all_bytes = 150});
}

TEST(RunningGrammarsTest, EqualGrammarsOfATenantCountOnce) {
  const auto running = Make();
  std::vector<std::shared_ptr<const void>> held;
  for (int i = 0; i < 10; ++i) held.push_back(*running->Add(kOne, "a", 40));
  held.push_back(*running->Add(kOne, "b", 40));
  const auto third = running->Add(kOne, "c", 1);
  EXPECT_TRUE(absl::IsResourceExhausted(third.status())) << third.status();
  held.resize(9);
  EXPECT_TRUE(running->Add(kOne, "c", 1).ok()) << "b has ended";
  held.clear();
  EXPECT_TRUE(running->Add(kOne, "d", 100).ok());
}

TEST(RunningGrammarsTest, BytesAreBoundedToo) {
  const auto running = Make();
  EXPECT_FALSE(running->Add(kOne, "a", 101).ok());
  const auto one = running->Add(kOne, "a", 60), two = running->Add(kTwo, "a", 60);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_FALSE(running->Add(kOne, "b", 41).ok()) << "of the tenant";
  EXPECT_FALSE(running->Add(kThree, "a", 31).ok()) << "of all";
  EXPECT_TRUE(running->Add(kThree, "a", 30).ok());
}

TEST(RunningGrammarsTest, AllTenantsTogetherHaveSoMany) {
  const auto running = Make();
  const auto one = running->Add(kOne, "a", 1), two = running->Add(kTwo, "a", 1),
             three = running->Add(kTwo, "b", 1);
  EXPECT_THAT(std::string(running->Add(kThree, "a", 1).status().message()),
              HasSubstr("3 of all are under way"));
}

TEST(RunningGrammarsTest, TellsOfThemselves) {
  const auto running = Make();
  const auto one = *running->Add(kOne, "a", 1), two = *running->Add(kOne, "a", 1);
  EXPECT_FALSE(running->Add(kOne, "b", 1000).ok());
  running->CountRefused();
  metrics::Exposition text;
  running->Write(&text);
  const std::string written = text.Release();
  EXPECT_THAT(written, HasSubstr("tutti_grammar_requests 2"));
  EXPECT_THAT(written, HasSubstr("tutti_grammars 1"));
  EXPECT_THAT(written, HasSubstr("tutti_grammars_refused_total{why=\"grammar\"} 1"));
  EXPECT_THAT(written, HasSubstr("tutti_grammars_refused_total{why=\"limit\"} 1"));
}

}  // namespace
}  // namespace tutti::coordinator
