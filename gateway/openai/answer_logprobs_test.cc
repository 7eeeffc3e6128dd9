#include <gtest/gtest.h>

#include <limits>

#include "gateway/json_text.h"
#include "gateway/openai/answer.h"
#include "gateway/openai/chunk_testing.h"

namespace tutti::gateway {
namespace {

TEST(WholeAnswer, HasEmptyListsWhereNoTokenIsSeen) {
  for (const bool chat : {true, false}) {
    GenerationRequest request = RequestWithEnds();
    request.names.chat = chat;
    WholeAnswer whole{AnswerShape(request), kHead};
    v1::GenerateResponse end;
    if (chat) end = EndingWith(2)[1];
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

// lm-eval and others take the last of a completion's for the output's one token, whatever it is.
TEST(Answers, TellTheLogprobOfACompletionsEnd) {
  GenerationRequest request = RequestWithEnds();
  request.names.chat = false;
  WholeAnswer whole{AnswerShape(request), kHead};
  StreamAnswer stream{AnswerShape(request), kHead};
  v1::GenerateResponse all = First(Message(0, "a"), 1);
  *all.add_tokens() = EndingWith(2)[1].tokens(0);
  all.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  whole.OnMessage(0, all);
  EXPECT_EQ(Json::parse(whole.Body())["choices"][0]["logprobs"]["token_logprobs"],
            Json({-0.5, -0.5}));
  const std::vector<Json> events = Events(stream.OnMessage(0, all));
  ASSERT_EQ(events.size(), 2u);
  for (const Json& event : events) {
    EXPECT_EQ(event["choices"][0]["logprobs"]["token_logprobs"], Json::array({-0.5}));
  }
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
  // Likelier ones stand behind the prompt's own.
  request.prompt_scores[0][1].add_top()->set_token("a");
  request.prompt_scores[0][1].mutable_top(0)->set_id('a');
  request.prompt_scores[0][1].mutable_top(0)->set_logprob(-0.125F);
  WholeAnswer whole{AnswerShape(request), kHead};
  whole.OnMessage(0, First(Message(0, "a", true), 2));
  const Json choice = Json::parse(whole.Body())["choices"][0];
  EXPECT_EQ(choice["text"], "pqa");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"p", "q", "a"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json({nullptr, -0.25, -0.5}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1, 2}));
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1]["q"], -0.25);
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1].size(), 2u);
  EXPECT_LT(whole.Body().find(R"({"q":-0.25,"a":-0.125})"), whole.Body().size());
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
            Json::parse(R"([null, {"113": {"logprob": -0.25, "rank": null, "decoded_token": "q"},
                                   "97": {"logprob": -0.125, "rank": 1, "decoded_token": "a"}}])"));
}

}  // namespace
}  // namespace tutti::gateway
