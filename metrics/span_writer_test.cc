#include "metrics/span_writer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "metrics/limits.h"

namespace tutti::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Span OneSpan() {
  return {
      .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
      .span_id = "00f067aa0ba902b7",
      .parent_id = "00f067aa0ba902b8",
      .name = "chat \"m\"\n",
      .kind = Span::Kind::kServer,
      .begin_ns = 5,
      .end_ns = 7,
      .attributes = {{"n", int64_t{3}}, {"t", 0.5}, {"reasons", std::vector<std::string>{"stop"}}},
      .failed = true};
}

std::string MetricsOf(const SpanWriter& writer) {
  Exposition text;
  writer.WriteMetrics(&text);
  return text.Release();
}

// Listens at a free port and, if told to, answers one request.
class Collector {
 public:
  Collector() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    url_ = absl::StrCat("http://127.0.0.1:", ntohs(at.sin_port));
  }
  ~Collector() { close(fd_); }
  const std::string& url() const { return url_; }
  std::string AnswerOne(const std::string& answer) const {
    const int connection = accept(fd_, nullptr, nullptr);
    std::string all;
    char piece[4096];
    while (!all.ends_with("]}]}]}")) {
      const ssize_t n = recv(connection, piece, sizeof(piece), 0);
      if (n <= 0) break;
      all.append(piece, static_cast<size_t>(n));
    }
    send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    close(connection);
    return all;
  }

 private:
  int fd_;
  std::string url_;
};

TEST(SpansJson, IsOtlps) {
  const std::string json = SpansJson("tutti-x", {OneSpan()});
  EXPECT_THAT(json, StartsWith(R"({"resourceSpans":[{"resource":{"attributes":[{"key":)"
                               R"("service.name","value":{"stringValue":"tutti-x"}})"));
  EXPECT_THAT(
      json,
      HasSubstr(R"({"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7",)"
                R"("parentSpanId":"00f067aa0ba902b8","name":"chat \"m\"\u000a","kind":2,)"
                R"("startTimeUnixNano":"5","endTimeUnixNano":"7","attributes":[)"
                R"({"key":"n","value":{"intValue":"3"}},{"key":"t","value":{"doubleValue":0.5}},)"
                R"({"key":"reasons","value":{"arrayValue":{"values":[{"stringValue":"stop"}]}}}],)"
                R"("status":{"code":2}})"));
}

