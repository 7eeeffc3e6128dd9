#include "gateway/openai/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/json_text.h"
#include "gateway/openai/chunk_testing.h"
#include "gateway/service_error.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;

TEST(StreamAnswer, HasOpenAisOrderOfChunks) {
  GenerationRequest request = Request(/*chat=*/true);
  request.include_usage = true;
  StreamAnswer answer{AnswerShape(request), kHead};
  std::string stream = answer.OnMessage(0, First(Message(0, "a"), 3));
  stream += answer.OnMessage(0, Message(0, ""));  // a part of a character
  stream += answer.OnMessage(0, Message(0, "b", /*last=*/true));
  stream += answer.OnEnd();
  const std::vector<Json> events = Events(stream);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["choices"][0]["delta"],
            Json::parse(R"({"role": "assistant", "content": ""})"));
  EXPECT_TRUE(events[0]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "a");
  EXPECT_FALSE(events[1].contains("system_fingerprint"));
  EXPECT_EQ(events[2]["choices"][0]["delta"]["content"], "b");
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(events[2]["choices"][0]["stop_reason"].is_null());
  EXPECT_EQ(events[2]["system_fingerprint"], "fp_0123456789abcdef");
  EXPECT_EQ(events[3]["choices"], Json::array());
  EXPECT_EQ(events[3]["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(events[3]["usage"]["completion_tokens"], 3);
  EXPECT_EQ(events[3]["usage"]["total_tokens"], 6);
  EXPECT_FALSE(events[3]["usage"].contains("completion_tokens_details"));
  EXPECT_EQ(events[4], "[DONE]");
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(events[i].contains("usage"));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i]["id"], "x-1");
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["model"], "m");
  }
}

TEST(StreamAnswer, CountsGuessesWhereThereWereAny) {
  GenerationRequest request = Request(/*chat=*/true);
  request.include_usage = true;
  StreamAnswer answer{AnswerShape(request), kHead};
  std::string stream = answer.OnMessage(0, First(Message(0, "a"), 3));
  v1::GenerateResponse last = Message(0, "b", /*last=*/true);
  last.mutable_finish()->mutable_usage()->set_guessed_tokens(7);
  last.mutable_finish()->mutable_usage()->set_accepted_tokens(5);
  stream += answer.OnMessage(0, last);
  stream += answer.OnEnd();
  const std::vector<Json> events = Events(stream);
  EXPECT_EQ(events[events.size() - 2]["usage"]["completion_tokens_details"],
            Json::parse(R"({"accepted_prediction_tokens": 5, "rejected_prediction_tokens": 2})"));
}

TEST(StreamAnswer, CountsUsageInEveryChunkIfAsked) {
  GenerationRequest request = Request(/*chat=*/true);
  request.continuous_usage = true;
  StreamAnswer answer{AnswerShape(request), kHead};
  std::vector<int> counts;
  std::string stream = answer.OnMessage(0, First(Message(0, "a"), 3));
  stream += answer.OnMessage(0, Message(0, "b", true));
  for (const Json& event : Events(stream)) {
    counts.push_back(event["usage"]["completion_tokens"].get<int>());
    EXPECT_EQ(event["usage"]["prompt_tokens"], 3);
    EXPECT_EQ(event["usage"]["total_tokens"], 3 + counts.back());
  }
  EXPECT_THAT(counts, ElementsAre(0, 1, 2));
}

TEST(StreamAnswer, TellsIdsIfAsked) {
  for (const bool chat : {true, false}) {
    GenerationRequest request = Request(chat);
    request.token_ids = true;
    request.prompt_ids = {{8, 9}};
    StreamAnswer answer{AnswerShape(request), kHead};
    std::string stream = answer.OnMessage(0, First(Message(0, "a"), 2));
    stream += answer.OnMessage(0, Message(0, "", /*last=*/false));
    const std::vector<Json> events = Events(stream);
    ASSERT_EQ(events.size(), 3u);
    const Json& holder = chat ? events[0] : events[0]["choices"][0];
    EXPECT_EQ(holder["prompt_token_ids"], Json({8, 9}));
    for (const size_t i : {1, 2}) {
      EXPECT_EQ(events[i]["choices"][0]["token_ids"], Json::array({5}));
      EXPECT_EQ(events[i].dump().find("prompt_token_ids"), std::string::npos);
    }
  }
}

