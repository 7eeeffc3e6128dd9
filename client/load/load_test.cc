// The parts of the load generator that know nothing of a service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/load/answers.h"
#include "client/load/arrivals.h"
#include "client/load/chats.h"
#include "client/load/histogram.h"
#include "client/load/limits.h"
#include "client/load/questions.h"
#include "client/load/report.h"
#include "client/load/trace.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// ---- histogram

TEST(Histogram, QuantilesAreWithinHalfAPercent) {
  Histogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), Duration::zero());
  for (int i = 1; i <= 1000; ++i) histogram.Add(milliseconds(i));
  EXPECT_EQ(histogram.count(), 1000);
  EXPECT_NEAR(Milliseconds(histogram.mean()), 500.5, 1e-3);
  for (const double share : {0.001, 0.5, 0.9, 0.99}) {
    const double exact = share * 1000;
    EXPECT_GE(Milliseconds(histogram.Quantile(share)), exact * 0.99999);
    EXPECT_LE(Milliseconds(histogram.Quantile(share)), exact * 1.0051);
  }
  EXPECT_EQ(histogram.Quantile(1), milliseconds(1000));
}

TEST(Histogram, HoldsTheSmallestAndTheLargest) {
  Histogram histogram;
  histogram.Add(Duration(-5));
  EXPECT_EQ(histogram.Quantile(0.5), Duration::zero());
  histogram.Add(std::chrono::hours(1000), 3);
  EXPECT_EQ(histogram.Quantile(0.5), std::chrono::hours(4));
}

// ---- traces

absl::StatusOr<std::vector<TraceRequest>> Read(const std::string& text, int64_t max = 0) {
  std::istringstream in(text);
  return ReadTrace(in, "t.jsonl", max);
}

constexpr char kGoodLine[] =
    R"({"timestamp": 5, "input_length": 513, "output_length": 2, "hash_ids": [7, 8]})";

TEST(Trace, IsReadLineByLine) {
  const auto trace = Read(absl::StrCat(kGoodLine, "\n\n", kGoodLine, "\r\n", kGoodLine), 2);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ(trace->at(1).at, milliseconds(5));
  EXPECT_EQ(trace->at(1).input_tokens, 513);
  EXPECT_EQ(trace->at(1).output_tokens, 2);
  EXPECT_EQ(trace->at(1).blocks, (std::vector<int64_t>{7, 8}));
}

TEST(Trace, ErrorsNameTheLineAndTheField) {
  const auto refused = [](const std::string& line, const std::string& words) {
    const auto trace = Read(absl::StrCat(kGoodLine, "\n", line, "\n"));
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr("t.jsonl:2: ")) << line;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(words)) << line;
  };
  refused("{", "not a JSON object");
  refused("[1]", "not a JSON object");
  refused(R"({"timestamp": 6})", "input_length is missing");
  refused(R"({"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]})",
          "timestamp is not");
  refused(R"({"timestamp": 18446744073709551615, "input_length": 1})", "timestamp is not");
  refused(R"({"timestamp": 4, "input_length": 1, "output_length": 1, "hash_ids": [1]})", "before");
  refused(R"({"timestamp": 6, "input_length": 1.5, "output_length": 1, "hash_ids": [1]})",
          "input_length is not");
  refused(R"({"timestamp": 6, "input_length": 1, "output_length": 0, "hash_ids": [1]})",
          "output_length is not");
  refused(R"({"timestamp": 6, "input_length": 1, "output_length": 1, "hash_ids": []})",
          "needs 1 of 512");
  refused(R"({"timestamp": 6, "input_length": 1, "output_length": 1, "hash_ids": [-1]})",
          "hash_ids holds");
  refused(R"({"timestamp": 6, "input_length": 1, "output_length": 1, "hash_ids": 3})", "a list");
  refused(std::string(kTraceLineBytesMax + 1, ' ') + "{", "longer than");
  EXPECT_EQ(Read("\n").status().code(), absl::StatusCode::kInvalidArgument);
}

constexpr char kCsvHead[] = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";
constexpr char kCsvLine[] = "2023-12-31 23:59:59.9000000,513,44";

