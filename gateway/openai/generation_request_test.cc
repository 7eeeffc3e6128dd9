#include "gateway/openai/generation_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json Parsed(const std::string& text) { return Json::parse(text); }

GenerationRequest Chat(const std::string& fields) {
  auto read =
      ReadChatRequest(Parsed(R"({"messages": [{"role": "user", "content": "Hi"}])" + fields + "}"));
  const auto* error = std::get_if<ApiError>(&read);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? GenerationRequest{.calls = {{}}} : std::get<GenerationRequest>(read);
}

GenerationRequest Completion(const std::string& fields) {
  auto read = ReadCompletionRequest(Parsed("{" + fields + "}"));
  const auto* error = std::get_if<ApiError>(&read);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? GenerationRequest{.calls = {{}}} : std::get<GenerationRequest>(read);
}

// The field that a chat with these fields is refused for.
std::string RefusedChat(const std::string& fields) {
  auto read =
      ReadChatRequest(Parsed(R"({"messages": [{"role": "user", "content": "Hi"}])" + fields + "}"));
  const auto* error = std::get_if<ApiError>(&read);
  if (error == nullptr) return "taken";
  EXPECT_EQ(error->status, 400);
  EXPECT_THAT(error->message, HasSubstr(error->param));
  return error->param;
}

std::string RefusedCompletion(const std::string& fields) {
  auto read = ReadCompletionRequest(Parsed("{" + fields + "}"));
  const auto* error = std::get_if<ApiError>(&read);
  return error == nullptr ? "taken" : error->param;
}

TEST(ChatRequest, TakesEveryFieldOfSampling) {
  const GenerationRequest request =
      Chat(R"(, "model": "m", "n": 2, "temperature": 0.5, "top_p": 0.9,
      "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": 0.2,
      "frequency_penalty": -0.3, "logit_bias": {"7": -100, "9": 2.5}, "seed": -2,
      "stop": ["a", "b"], "stop_token_ids": [3], "ignore_eos": true, "max_completion_tokens": 5,
      "include_stop_str_in_output": true, "skip_special_tokens": false, "logprobs": true,
      "top_logprobs": 3, "priority": 4, "stream": true,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true})");
  const v1::GenerateRequest& call = request.calls.at(0);
  EXPECT_EQ(call.model(), "m");
  EXPECT_EQ(call.n(), 2u);
  EXPECT_EQ(call.priority(), 4);
  const v1::SamplingParams& sampling = call.sampling();
  EXPECT_FLOAT_EQ(sampling.temperature(), 0.5F);
  EXPECT_FLOAT_EQ(sampling.top_p(), 0.9F);
  EXPECT_EQ(sampling.top_k(), 40);
  EXPECT_FLOAT_EQ(sampling.min_p(), 0.1F);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty(), 1.1F);
  EXPECT_FLOAT_EQ(sampling.presence_penalty(), 0.2F);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty(), -0.3F);
  EXPECT_EQ(sampling.logit_bias().at(7), -100);
  EXPECT_EQ(sampling.logit_bias().at(9), 2.5F);
  EXPECT_EQ(sampling.seed(), ~uint64_t{1});
  EXPECT_THAT(sampling.stop(), ElementsAre("a", "b"));
  EXPECT_THAT(sampling.stop_token_ids(), ElementsAre(3));
  EXPECT_TRUE(sampling.ignore_eos());
  EXPECT_TRUE(sampling.include_stop_str_in_output());
  EXPECT_TRUE(sampling.has_skip_special_tokens() && !sampling.skip_special_tokens());
  EXPECT_EQ(sampling.max_tokens(), 5u);
  EXPECT_TRUE(sampling.logprobs());
  EXPECT_EQ(sampling.top_logprobs(), 3u);
  EXPECT_TRUE(request.stream && request.include_usage && request.continuous_usage);
  EXPECT_EQ(request.names.max_tokens, "max_completion_tokens");
}

