#include "door/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "door/limits.h"
#include "door/stream_trace.h"
#include "metrics/span_writer.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace tutti::door {
namespace {

using ::testing::HasSubstr;

class RequestLogTest : public ::testing::Test {
 protected:
  RequestLogTest() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  ~RequestLogTest() override { spdlog::set_default_logger(before_); }

  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream log_;
  RefusalLines refusals_;
};

v1::GenerateResponse TokensMessage(int tokens) {
  v1::GenerateResponse message;
  for (int i = 0; i < tokens; ++i) message.add_tokens()->set_id(i);
  return message;
}

TEST(StreamTraceTest, ANameThatIsTooLongIsCutBehindALetter) {
  const std::string path = testing::TempDir() + "/stream_trace.jsonl";
  std::remove(path.c_str());
  auto writer = metrics::SpanWriter::Start("c", {.file = path});
  ASSERT_TRUE(writer.ok()) << writer.status();
  StreamTrace trace(writer->get(), "");
  const std::string begin(kRequestIdBytesMax - 1, 'm');
  trace.Identify(begin + "\xc3\xbc, too long", RequestId());
  trace.End(absl::InvalidArgumentError("request_id is longer"));
  writer->reset();
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("{\"stringValue\":\"" + begin + "\"}"));
}

TEST_F(RequestLogTest, TellsWhatARequestWas) {
  RequestRecord record;
  record.Identify("mine", RequestId(17), {.low = 0xabc, .high = 1});
  record.Count(TokensMessage(2));
  v1::GenerateResponse last = TokensMessage(1);
  last.mutable_finish()->mutable_usage()->set_prompt_tokens(12);
  last.mutable_finish()->mutable_usage()->set_cached_prompt_tokens(8);
  last.mutable_finish()->mutable_timing()->set_total_ms(40);
  last.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
  record.Count(last);
  record.LogEnd(absl::OkStatus(), &refusals_);
  EXPECT_THAT(log_.str(), HasSubstr("request ended request_id=mine request=17 "
                                    "tenant=0000000000000abc prompt_tokens=12 cached_tokens=8 "
                                    "tokens=3 outputs=1 "));
  EXPECT_THAT(log_.str(), HasSubstr("total_ms=40.0 end=length"));
}

TEST_F(RequestLogTest, TellsWhyItFailed) {
  RequestRecord record;
  record.Identify("", RequestId(3), {});
  record.LogEnd(absl::InvalidArgumentError("top_p is 3"), &refusals_);
  EXPECT_THAT(log_.str(), HasSubstr("request_id=\"\" request=3 tenant=\"\""));
  EXPECT_THAT(log_.str(), HasSubstr("end=INVALID_ARGUMENT why=\"top_p is 3\""));
}

TEST_F(RequestLogTest, ACallThatNeverSaidWhatItWantsLeavesNoLine) {
  RequestRecord().LogEnd(absl::CancelledError("the client left"), &refusals_);
  EXPECT_EQ(log_.str(), "");
}

TEST(RefusalLines, AreBoundedAndCounted) {
  RefusalLines lines;
  Instant now{};
  for (int64_t i = 0; i < kRefusalLinesPerSecond; ++i) EXPECT_TRUE(lines.Ask(now).granted);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(lines.Ask(now).granted);
  const RefusalLines::Leave leave = lines.Ask(now + std::chrono::seconds(1));
  EXPECT_TRUE(leave.granted);
  EXPECT_EQ(leave.left_out, 5);
  EXPECT_EQ(lines.Ask(now + std::chrono::seconds(1)).left_out, 0);
}

}  // namespace
}  // namespace tutti::door