TEST(Trace, IsReadFromCsv) {
  const auto trace = Read(absl::StrCat(kCsvHead, kCsvLine,
                                       "\r\n\n2024-01-01 00:00:01,1,2\n"
                                       "2024-01-30 00:00:01.123456789,512,1"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->size(), 3u);
  EXPECT_EQ(trace->at(0).at, Duration::zero());
  EXPECT_EQ(trace->at(0).input_tokens, 513);
  EXPECT_EQ(trace->at(0).output_tokens, 44);
  EXPECT_EQ(trace->at(1).at, milliseconds(1100));
  EXPECT_EQ(trace->at(2).at, std::chrono::hours(24 * 29) + std::chrono::nanoseconds(1'223'456'789));
  // No two prompts have a block in common.
  EXPECT_EQ(trace->at(0).blocks, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(trace->at(1).blocks, (std::vector<int64_t>{2}));
  EXPECT_EQ(trace->at(2).blocks, (std::vector<int64_t>{3}));
}

TEST(Trace, ErrorsOfCsvNameTheLineAndTheColumn) {
  const auto refused = [](const std::string& line, const std::string& words) {
    const auto trace = Read(absl::StrCat(kCsvHead, kCsvLine, "\n", line, "\n"));
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr("t.jsonl:3: ")) << line;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(words)) << line;
  };
  const std::string later = "2024-01-01 00:00:00";
  refused("1,2", "2 columns");
  refused(absl::StrCat(later, ",1,1,1"), "4 columns");
  refused(absl::StrCat(later, ",0,1"), "ContextTokens is not");
  refused(absl::StrCat(later, ",1.5,1"), "ContextTokens is not");
  refused(absl::StrCat(later, ",1,"), "GeneratedTokens is not");
  refused(absl::StrCat(later, ",1,99999999999999999999"), "GeneratedTokens is not");
  for (const char* time :
       {"", "2024", "2024-13-01 00:00:00", "2024-02-30 00:00:00", "2024-01-01 24:00:00",
        "2024-01-01 00:00:00.", "2024-01-01 00:00:00.x", "2024-01-01 00:00:00Z",
        "9999-01-01 00:00:00", "2024-01-01 00:00:00.1234567890"}) {
    refused(absl::StrCat(time, ",1,1"), "TIMESTAMP is not a time");
  }
  refused("2023-12-31 23:59:59.8,1,1", "before");
  refused("2024-02-29 00:00:00,1,1", "more than a month");
  refused(kGoodLine, "columns");
  EXPECT_EQ(Read(kCsvHead).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Trace, TheRealOnesAreRead) {
  const char* data = std::getenv("TUTTI_TESTDATA");
  if (data == nullptr) GTEST_SKIP() << "TUTTI_TESTDATA is not set";
  const auto read = [&](const char* name) {
    const std::string path = absl::StrCat(data, "/traces/", name);
    std::ifstream file(path);
    const auto trace = ReadTrace(file, path, 0);
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.value_or(std::vector<TraceRequest>());
  };
  EXPECT_EQ(read("mooncake_synthetic_trace.jsonl").size(), 3993u);
  const std::vector<TraceRequest> azure = read("AzureLLMInferenceTrace_conv.csv");
  ASSERT_EQ(azure.size(), 19'366u);
  EXPECT_NEAR(Seconds(azure.back().at), 3501.7, 1);
}

// ---- arrivals

TEST(Arrivals, PoissonKeepsItsRateAndIsTheSameForTheSameSeed) {
  const ArrivalOptions options{.rate = 50, .chats = 5000, .seed = 3};
  Arrivals arrivals(options), again(options);
  Duration last{};
  double gaps_squared = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto at = arrivals.Next();
    ASSERT_TRUE(at);
    EXPECT_EQ(at, again.Next());
    EXPECT_GE(*at, last);
    gaps_squared += Seconds(*at - last) * Seconds(*at - last);
    last = *at;
    EXPECT_EQ(arrivals.Pop(), i);
    again.Pop();
  }
  EXPECT_TRUE(arrivals.exhausted());
  EXPECT_FALSE(arrivals.Next());
  EXPECT_NEAR(Seconds(last), 100, 6);                    // four standard deviations
  EXPECT_NEAR(gaps_squared / 5000, 2.0 / 2500, 2.0e-4);  // of an exponential: 2 / rate²
}

TEST(Arrivals, AClosedLoopWaitsForAPlace) {
  Arrivals arrivals({.concurrency = 2, .chats = 3});
  EXPECT_EQ(arrivals.Next(), Duration::zero());
  arrivals.Pop();
  arrivals.Pop();
  EXPECT_FALSE(arrivals.Next());
  EXPECT_FALSE(arrivals.exhausted());
  arrivals.OnEnded(milliseconds(7));
  EXPECT_EQ(arrivals.Next(), milliseconds(7));
  arrivals.Pop();
  EXPECT_TRUE(arrivals.exhausted());
}

TEST(Arrivals, EndWithTheDurationOrTheTraceOrWhenStopped) {
  Arrivals trace(
      {.times = {milliseconds(1), milliseconds(30)}, .chats = 2, .duration = milliseconds(20)});
  EXPECT_EQ(trace.Next(), milliseconds(1));
  trace.Pop();
  EXPECT_TRUE(trace.exhausted());
  Arrivals stopped({.rate = 1, .chats = 10});
  stopped.Stop();
  EXPECT_FALSE(stopped.Next());
}

// ---- chats

TEST(Questions, HaveTheirAnswers) {
  Random random(1);
  std::set<std::string> firsts;
  for (int i = 0; i < 200; ++i) {
    const Question question = MakeQuestion(&random);
    EXPECT_FALSE(question.answer.empty());
    int a = 0, b = 0;
    if (std::sscanf(question.text.c_str(), "What is %d + %d?", &a, &b) == 2) {
      EXPECT_EQ(question.answer, absl::StrCat(a + b));
    }
    if (std::sscanf(question.text.c_str(), "Subtract %d from %d.", &a, &b) == 2) {
      EXPECT_EQ(question.answer, absl::StrCat(b - a));
    }
    firsts.insert(question.text.substr(0, question.text.find(' ')));
  }
  EXPECT_GE(firsts.size(), 6u);  // kinds and phrasings
}

TEST(Questions, FilesAreChecked) {
  const auto good = ParseQuestions(
      R"([{"messages": [{"content": "?"}, {"content": "1+1="}], "answer": "2"}])", "q.json");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->at(0).text, "1+1=");
  for (const char* bad :
       {"", "{}", "[]", "[1]", R"([{"answer": "2"}])", R"([{"messages": [], "answer": "2"}])",
        R"([{"messages": [{"content": 3}], "answer": "2"}])"}) {
    EXPECT_THAT(std::string(ParseQuestions(bad, "q.json").status().message()), HasSubstr("q.json"))
        << bad;
  }
}

TEST(Chats, AreFunctionsOfOptionsAndNumber) {
  ChatOptions options{.turns = 2, .tenants = 3, .priority = 4, .system = "S", .history = 2};
  const auto chat = MakeChat(options, 5), same = MakeChat(options, 5), other = MakeChat(options, 6);
  const v1::GenerateRequest first = chat->Ask();
  EXPECT_EQ(first.SerializeAsString(), same->Ask().SerializeAsString());
  EXPECT_NE(first.chat().SerializeAsString(), other->Ask().chat().SerializeAsString());
  EXPECT_EQ(first.tenant(), "bench-2");
  EXPECT_EQ(first.priority(), 4);
  ASSERT_EQ(first.chat().messages_size(), 6);  // system, two questions with answers, the question
  chat->Hear("so", {});
  same->Hear("so", {});
  const v1::GenerateRequest second = chat->Ask();
  EXPECT_EQ(second.SerializeAsString(), same->Ask().SerializeAsString());
  ASSERT_EQ(second.chat().messages_size(), 8);
  EXPECT_EQ(second.chat().messages(6).content(), "so");
  EXPECT_NE(second.sampling().seed(), first.sampling().seed());
}

TEST(Chats, OfTokensShareTheirBeginningAndRepeatTheirAnswers) {
  const ChatOptions options{.turns = 2, .input_tokens = 20, .shared_tokens = 12, .vocabulary = 50};
  const auto chat = MakeChat(options, 0), other = MakeChat(options, 1);
  const v1::GenerateRequest first = chat->Ask(), another = other->Ask();
  const auto& ids = first.token_ids().ids();
  const auto& others = another.token_ids().ids();
  ASSERT_EQ(ids.size(), 20);
  EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + 12, others.begin()));
  EXPECT_FALSE(std::equal(ids.begin(), ids.end(), others.begin()));
  chat->Hear("", {1, 2});
  const v1::GenerateRequest second = chat->Ask();
  ASSERT_EQ(second.token_ids().ids_size(), 42);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), second.token_ids().ids().begin()));
  EXPECT_EQ(second.token_ids().ids(21), 2);
}