TEST(ChatRequest, TakesLimitsOnWhatIsDrawnAndOnThePrompt) {
  const GenerationRequest request = Chat(R"(, "min_tokens": 3, "bad_words": ["a", "b c"],
      "allowed_token_ids": [9, 7], "cache_salt": "s", "truncate_prompt_tokens": 8,
      "truncation_side": "left", "return_token_ids": true)");
  const v1::GenerateRequest& call = request.calls.at(0);
  EXPECT_EQ(call.sampling().min_tokens(), 3u);
  EXPECT_THAT(call.sampling().bad_words(), ElementsAre("a", "b c"));
  EXPECT_THAT(call.sampling().allowed_token_ids(), ElementsAre(9, 7));
  EXPECT_EQ(call.cache_salt(), "s");
  EXPECT_EQ(call.truncate_prompt_tokens(), 8u);
  EXPECT_TRUE(request.token_ids);
  EXPECT_EQ(Completion(R"("prompt": "a", "min_tokens": 2)").calls.at(0).sampling().min_tokens(),
            2u);
}

TEST(ChatRequest, ContinuesItsLastMessage) {
  const auto chat = [](const std::string& fields) { return Chat(fields).calls.at(0).chat(); };
  const std::string continues = R"(, "continue_final_message": true)";
  for (const std::string& fields : {continues, continues + R"(, "add_generation_prompt": false)"}) {
    EXPECT_TRUE(chat(fields).continue_final_message() && chat(fields).omit_generation_prompt());
  }
  EXPECT_EQ(RefusedChat(continues + R"(, "add_generation_prompt": true)"),
            "continue_final_message");
  const auto tokenize = ReadTokenizeRequest(
      Parsed(R"({"messages": [{"role": "user", "content": "a"}])" + continues + "}"));
  ASSERT_TRUE(std::holds_alternative<TokenizeJob>(tokenize));
  EXPECT_TRUE(std::get<TokenizeJob>(tokenize).request.chat().continue_final_message());
}

TEST(PromptIds, AreAskedForAndTakeThePromptsPlace) {
  GenerationRequest request = Completion(R"("prompt": ["a", [1, 2, 3]], "model": "m",
      "return_token_ids": true, "truncate_prompt_tokens": 2)");
  const auto asked = AskPromptIds(request.calls[0]);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->text(), "a");
  EXPECT_EQ(asked->model(), "m");
  EXPECT_FALSE(AskPromptIds(request.calls[1]).has_value());
  const v1::GenerateRequest chat = Chat(R"(, "continue_final_message": true)").calls[0];
  EXPECT_TRUE(AskPromptIds(chat)->chat().continue_final_message());
  SetPromptIds({7}, 0, &request);
  SetPromptIds({1, 2, 3}, 1, &request);
  EXPECT_THAT(request.calls[0].token_ids().ids(), ElementsAre(7));
  EXPECT_THAT(request.calls[1].token_ids().ids(), ElementsAre(2, 3));
  EXPECT_THAT(request.prompt_ids, ElementsAre(ElementsAre(7), ElementsAre(2, 3)));
}

TEST(ChatRequest, LeavesUnsetWhatIsNullOrNotThere) {
  const v1::GenerateRequest call =
      Chat(R"(, "temperature": null, "max_tokens": null, "stop": null, "tools": [])").calls.at(0);
  EXPECT_FALSE(call.sampling().has_temperature());
  EXPECT_FALSE(call.sampling().has_max_tokens());
  EXPECT_FALSE(call.sampling().has_seed());
  EXPECT_FALSE(call.chat().omit_generation_prompt());
}

