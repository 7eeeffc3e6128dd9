#include "metrics/trace_context.h"

#include <gtest/gtest.h>

namespace tutti::metrics {
namespace {

constexpr char kGood[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, IsReadAndWritten) {
  const auto context = ParseTraceparent(kGood);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(context->span_id, "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(FormatTraceparent(*context), kGood);
  std::string unwanted = kGood;
  unwanted.back() = '2';
  EXPECT_FALSE(ParseTraceparent(unwanted)->sampled);
  // A header of a version to come, which may say more.
  const std::string later = "cc" + std::string(kGood + 2);
  EXPECT_TRUE(ParseTraceparent(later).has_value());
  EXPECT_TRUE(ParseTraceparent(later + "-what-ever").has_value());
}

TEST(TraceContext, IsNotThereWhereItIsWrong) {
  const std::string good = kGood;
  for (const std::string& text :
       std::vector<std::string>{
        std::string(), good.substr(1), good + "0", good + "-more", "ff" + good.substr(2),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-zz",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "cc" + good.substr(2) + "x",
        "cc" + good.substr(2) + "-" + std::string(10000, 'a'), std::string(55, '\0'),
        good.substr(0, 54) + "\""}) {
    EXPECT_FALSE(ParseTraceparent(text).has_value()) << text;
  }
}

TEST(TraceContext, DrawsIdsThatCanBeRead) {
  const TraceContext made{.trace_id = NewTraceId(), .span_id = NewSpanId()};
  EXPECT_TRUE(ParseTraceparent(FormatTraceparent(made)).has_value());
  EXPECT_NE(NewSpanId(), NewSpanId());
}

}  // namespace
}  // namespace tutti::metrics