TEST(Chats, OfTracesShareWhatTheirBlocksShare) {
  const TraceRequest a{.input_tokens = 1024, .output_tokens = 64, .blocks = {7, 8}};
  const TraceRequest b{.input_tokens = 1000, .output_tokens = 1, .blocks = {7, 9}};
  const ChatOptions options{.vocabulary = 1000};
  const v1::GenerateRequest first = MakeTraceChat(options, a, 16, 0)->Ask();
  const v1::GenerateRequest second = MakeTraceChat(options, b, 16, 1)->Ask();
  EXPECT_EQ(first.token_ids().ids_size(), 32);
  EXPECT_EQ(first.sampling().max_tokens(), 2u);
  EXPECT_EQ(second.token_ids().ids_size(), 31);
  EXPECT_EQ(second.sampling().max_tokens(), 1u);
  const auto& ids = first.token_ids().ids();
  const auto& others = second.token_ids().ids();
  EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + 16, others.begin()));
  EXPECT_FALSE(std::equal(others.begin() + 16, others.end(), ids.begin() + 16));
}

// ---- report and answers

Turn GoodTurn(int64_t chat, int32_t turn, std::vector<int32_t> ids) {
  Turn result{.chat = chat, .turn = turn, .ids = std::move(ids)};
  result.first_token = milliseconds(100);
  result.total = milliseconds(200);
  result.token_gap = milliseconds(10);
  result.gaps = {{milliseconds(20), 2}};
  result.prompt_tokens = 50;
  return result;
}