TEST(ChatRequest, ReadsConversations) {
  auto read = ReadChatRequest(Parsed(R"({"messages": [
      {"role": "developer", "content": "Be brief."},
      {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"},
                                                  {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "reasoning": "hm", "tool_calls": [
          {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "42"}],
      "chat_template_kwargs": {"enable_thinking": false}, "add_generation_prompt": false})"));
  ASSERT_TRUE(std::holds_alternative<GenerationRequest>(read));
  const v1::ChatMessages chat = std::get<GenerationRequest>(read).calls.at(0).chat();
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(1).content(), "a\nb");
  EXPECT_EQ(chat.messages(1).name(), "ann");
  EXPECT_EQ(chat.messages(2).reasoning_content(), "hm");
  EXPECT_EQ(chat.messages(2).tool_calls(0).name(), "f");
  EXPECT_EQ(chat.messages(3).tool_call_id(), "c1");
  EXPECT_EQ(chat.template_kwargs_json(), R"({"enable_thinking":false})");
  EXPECT_TRUE(chat.omit_generation_prompt());
}

TEST(ChatRequest, RefusesByName) {
  EXPECT_EQ(RefusedChat(R"(, "tools": [{"type": "function"}])"), "tools[0]");
  EXPECT_EQ(RefusedChat(R"(, "response_format": {"type": "xml"})"), "response_format.type");
  EXPECT_EQ(RefusedChat(R"(, "response_format": {"type": "text"})"), "taken");
  EXPECT_EQ(RefusedChat(R"(, "min_tokens": -1)"), "min_tokens");
  EXPECT_EQ(RefusedChat(R"(, "bad_words": [1])"), "bad_words");
  EXPECT_EQ(RefusedChat(R"(, "allowed_token_ids": [])"), "allowed_token_ids");
  EXPECT_EQ(RefusedChat(R"(, "allowed_token_ids": [0.5])"), "allowed_token_ids");
  EXPECT_EQ(RefusedChat(R"(, "cache_salt": 1)"), "cache_salt");
  EXPECT_EQ(RefusedChat(R"(, "truncate_prompt_tokens": -1)"), "truncate_prompt_tokens");
  EXPECT_EQ(RefusedChat(R"(, "truncation_side": "right")"), "truncation_side");
  EXPECT_EQ(RefusedChat(R"(, "prompt_logprobs": 21)"), "prompt_logprobs");
  EXPECT_EQ(RefusedChat(R"(, "prompt_logprobs": 1, "stream": true)"), "prompt_logprobs");
  EXPECT_EQ(RefusedChat(R"(, "frobnicate": 1)"), "frobnicate");
  EXPECT_EQ(RefusedChat(R"(, "user": "me", "store": true, "tool_choice": "auto")"), "taken");
  EXPECT_EQ(RefusedChat(R"(, "temperature": "warm")"), "temperature");
  EXPECT_EQ(RefusedChat(R"(, "seed": 1.5)"), "seed");
  EXPECT_EQ(RefusedChat(R"(, "n": 0)"), "n");
  EXPECT_EQ(RefusedChat(R"(, "top_logprobs": 2)"), "top_logprobs");
  EXPECT_EQ(RefusedChat(R"(, "logit_bias": {"x": 1})"), "logit_bias");
  EXPECT_EQ(RefusedChat(R"(, "logit_bias": {"5": 1, "+5": 2})"), "logit_bias");
  EXPECT_EQ(RefusedChat(R"(, "stream_options": {"include_usage": true})"), "stream_options");
  EXPECT_EQ(RefusedChat(R"(, "stream": true, "stream_options": {"x": 1})"), "stream_options.x");
  EXPECT_EQ(RefusedChat(R"(, "stop": [1])"), "stop");
  EXPECT_EQ(RefusedChat(R"(, "best_of": 2)"), "best_of");
}

// As a field of its own it is one of chat_template_kwargs, which goes before it.
TEST(ChatRequest, SwitchesThinking) {
  const auto kwargs = [](const std::string& fields) {
    const std::string body = R"({"messages": [{"role": "user", "content": "a"}])" + fields + "}";
    const auto read = ReadChatRequest(Parsed(body), body);
    EXPECT_TRUE(std::holds_alternative<GenerationRequest>(read)) << body;
    return Json::parse(std::get<GenerationRequest>(read).calls[0].chat().template_kwargs_json());
  };
  EXPECT_EQ(kwargs(R"(, "enable_thinking": false)"), Json({{"enable_thinking", false}}));
  EXPECT_EQ(kwargs(R"(, "chat_template_kwargs": {"enable_thinking": true, "a": 1},)"
                   R"( "enable_thinking": false)"),
            Json({{"enable_thinking", true}, {"a", 1}}));
  EXPECT_EQ(RefusedChat(R"(, "enable_thinking": "no")"), "enable_thinking");
}

TEST(ChatRequest, NamesThePlaceInAConversation) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": 3})", "messages"},
      {R"({"messages": [3]})", "messages[0]"},
      {R"({"messages": [{"role": "user", "content": 3}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       "messages[0].content[0].type"},
      {R"({"messages": [{"role": "user", "colour": "x"}]})", "messages[0].colour"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": 1}]}]})",
       "messages[0].tool_calls[0]"},
  };
  for (const auto& [text, param] : cases) {
    const auto read = ReadChatRequest(Parsed(text));
    ASSERT_TRUE(std::holds_alternative<ApiError>(read)) << text;
    EXPECT_EQ(std::get<ApiError>(read).param, param);
  }
}

