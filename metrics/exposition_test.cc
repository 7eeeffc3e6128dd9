#include "metrics/exposition.h"

#include <gtest/gtest.h>

#include <limits>

namespace tutti::metrics {
namespace {

TEST(Exposition, WritesFamiliesWithTheirSamples) {
  Exposition text;
  text.Begin("a_total", Kind::kCounter, "Of a.");
  const Labels pipeline = {{"pipeline", "0"}};
  text.Sample(pipeline, 3);
  text.Sample(pipeline.With({{"stage", "1"}}), 0.25);
  text.Single("b", Kind::kGauge, "Of b.", 1e6);
  EXPECT_EQ(text.Release(),
            "# HELP a_total Of a.\n"
            "# TYPE a_total counter\n"
            "a_total{pipeline=\"0\"} 3\n"
            "a_total{pipeline=\"0\",stage=\"1\"} 0.25\n"
            "# HELP b Of b.\n"
            "# TYPE b gauge\n"
            "b 1000000\n");
}

TEST(Exposition, EscapesWhatComesFromOthers) {
  Exposition text;
  text.Begin("a", Kind::kGauge, "one\\line\nonly \"here\"");
  text.Sample({{"name", "a\"b\\c\nd{}=,"}}, 0);
  EXPECT_EQ(text.Release(),
            "# HELP a one\\\\line\\nonly \"here\"\n"
            "# TYPE a gauge\n"
            "a{name=\"a\\\"b\\\\c\\nd{}=,\"} 0\n");
}

TEST(Exposition, WritesNumbersSoThatTheyReadAsTheSame) {
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(-3), "-3");
  EXPECT_EQ(NumberText(9e15), "9000000000000000");
  EXPECT_EQ(NumberText(1e300), "1e+300");
  EXPECT_EQ(NumberText(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(NumberText(-std::numeric_limits<double>::infinity()), "-Inf");
  EXPECT_EQ(NumberText(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(BoundText(1), "1.0");
  EXPECT_EQ(BoundText(0.005), "0.005");
  EXPECT_EQ(BoundText(2560), "2560.0");
}

}  // namespace
}  // namespace tutti::metrics
