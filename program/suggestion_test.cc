#include "program/suggestion.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Suggestion, IsTheNearestThatIsNear) {
  const std::vector<std::string> names = {"--temperature", "--top-k", "--top-p", "--seed"};
  EXPECT_EQ(DidYouMean("--temprature", names), "; did you mean --temperature?");
  EXPECT_EQ(DidYouMean("--temperatuer", names), "; did you mean --temperature?");
  EXPECT_EQ(DidYouMean("--sed", names), "; did you mean --seed?");
  EXPECT_EQ(DidYouMean("--topp", names), "; did you mean --top-p?");
  EXPECT_EQ(DidYouMean("--gpu", names), "");
  EXPECT_EQ(DidYouMean("", names), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
  EXPECT_EQ(DidYouMean(std::string(100000, 'a'), {std::string(100000, 'a')}), "");
}

}  // namespace
}  // namespace tutti