TEST(CompletionRequest, ReadsEveryKindOfPrompt) {
  EXPECT_EQ(Completion(R"("prompt": "a")").calls.at(0).text(), "a");
  EXPECT_THAT(Completion(R"("prompt": [1, 2])").calls.at(0).token_ids().ids(), ElementsAre(1, 2));
  const GenerationRequest texts = Completion(R"("prompt": ["a", "b"], "echo": true)");
  ASSERT_EQ(texts.calls.size(), 2u);
  EXPECT_EQ(texts.calls[1].text(), "b");
  EXPECT_THAT(texts.echoes, ElementsAre("a", "b"));
  EXPECT_EQ(Completion(R"("prompt": [[1], [2, 3]])").calls.at(1).token_ids().ids_size(), 2);
  EXPECT_EQ(Completion(R"("prompt": "a")").calls.at(0).sampling().max_tokens(), 16u);
  EXPECT_EQ(Completion(R"("prompt": "a", "logprobs": 0)").calls.at(0).sampling().logprobs(), true);
  EXPECT_FALSE(Completion(R"("prompt": "a", "logprobs": null)").logprobs);
}

TEST(CompletionRequest, AsksForThePromptsOwnLogprobs) {
  const GenerationRequest echoed =
      Completion(R"("prompt": [1, 2], "echo": true, "logprobs": 3, "max_tokens": 0)");
  EXPECT_EQ(echoed.prompt_top, 3u);
  EXPECT_TRUE(echoed.echoes_ids && echoed.no_output && !echoed.prompt_logprobs);
  EXPECT_EQ(echoed.calls.at(0).sampling().max_tokens(), 1u);
  const GenerationRequest told = Completion(R"("prompt": "a", "prompt_logprobs": 2)");
  EXPECT_TRUE(told.prompt_logprobs && !told.no_output);
  EXPECT_EQ(told.prompt_top, 2u);
  EXPECT_FALSE(Completion(R"("prompt": "a", "echo": true)").prompt_top.has_value());
  // Nothing is wanted then: the service says so.
  EXPECT_EQ(Completion(R"("prompt": "a", "max_tokens": 0)").calls.at(0).sampling().max_tokens(),
            0u);
}

// A prompt that the client has rendered: as transformers' tokenizers read it, unless it says so.
TEST(CompletionRequest, SaysHowItsTextIsRead) {
  const auto read = [](const std::string& fields) {
    const auto request = ReadCompletionRequest(Parsed(R"({"prompt": "<|im_end|>")" + fields + "}"));
    EXPECT_TRUE(std::holds_alternative<GenerationRequest>(request));
    return std::get<GenerationRequest>(request).calls[0];
  };
  EXPECT_FALSE(read(R"(, "add_special_tokens": true)").has_text_reading());
  EXPECT_TRUE(read(R"(, "add_special_tokens": false)").text_reading().omit_special_tokens());
  const v1::GenerateRequest split = read(R"(, "split_special_tokens": true)");
  EXPECT_TRUE(split.text_reading().split_special_tokens());
  EXPECT_FALSE(split.text_reading().omit_special_tokens());
  EXPECT_TRUE(AskPromptIds(split)->text_reading().split_special_tokens());
  EXPECT_EQ(RefusedCompletion(R"("prompt": "a", "split_special_tokens": 1)"),
            "split_special_tokens");
  EXPECT_FALSE(read(R"(, "seed": -1)").sampling().has_seed());
  const auto tokenize =
      ReadTokenizeRequest(Parsed(R"({"prompt": "a", "add_special_tokens": false})"));
  ASSERT_TRUE(std::holds_alternative<TokenizeJob>(tokenize));
  EXPECT_TRUE(std::get<TokenizeJob>(tokenize).request.text_reading().omit_special_tokens());
}