TEST(SpansJson, IsUtf8WhateverItsTextsAre) {
  const std::string bad = "\xef\xbf\xbd";
  for (const auto& [text, json] : std::vector<std::pair<std::string, std::string>>{
           {"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},
           {"m\xc3", "m" + bad},
           {"\xbc\xff"
            "a",
            bad + bad + "a"},
           {"\xc0\xaf", bad + bad},
           {"\xed\xa0\x80", bad + bad + bad},
           {"\xf4\x90\x80\x80", bad + bad + bad + bad}}) {
    Span span = OneSpan();
    span.name = text;
    EXPECT_THAT(SpansJson("tutti-x", {span}), HasSubstr("\"name\":\"" + json + "\","));
  }
}

TEST(WholeLetters, AreNotCut) {
  EXPECT_EQ(WholeLetters("mm\xc3\xbc", 4), "mm\xc3\xbc");
  EXPECT_EQ(WholeLetters("mm\xc3\xbc", 3), "mm");
  EXPECT_EQ(WholeLetters("mm\xc3\xbc", 2), "mm");
  EXPECT_EQ(WholeLetters("\xbc\xbc", 1), "");
}

TEST(SpanWriter, AppendsToAFile) {
  const std::string path = testing::TempDir() + "/spans.jsonl";
  std::remove(path.c_str());
  for (int i = 0; i < 2; ++i) {
    auto writer = SpanWriter::Start("tutti-x", {.file = path});
    ASSERT_TRUE(writer.ok()) << writer.status();
    (*writer)->Add({OneSpan(), OneSpan()});
  }
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string line = SpansJson("tutti-x", {OneSpan(), OneSpan()}) + "\n";
  EXPECT_EQ(text, line + line);
}

TEST(SpanWriter, SendsToACollector) {
  const Collector collector;
  auto writer = SpanWriter::Start("tutti-x", {.endpoint = collector.url() + "/"});
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Add({OneSpan()});
  const std::string request = collector.AnswerOne("HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_THAT(request, StartsWith("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_TRUE(request.ends_with("\r\n\r\n" + SpansJson("tutti-x", {OneSpan()})));
}

TEST(SpanWriter, CountsWhatItDrops) {
  const Collector collector;  // takes connections, and never answers
  auto writer = SpanWriter::Start("tutti-x", {.endpoint = collector.url()});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Span> many(kSpansPerBatch, OneSpan());
  for (size_t i = 0; i < 3 * kSpansWaitingMax / kSpansPerBatch; ++i) (*writer)->Add(many);
  // Far less than what one batch may take.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPostTime / 2);
  const std::string text = MetricsOf(**writer);
  EXPECT_THAT(text, HasSubstr("tutti_spans_dropped_total{reason=\"room\"} "));
  EXPECT_THAT(text, testing::Not(HasSubstr("tutti_spans_dropped_total{reason=\"room\"} 0")));
  EXPECT_THAT(text, HasSubstr("tutti_spans_written_total 0"));
}

TEST(SpanWriter, CountsWhatACollectorRefuses) {
  const Collector collector;
  auto writer = SpanWriter::Start("tutti-x", {.endpoint = collector.url()});
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Add({OneSpan()});
  collector.AnswerOne("HTTP/1.1 503 no\r\n\r\n");
  while (MetricsOf(**writer).find("{reason=\"failed\"} 1") == std::string::npos) {
    std::this_thread::yield();
  }
}

// Neither whoever adds nor the end of the process waits for a reader that does not read.
TEST(SpanWriter, APipeThatNobodyReadsHoldsUpNobody) {
  const std::string path = testing::TempDir() + "/spans.pipe";
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto none = SpanWriter::Start("tutti-x", {.file = path});
  ASSERT_FALSE(none.ok()) << "a pipe without a reader is named at the start";
  EXPECT_THAT(std::string(none.status().message()), HasSubstr(path));
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto writer = SpanWriter::Start("tutti-x", {.file = path});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const auto begin = std::chrono::steady_clock::now();
  // A pipe holds 64 KiB.
  (*writer)->Add(std::vector<Span>(kSpansPerBatch - 1, OneSpan()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPostTimeAtEnd / 2);
  writer->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10 * kPostTimeAtEnd);
  close(reader);
  std::remove(path.c_str());
}

TEST(SpanWriter, NamesTheFlagThatIsWrong) {
  EXPECT_EQ(*SpanWriter::Start("tutti-x", {}), nullptr);
  const auto file = SpanWriter::Start("tutti-x", {.file = "/nonexistent/spans"});
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), StartsWith("--traces /nonexistent/spans: "));
  for (const char* url : {"127.0.0.1:4318", "https://a", "http://", "http://a:b", "http://a b",
                          "http://a:1\r\nX: y"}) {
    const auto endpoint = SpanWriter::Start("tutti-x", {.endpoint = url});
    ASSERT_FALSE(endpoint.ok()) << url;
    EXPECT_THAT(std::string(endpoint.status().message()), StartsWith("--otlp-endpoint: "));
  }
}

TEST(HttpUrl, IsTakenApart) {
  const auto url = ParseHttpUrl("http://[::1]:4318/base/");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->host + "|" + url->port + "|" + url->path, "::1|4318|/base");
  EXPECT_EQ(ParseHttpUrl("http://collector")->port, "80");
}

}  // namespace
}  // namespace tutti::metrics