TEST(WholeAnswer, TellsIdsIfAsked) {
  for (const bool chat : {true, false}) {
    GenerationRequest request = Request(chat);
    request.token_ids = true;
    request.prompt_ids = {{8, 9}};
    WholeAnswer answer{AnswerShape(request), kHead};
    answer.OnMessage(0, First(Message(0, "a"), 2));
    answer.OnMessage(0, Message(0, "b", true));
    const Json body = Json::parse(answer.Body());
    EXPECT_EQ(body["choices"][0]["token_ids"], Json({5, 5}));
    EXPECT_EQ((chat ? body : body["choices"][0])["prompt_token_ids"], Json({8, 9}));
  }
}

TEST(StreamAnswer, NumbersChoicesOverAllPrompts) {
  StreamAnswer answer{AnswerShape(Request(/*chat=*/false, 2, 2)), kHead};
  const Json event = Events(answer.OnMessage(1, Message(1, "a"))).at(0);
  EXPECT_EQ(event["choices"][0]["index"], 3);
  EXPECT_EQ(event["choices"][0]["text"], "a");
  EXPECT_EQ(event["object"], "text_completion");
  EXPECT_EQ(answer.OnMessage(2, Message(0, "no such prompt")), "");
  EXPECT_EQ(answer.OnMessage(0, Message(2, "no such output")), "");
}

TEST(StreamAnswer, EndsWithItsError) {
  const auto events = Events(StreamAnswer::OnError(MakeError(503, "gone")));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["error"]["message"], "gone");
  EXPECT_EQ(events[1], "[DONE]");
}

TEST(WholeAnswer, IsWhatItsStreamWouldBe) {
  GenerationRequest request = Request(/*chat=*/false, 1, 2);
  request.echoes = {"", "prompt "};
  request.logprobs = true;
  WholeAnswer answer{AnswerShape(request), kHead};
  answer.OnMessage(1, First(Message(0, "a"), 3));
  answer.OnMessage(0, First(Message(0, "x", true), 4));
  v1::GenerateResponse last = Message(0, "b", true);
  last.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  last.mutable_finish()->set_stop("END");
  answer.OnMessage(1, last);
  const Json body = Json::parse(answer.Body());
  EXPECT_EQ(body["choices"][0]["text"], "x");
  EXPECT_EQ(body["choices"][1]["text"], "prompt ab");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][1]["stop_reason"], "END");
  EXPECT_EQ(body["choices"][1]["logprobs"]["tokens"], Json({"a", "b"}));
  EXPECT_EQ(body["choices"][1]["logprobs"]["text_offset"], Json({0, 1}));
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"], Json({"x"}));
  EXPECT_EQ(answer.Body().find(R"({"id":"x-1","object":"text_completion","created":7,"model":"m",)"
                               R"("choices":[{"index":0,"text":"x","logprobs":{"text_offset":[0])"),
            0u)
      << answer.Body();
  EXPECT_GT(answer.bytes(), 0u);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
}

TEST(EndTokens, HaveNoLogProbabilityAndAreTheReasonIfTheRequestNamedThem) {
  for (const int32_t id : {2, 7}) {
    const Json reason = id == 7 ? Json(7) : Json();
    WholeAnswer whole{AnswerShape(RequestWithEnds()), kHead};
    StreamAnswer stream{AnswerShape(RequestWithEnds()), kHead};
    std::string text;
    for (const auto& message : EndingWith(id)) {
      whole.OnMessage(0, message);
      text += stream.OnMessage(0, message);
    }
    const Json choice = Json::parse(whole.Body())["choices"][0];
    EXPECT_EQ(choice["logprobs"]["content"].size(), 1u);
    EXPECT_EQ(choice["stop_reason"], reason);
    EXPECT_EQ(Json::parse(whole.Body())["usage"]["completion_tokens"], 2);
    const std::vector<Json> events = Events(text);
    ASSERT_EQ(events.size(), 3u);  // the role, the text, the end
    EXPECT_EQ(events[1]["choices"][0]["logprobs"]["content"].size(), 1u);
    EXPECT_TRUE(events[2]["choices"][0]["logprobs"].is_null());
    EXPECT_EQ(events[2]["choices"][0]["stop_reason"], reason);
  }
}