TEST(CompletionRequest, RefusesByName) {
  EXPECT_EQ(RefusedCompletion(R"("max_tokens": 3)"), "prompt");
  EXPECT_EQ(RefusedCompletion(R"("prompt": ["a", [1]])"), "taken");
  EXPECT_EQ(RefusedCompletion(R"("prompt": ["a", {}])"), "prompt[1]");
  EXPECT_EQ(RefusedCompletion(R"("prompt": [1, "a"])"), "prompt");
  EXPECT_EQ(RefusedCompletion(R"("prompt": [1e99])"), "prompt");
  EXPECT_EQ(RefusedCompletion(R"("prompt": "a", "suffix": "b")"), "suffix");
  EXPECT_EQ(RefusedCompletion(R"("prompt": "a", "suffix": "")"), "taken");
}

TEST(DetokenizeRequest, TakesIds) {
  const auto read = ReadDetokenizeRequest(Parsed(R"({"tokens": [1, 7]})"));
  ASSERT_TRUE(std::holds_alternative<v1::DetokenizeRequest>(read));
  EXPECT_EQ(std::get<v1::DetokenizeRequest>(read).ids(1), 7);
  EXPECT_FALSE(std::get<v1::DetokenizeRequest>(read).skip_special_tokens());
  for (const char* wrong : {"{}", R"({"tokens": "1"})", R"({"tokens": [1], "other": 2})"}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ReadDetokenizeRequest(Parsed(wrong)))) << wrong;
  }
}

TEST(TokenizeRequest, TakesTextsAndConversations) {
  const auto text = ReadTokenizeRequest(Parsed(R"({"prompt": "a", "return_token_strs": true})"));
  ASSERT_TRUE(std::holds_alternative<TokenizeJob>(text));
  EXPECT_EQ(std::get<TokenizeJob>(text).request.text(), "a");
  EXPECT_TRUE(std::get<TokenizeJob>(text).with_texts);
  const auto chat =
      ReadTokenizeRequest(Parsed(R"({"messages": [{"role": "user", "content": "a"}]})"));
  ASSERT_TRUE(std::holds_alternative<TokenizeJob>(chat));
  EXPECT_EQ(std::get<TokenizeJob>(chat).request.chat().messages_size(), 1);
  EXPECT_TRUE(std::holds_alternative<ApiError>(ReadTokenizeRequest(Parsed("{}"))));
}

// Usage in every chunk is asked for by both, as in vLLM.
TEST(Requests, CountInEveryChunkOnlyWhereTheyCountAtAll) {
  for (const bool usage : {true, false}) {
    auto read = ReadChatRequest(Parsed(absl::StrCat(
        R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true, "stream_options":
            {"continuous_usage_stats": true, "include_usage": )",
        usage ? "true" : "false", "}}")));
    ASSERT_TRUE(std::holds_alternative<GenerationRequest>(read));
    EXPECT_EQ(std::get<GenerationRequest>(read).continuous_usage, usage);
    EXPECT_EQ(std::get<GenerationRequest>(read).include_usage, usage);
  }
}

