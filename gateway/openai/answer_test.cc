#include "gateway/openai/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gateway/json_text.h"
#include "gateway/service_error.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;

const AnswerHead kHead{.id = "x-1", .created = 7, .model = "m"};

GenerationRequest Request(bool chat, uint32_t n = 1, size_t prompts = 1) {
  GenerationRequest request;
  request.names.chat = chat;
  request.calls.resize(prompts);
  for (auto& call : request.calls) call.set_n(n);
  request.echoes.resize(prompts);
  return request;
}

v1::GenerateResponse Message(uint32_t output, const std::string& text, bool last = false) {
  v1::GenerateResponse message;
  message.set_output(output);
  message.set_text(text);
  v1::OutputToken* token = message.add_tokens();
  token->set_id(5);
  token->set_token(text);
  token->set_logprob(-0.5F);
  if (last) message.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
  return message;
}

v1::GenerateResponse First(v1::GenerateResponse message, uint32_t prompt_tokens) {
  message.mutable_started()->set_prompt_tokens(prompt_tokens);
  message.mutable_started()->set_model_fingerprint("0123456789abcdefXYZ");
  return message;
}

// The JSON of each event; "[DONE]" as a text.
std::vector<Json> Events(const std::string& stream) {
  std::vector<Json> events;
  for (const auto part : absl::StrSplit(stream, "\n\n", absl::SkipEmpty())) {
    const std::string text(part);
    EXPECT_TRUE(absl::StartsWith(text, "data: ")) << text;
    const std::string data = text.substr(6);
    events.push_back(data == "[DONE]" ? Json("[DONE]") : Json::parse(data));
  }
  return events;
}

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
  EXPECT_EQ(events[4], "[DONE]");
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(events[i].contains("usage"));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i]["id"], "x-1");
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["model"], "m");
  }
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

// A conversation's request with one stop token, of a model that ends outputs with 2.
GenerationRequest RequestWithEnds() {
  GenerationRequest request = Request(/*chat=*/true);
  request.logprobs = true;
  request.eos_token_ids = {2};
  request.calls[0].mutable_sampling()->add_stop_token_ids(7);
  return request;
}

// A token that the text has, the one that ends the output, and the end.
std::vector<v1::GenerateResponse> EndingWith(int32_t id) {
  v1::GenerateResponse end = Message(0, "");
  end.mutable_tokens(0)->set_id(id);
  v1::GenerateResponse finish;
  finish.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  return {First(Message(0, "a"), 1), end, finish};
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

TEST(WholeAnswer, HasEmptyListsWhereNoTokenIsSeen) {
  for (const bool chat : {true, false}) {
    GenerationRequest request = RequestWithEnds();
    request.names.chat = chat;
    WholeAnswer whole{AnswerShape(request), kHead};
    v1::GenerateResponse end = EndingWith(2)[1];
    end.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
    whole.OnMessage(0, First(end, 1));
    const Json logprobs = Json::parse(whole.Body())["choices"][0]["logprobs"];
    for (const char* list : {"text_offset", "token_logprobs", "tokens", "top_logprobs"}) {
      if (!chat) {
        EXPECT_EQ(logprobs[list], Json::array());
      }
    }
    if (chat) {
      EXPECT_EQ(logprobs, Json({{"content", Json::array()}}));
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

TEST(Logprobs, KeepTheBytesOfPartsOfCharacters) {
  LogprobWriter writer(/*chat=*/true, /*tokens_as_ids=*/false);
  v1::GenerateResponse message;
  v1::OutputToken* token = message.add_tokens();
  token->set_token("\xe2\x82");
  token->set_logprob(-std::numeric_limits<float>::infinity());
  v1::TokenLogprob* top = token->add_top();
  top->set_token("x");
  top->set_logprob(-0.25F);
  const Json json = Json::parse(Dump(writer.ToJson(message)));
  const Json& content = json["content"][0];
  EXPECT_EQ(content["bytes"], Json({0xe2, 0x82}));
  EXPECT_EQ(content["token"], "\xef\xbf\xbd");
  EXPECT_EQ(content["logprob"], -9999.0);
  EXPECT_EQ(content["top_logprobs"][0]["logprob"], -0.25);
}

// The prompt's tokens stand before the output's, the first without a log-probability.
TEST(Answers, TellThePromptsOwnLogprobs) {
  GenerationRequest request = Request(/*chat=*/false);
  request.logprobs = request.echoes_ids = true;
  request.echoes = {"pq"};
  request.prompt_scores.resize(1);
  for (const char* text : {"p", "q"}) {
    v1::OutputToken& token = request.prompt_scores[0].emplace_back();
    token.set_token(text);
    token.set_id(*text);
    token.set_logprob(-0.25F);
  }
  WholeAnswer whole{AnswerShape(request), kHead};
  whole.OnMessage(0, First(Message(0, "a", true), 2));
  const Json choice = Json::parse(whole.Body())["choices"][0];
  EXPECT_EQ(choice["text"], "pqa");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"p", "q", "a"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json({nullptr, -0.25, -0.5}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1, 2}));
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1]["q"], -0.25);
  StreamAnswer stream{AnswerShape(request), kHead};
  const auto events = Events(stream.OnMessage(0, First(Message(0, "a", true), 2)));
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["tokens"], Json({"p", "q"}));
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["text_offset"], Json({2}));
  // Without an output.
  request.no_output = request.prompt_logprobs = true;
  WholeAnswer alone{AnswerShape(request), kHead};
  alone.OnMessage(0, First(Message(0, "a", true), 2));
  const Json body = Json::parse(alone.Body());
  EXPECT_EQ(body["choices"][0]["text"], "pq");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"], Json({"p", "q"}));
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
  EXPECT_EQ(body["choices"][0]["prompt_logprobs"],
            Json::parse(R"([null, {"113": {"logprob": -0.25, "rank": null,
                                           "decoded_token": "q"}}])"));
}

}  // namespace
}  // namespace tutti::gateway
