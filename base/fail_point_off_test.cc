// A file compiled as the release programs are.
#undef TUTTI_FAILPOINTS
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fail_point.h"

namespace tutti {
namespace {

static_assert(!TUTTI_FAIL_POINT("base_test.left_out"));
static_assert(!TUTTI_FAIL_POINT_AT("base_test.left_out", 17));

TEST(FailPointOffTest, NoPointIsLeft) {
  EXPECT_THAT(FailPointNames(), testing::Not(testing::Contains("base_test.left_out")));
}

}  // namespace
}  // namespace tutti