TEST(Requests, NameKeysThatAreNoTokens) {
  auto read = ReadChatRequest(Parsed(R"({"messages": [{"role": "user", "content": "Hi"}],
                                         "logit_bias": {"bad\"1": 1, "5": 1, " 5": 2}})"));
  ASSERT_TRUE(std::holds_alternative<ApiError>(read));
  const ApiError& error = std::get<ApiError>(read);
  EXPECT_EQ(error.param, "logit_bias");
  EXPECT_THAT(error.message, HasSubstr(R"(are no token ids: " 5", "bad\"1")"));
}

// Each would take gigabytes before the service could refuse it.
TEST(Requests, AreBoundedBeforeTheServiceSeesThem) {
  EXPECT_EQ(RefusedChat(R"(, "n": 2147483647)"), "n");
  std::string biases, prompts;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&biases, i > 0 ? "," : "", "\"", i, "\":1");
  EXPECT_EQ(RefusedChat(absl::StrCat(R"(, "logit_bias": {)", biases, "}")), "logit_bias");
  for (int i = 0; i < 256; ++i) absl::StrAppend(&prompts, i > 0 ? "," : "", "\"a\"");
  const std::string stop(100'000, 'x');
  EXPECT_EQ(
      RefusedCompletion(absl::StrCat(R"("prompt": [)", prompts, R"(], "stop": ")", stop, "\"")),
      "prompt");
}

TEST(ParseObject, SaysWhereItIsNoJson) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"{\"a\": 1,\n \"b\": [1, {\"c\": tru}]}", "line 2, column 20", "b[1].c"},
      {"{\"a\": 1", "not complete", "a"},
      {"", "not complete", ""},
      {"{'a': 1}", "line 1, column 2", ""},
      {R"({"messages": [{"content": "cut \ud83d"}]})", "half a character", "messages[0].content"},
      {R"({"prompt": ["a", "\ude00"]})", "half a character", "prompt[1]"},
      {"{\"prompt\": \"\xff\"}", "not UTF-8", "prompt"},
  };
  for (const auto& [text, words, param] : cases) {
    const auto parsed = ParseObject(text);
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << text;
    const auto& error = std::get<ApiError>(parsed);
    EXPECT_THAT(error.message, HasSubstr(words)) << text;
    EXPECT_EQ(error.param, param) << text;
  }
}

TEST(ParseObject, RefusesNamesThatStandTwice) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a": 1, "b": 2, "a": 3})", "a"},
      {R"({"c": [{"a": {}, "a": null}]})", "c[0].a"},
      {R"({"a": 1, "\u0061": 2})", "a"}};
  for (const auto& [text, param] : cases) {
    const auto parsed = ParseObject(text);
    const auto* error = std::get_if<ApiError>(&parsed);
    ASSERT_NE(error, nullptr) << text;
    EXPECT_EQ(error->param, param);
  }
  EXPECT_TRUE(std::holds_alternative<ParsedJson>(
      ParseObject(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}], "A": 1})")));
}

TEST(ParseObject, BoundsWhatTakesMoreMemoryThanText) {
  const auto body = [](int64_t parts, const std::string& part) {
    std::string text = R"({"x": [)";
    for (int64_t i = 0; i < parts; ++i) absl::StrAppend(&text, i > 0 ? "," : "", part);
    return text + "]}";
  };
  for (const char* part : {"{}", "[]", "\"\""}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ParseObject(body(kJsonPartsMax, part))));
  }
  EXPECT_TRUE(std::holds_alternative<ParsedJson>(ParseObject(body(kJsonPartsMax, "7"))));
}

TEST(ParseObject, RefusesWhatIsNoObjectOfBoundedDepth) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"a\": 1,}"),
        std::string("{\"a\": \"\xff\"}"), std::string("{\"a\": \"\xed\xa0\x80\"}"),
        "{\"a\": " + deep + "}", std::string("{} {}")}) {
    const auto parsed = ParseObject(text);
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << text;
    EXPECT_EQ(std::get<ApiError>(parsed).status, 400);
  }
  EXPECT_TRUE(std::holds_alternative<ParsedJson>(ParseObject(R"({"a": "[[[[\"[[["})")));
}

}  // namespace
}  // namespace tutti::gateway
