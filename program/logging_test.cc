#include "program/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class LoggingTest : public ::testing::Test {
 protected:
  ~LoggingTest() override { spdlog::drop_all(); }

  template <typename Log>
  std::string Written(std::string_view format, Log log) {
    spdlog::drop_all();
    ::testing::internal::CaptureStderr();
    SetUpLog("w\"1", "info", format);
    log();
    spdlog::default_logger()->flush();
    return ::testing::internal::GetCapturedStderr();
  }
};

const std::string kStrange("a b=\"c\"\n\x01\xff", 11);

void LogSome() {
  LogFields("request ended", {{"request_id", "x-1"},
                              {"empty", ""},
                              {"strange", kStrange},
                              {"tokens", int64_t{3}},
                              {"ms", 1.25}});
}

TEST_F(LoggingTest, TextHasTheTimeWithItsZone) {
  const std::string line = Written("text", [] { spdlog::warn("careful"); });
  EXPECT_THAT(line, MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}[+-][0-9:]{5} "
                                 "\\[w\"1\\] \\[.*warning.*\\] careful\n"));
}

TEST_F(LoggingTest, TextHasFieldsByName) {
  const std::string line = Written("text", LogSome);
  EXPECT_THAT(line,
              HasSubstr("request ended request_id=x-1 empty=\"\" strange=\"a b=\\\"c\\\"\\n"));
  EXPECT_THAT(line, HasSubstr(" tokens=3 ms=1.2"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << "no value begins a line";
}

TEST_F(LoggingTest, JsonIsAnObjectALine) {
  const std::string text = Written("json", [] {
    spdlog::warn("a \"quoted\" word\n{}", kStrange);
    LogSome();
  });
  std::istringstream lines(text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  nlohmann::json one = nlohmann::json::parse(line);
  EXPECT_EQ(one["level"], "warning");
  EXPECT_EQ(one["process"], "w\"1");
  EXPECT_THAT(one["message"].get<std::string>(), HasSubstr("a \"quoted\" word\na b="));
  EXPECT_THAT(one["time"].get<std::string>(), HasSubstr("T"));
  ASSERT_TRUE(std::getline(lines, line));
  one = nlohmann::json::parse(line);
  EXPECT_EQ(one["message"], "request ended");
  EXPECT_EQ(one["request_id"], "x-1");
  EXPECT_EQ(one["tokens"], 3);
  EXPECT_NEAR(one["ms"].get<double>(), 1.25, 0.06);
  EXPECT_THAT(one["strange"].get<std::string>(), HasSubstr("\"c\"\n"));
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(LoggingTest, BelowTheLevelNothingIsWritten) {
  ::testing::internal::CaptureStderr();
  spdlog::drop_all();
  SetUpLog("w1", "warn", "text");
  LogSome();
  spdlog::default_logger()->flush();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tutti
