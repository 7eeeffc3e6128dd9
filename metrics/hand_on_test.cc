#include "metrics/hand_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "metrics/http_call.h"
#include "metrics/limits.h"
#include "metrics/listener.h"

namespace tutti::metrics {
namespace {

using ::testing::HasSubstr;

constexpr char kOwn[] =
    "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n"
    "# HELP b B.\n# TYPE b gauge\nb{x=\"1\"} 2\n";

TEST(JoinExpositions, FamiliesStandOnceEach) {
  EXPECT_EQ(JoinExpositions(kOwn,
                            "# HELP b Of another.\n# TYPE b gauge\nb{x=\"1\"} 3\n"
                            "# HELP a_total A.\n# TYPE a_total counter\na_total 4\n"
                            "# HELP c C.\n# TYPE c gauge\nc{y=\"# HELP\"} 5\n",
                            "coordinator"),
            "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n"
            "a_total{process=\"coordinator\"} 4\n"
            "# HELP b B.\n# TYPE b gauge\nb{x=\"1\"} 2\nb{process=\"coordinator\",x=\"1\"} 3\n"
            "# HELP c C.\n# TYPE c gauge\nc{y=\"# HELP\"} 5\n");
}

TEST(JoinExpositions, NothingIsAddedToOurs) {
  EXPECT_EQ(JoinExpositions(kOwn, "", "coordinator"), kOwn);
  EXPECT_EQ(JoinExpositions("", "x 1\n", "coordinator"), "x 1\n");
}

TEST(GetText, ReadsWhatAListenerTells) {
  const std::string long_text = std::string(100000, 'a') + " 1\n";
  const auto listener = *Listener::Start("127.0.0.1:0", [&] { return long_text; });
  const HttpUrl url = *ParseHttpUrl("http://" + listener->address() + "/metrics");
  const auto said = GetText(url, kHandedOnBytesMax, kHandOnTime);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(*said, long_text);
  EXPECT_THAT(std::string(GetText(url, 1000, kHandOnTime).status().message()),
              HasSubstr("longer than 1000"));
  const HttpUrl other = *ParseHttpUrl("http://" + listener->address() + "/nothing");
  EXPECT_THAT(std::string(GetText(other, kHandedOnBytesMax, kHandOnTime).status().message()),
              HasSubstr("HTTP/1.1 404"));
}

}  // namespace
}  // namespace tutti::metrics
