#include "gateway/written_json.h"

#include <gtest/gtest.h>

namespace tutti::gateway {
namespace {

TEST(WrittenJson, KeepsOrderBlanksAndNumbers) {
  const std::string_view text =
      " {\"b\" : [1.0, \"x,]}\\\"\", {\"k\": 2}] ,\n\"a\\u0041\": 18446744073709551616,\"c\":{}} ";
  const auto members = MembersAsWritten(text);
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].name, "b");
  EXPECT_EQ(members[0].value, "[1.0, \"x,]}\\\"\", {\"k\": 2}]");
  EXPECT_EQ(members[1].name, "aA");
  EXPECT_EQ(members[1].value, "18446744073709551616");
  EXPECT_EQ(members[2].value, "{}");
  const auto items = ItemsAsWritten(members[0].value);
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0], "1.0");
  EXPECT_EQ(items[1], "\"x,]}\\\"\"");
  EXPECT_EQ(MemberAsWritten(items[2], "k"), "2");
}

TEST(WrittenJson, WhatIsNotThereIsEmpty) {
  EXPECT_TRUE(MembersAsWritten("{ }").empty());
  EXPECT_TRUE(ItemsAsWritten("[]").empty());
  EXPECT_TRUE(MembersAsWritten("").empty());
  EXPECT_EQ(MemberAsWritten("{\"a\": {\"b\": 1}}", "b"), "");
  EXPECT_EQ(MemberAsWritten("", "b"), "");
}

}  // namespace
}  // namespace tutti::gateway