// However messages came together on their way.
TEST(StreamAnswer, HasOneFormOfEnds) {
  const auto stream_of = [](const std::vector<v1::GenerateResponse>& messages) {
    GenerationRequest request = RequestWithEnds();
    request.token_ids = true;
    request.prompt_ids = {{1}};
    StreamAnswer stream{AnswerShape(request), kHead};
    std::string text;
    for (const auto& message : messages) text += stream.OnMessage(0, message);
    return text;
  };
  for (const int32_t id : {2, 7}) {
    const std::vector<v1::GenerateResponse> apart = EndingWith(id);
    v1::GenerateResponse last = apart[1], all = apart[0];
    *last.mutable_finish() = apart[2].finish();
    *all.add_tokens() = apart[1].tokens(0);
    *all.mutable_finish() = apart[2].finish();
    const std::string by_token = stream_of({apart[0], last});
    EXPECT_EQ(stream_of({all}), by_token);
    const std::vector<Json> events = Events(by_token);
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "a");
    EXPECT_TRUE(events[1]["choices"][0]["finish_reason"].is_null());
    EXPECT_EQ(events[2]["choices"][0]["delta"], Json::object());
    EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(events[2]["choices"][0]["token_ids"], Json({id}));
  }
  // A text that ends it: the same.
  v1::GenerateResponse text = First(Message(0, "a"), 1), end;
  end.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  end.mutable_finish()->set_stop("END");
  v1::GenerateResponse both = text;
  *both.mutable_finish() = end.finish();
  EXPECT_EQ(stream_of({both}), stream_of({text, end}));
  // Its length: with the last token.
  EXPECT_EQ(Events(stream_of({First(Message(0, "a", /*last=*/true), 1)})).size(), 2u);
}

// As vLLM's, whose clients look at these without asking whether they are there.
TEST(WholeAnswer, SaysNullOfWhatWasNotAskedFor) {
  for (const bool chat : {true, false}) {
    WholeAnswer whole{AnswerShape(Request(chat)), kHead};
    whole.OnMessage(0, First(Message(0, "a", true), 1));
    const Json body = Json::parse(whole.Body());
    const Json& holder = chat ? body : body["choices"][0];
    EXPECT_TRUE(holder.at("prompt_logprobs").is_null());
    EXPECT_TRUE(holder.at("prompt_token_ids").is_null());
    EXPECT_TRUE(body["choices"][0].at("token_ids").is_null());
    if (chat) {
      EXPECT_TRUE(body["choices"][0]["message"].at("reasoning").is_null());
    }
  }
}

TEST(EndTokens, ThatTheTextHasAreTokensAsOthers) {
  GenerationRequest request = RequestWithEnds();
  request.calls[0].mutable_sampling()->set_include_stop_str_in_output(true);
  WholeAnswer included{AnswerShape(request), kHead};
  for (const auto& message : EndingWith(7)) included.OnMessage(0, message);
  Json choice = Json::parse(included.Body())["choices"][0];
  EXPECT_EQ(choice["logprobs"]["content"].size(), 2u);
  EXPECT_EQ(choice["stop_reason"], 7);
  request = RequestWithEnds();
  request.calls[0].mutable_sampling()->set_ignore_eos(true);
  WholeAnswer ignored{AnswerShape(request), kHead};
  for (const auto& message : EndingWith(2)) ignored.OnMessage(0, message);
  choice = Json::parse(ignored.Body())["choices"][0];
  EXPECT_EQ(choice["logprobs"]["content"].size(), 2u);
  EXPECT_TRUE(choice["stop_reason"].is_null());
  // A model's own end is none of the request's reasons, even if it is named.
  request = RequestWithEnds();
  request.calls[0].mutable_sampling()->add_stop_token_ids(2);
  WholeAnswer named{AnswerShape(request), kHead};
  for (const auto& message : EndingWith(2)) named.OnMessage(0, message);
  EXPECT_TRUE(Json::parse(named.Body())["choices"][0]["stop_reason"].is_null());
}

}  // namespace
}  // namespace tutti::gateway