TEST(LoadReport, CountsWhatItIsTold) {
  LoadReport report({.first_token = milliseconds(150), .token_gap = milliseconds(10)});
  Turn right = GoodTurn(0, 0, {1, 2, 3});
  right.text = right.right_answer.emplace("42");
  report.Add(right);
  Turn slow = GoodTurn(0, 1, {1, 2, 3});
  slow.first_token = milliseconds(151);
  slow.cached_tokens = 40;
  slow.repeated_tokens = 45;
  slow.right_answer = "43";
  report.Add(slow);
  for (int i = 0; i < 2; ++i) {
    Turn failed{.chat = 1, .status = absl::ResourceExhaustedError(absl::StrCat("full ", i))};
    failed.ids = {1};
    failed.total = milliseconds(5 * (i + 1));
    report.Add(failed);
  }
  report.Close(std::chrono::seconds(2), true, 3);
  EXPECT_EQ(report.right_share(), 0.5);
  const nlohmann::ordered_json json = report.ToJson();
  EXPECT_EQ(json["answered"], 2);
  EXPECT_EQ(json["good"], 1);
  EXPECT_EQ(json["goodput_per_second"], 0.5);
  EXPECT_EQ(json["output_tokens"], 8);
  EXPECT_EQ(json["token_gap_ms"]["count"], 4);
  EXPECT_NEAR(json["token_gap_ms"]["p50"].get<double>(), 10, 0.06);
  EXPECT_EQ(json["turns"][1]["cached_share"], 0.8);
  EXPECT_EQ(json["turns"][1]["repeated_tokens"], 45);
  EXPECT_EQ(json["failures"]["RESOURCE_EXHAUSTED"]["count"], 2);
  EXPECT_NEAR(json["failures"]["RESOURCE_EXHAUSTED"]["ms"]["p99"].get<double>(), 10, 0.06);
  const std::string text = report.ToText();
  for (const char* words :
       {"interrupted", "2 requests answered", "goodput: 0.50", "88.9 %", "answers right: 1 of 2",
        "the first: full 0", "RESOURCE_EXHAUSTED, ms"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
}

TEST(LoadReport, OfNothingIsNothing) {
  LoadReport report({});
  EXPECT_FALSE(report.right_share().has_value());
  EXPECT_EQ(report.ToJson()["answered"], 0);
  EXPECT_THAT(report.ToText(), HasSubstr("0 requests answered"));
}

class AnswersTest : public ::testing::Test {
 protected:
  std::string path_ = absl::StrCat(::testing::TempDir(), "/answers-", getpid(), ".jsonl");
  ~AnswersTest() override { std::remove(path_.c_str()); }
};

TEST_F(AnswersTest, AreComparedTokenByToken) {
  Answers recorded("demo");
  recorded.Add(GoodTurn(0, 0, {1, 2, 3}));
  recorded.Add(GoodTurn(0, 1, {1, 2}));
  recorded.Add(GoodTurn(1, 0, {4}));
  ASSERT_TRUE(recorded.Save(path_).ok());
  const auto loaded = Answers::Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(recorded.CompareWith(*loaded)->same());

  Answers ours("demo");
  ours.Add(GoodTurn(0, 0, {1, 2, 3}));
  ours.Add(GoodTurn(0, 1, {1, 9}));
  ours.Add(GoodTurn(2, 0, {5}));
  const auto comparison = ours.CompareWith(*loaded);
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->equal, 1);
  EXPECT_EQ(comparison->different, 1);
  EXPECT_EQ(comparison->missing, 1);
  EXPECT_EQ(comparison->unknown, 1);
  EXPECT_EQ(comparison->examples.at(0),
            "chat 0, turn 2, position 1: token 9 where token 2 was recorded");
  EXPECT_EQ(Answers("other").CompareWith(*loaded).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(AnswersTest, FilesAreChecked) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "not a recording"},
           {"{}\n", ":1: "},
           {"{\"asked\": \"x\"}\n{\"chat\": 1, \"turn\": -1, \"ids\": []}\n", ":2: "},
           {"{\"asked\": \"x\"}\n{\"chat\": 1, \"turn\": 1, \"ids\": [1.5]}\n", ":2: "},
           {"{\"asked\": \"x\"}\n\n", ":2: "}}) {
    std::ofstream(path_) << text;
    const auto loaded = Answers::Load(path_);
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(words)) << text;
  }
  EXPECT_EQ(Answers::Load("/nonexistent").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti::client
