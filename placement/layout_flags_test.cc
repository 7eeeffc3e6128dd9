#include "placement/layout_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::placement {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LayoutFlagsTest, Sizes) {
  EXPECT_EQ(*ParseSize("auto", 8), 0);
  EXPECT_EQ(*ParseSize("8", 8), 8);
  for (const char* text : {"0", "9", "-1", "", "two", "1.5"}) {
    EXPECT_THAT(ParseSize(text, 8).status().ToString(), HasSubstr("a number from 1 to 8")) << text;
  }
}

TEST(LayoutFlagsTest, RanksOfAllStagesOrOfEach) {
  EXPECT_EQ(ParseRanks("auto")->num_ranks, 0);
  EXPECT_EQ(ParseRanks("4")->num_ranks, 4);
  EXPECT_THAT(ParseRanks("4")->stage_ranks, IsEmpty());
  EXPECT_THAT(ParseRanks("1,2,2")->stage_ranks, ElementsAre(1, 2, 2));
  EXPECT_THAT(ParseRanks("1,auto").status().ToString(), HasSubstr("a number for each stage"));
  EXPECT_THAT(ParseRanks("1,,2").status().ToString(), HasSubstr("\"\" is neither"));
  EXPECT_THAT(ParseRanks("1,x").status().ToString(), HasSubstr("\"x\" is neither"));
}

}  // namespace
}  // namespace tutti::placement
