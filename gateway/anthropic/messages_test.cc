#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gateway/anthropic/error_form.h"
#include "gateway/anthropic/messages_answer.h"
#include "gateway/anthropic/messages_request.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::variant<MessagesRequest, ApiError> ReadText(const std::string& text) {
  return ReadMessagesRequest(Json::parse(text), text);
}

MessagesRequest ReadGood(const std::string& text) {
  auto read = ReadText(text);
  const auto* error = std::get_if<ApiError>(&read);
  EXPECT_EQ(error, nullptr) << text << (error != nullptr ? error->message : "");
  return error != nullptr ? MessagesRequest{.calls = {{}}, .names = {}, .wishes = {}}
                          : std::get<MessagesRequest>(std::move(read));
}

// The fields of a request beside a short conversation; the param of its refusal, or "taken".
std::string Refused(const std::string& fields) {
  const auto read = ReadText(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}])" +
                             fields + "}");
  const auto* error = std::get_if<ApiError>(&read);
  return error == nullptr ? "taken" : error->param;
}

TEST(MessagesRequest, BecomesAConversation) {
  const MessagesRequest request = ReadGood(R"({
    "model": "m", "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "stream": true,
    "stop_sequences": ["END"], "metadata": {"user_id": "u"},
    "system": [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}},
               {"type": "text", "text": "B"}],
    "messages": [
      {"role": "user", "content": "What is the weather?"},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "get_weather",
         "input": {"city": "Paris", "at": 1}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1",
         "content": [{"type": "text", "text": "Rain"}], "is_error": false},
        {"type": "text", "text": "And"}, {"type": "text", "text": "now?"}]}]})");
  EXPECT_TRUE(request.stream);
  const v1::GenerateRequest& call = request.calls.at(0);
  EXPECT_EQ(call.model(), "m");
  EXPECT_EQ(call.sampling().max_tokens(), 7u);
  EXPECT_THAT(call.sampling().stop(), ElementsAre("END"));
  const auto& messages = call.chat().messages();
  ASSERT_EQ(messages.size(), 5);
  EXPECT_EQ(messages[0].role() + ": " + messages[0].content(), "system: A\nB");
  EXPECT_EQ(messages[1].role() + ": " + messages[1].content(), "user: What is the weather?");
  EXPECT_EQ(messages[2].reasoning_content(), "Hm.");
  EXPECT_EQ(messages[2].content(), "I look.");
  EXPECT_EQ(messages[2].tool_calls(0).arguments_json(), R"({"city": "Paris", "at": 1})");
  EXPECT_EQ(messages[3].role() + ": " + messages[3].content(), "tool: Rain");
  EXPECT_EQ(messages[3].tool_call_id() + messages[3].name(), "t1get_weather");
  EXPECT_EQ(messages[4].role() + ": " + messages[4].content(), "user: And\nnow?");
  EXPECT_FALSE(call.chat().continue_final_message());
  // The service's words about a message name the client's.
  const ApiError error = FromStatus(
      absl::InvalidArgumentError("chat.messages[4].content has 9 bytes"), request.names, 0);
  EXPECT_EQ(error.param, "messages[2].content");
}

TEST(MessagesRequest, GivesTemplatesToolsAndThinking) {
  const MessagesRequest request = ReadGood(R"({"max_tokens": 5, "messages": [
    {"role": "user", "content": "a"}, {"role": "assistant", "content": "It is"}],
    "tools": [{"name": "f", "description": "d", "input_schema":
      {"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}}}}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
    "thinking": {"type": "enabled", "budget_tokens": 1024}, "output_config": {"effort": "low"}})");
  EXPECT_TRUE(request.wishes.calls && request.wishes.one_call_only);
  EXPECT_TRUE(request.wishes.functions.contains("f"));
  const v1::ChatMessages& chat = request.calls[0].chat();
  EXPECT_EQ(chat.template_kwargs_json(),
            R"({"enable_thinking":true,"reasoning_effort":"low","tools":[{"type":"function",)"
            R"("function":{"name":"f","description":"d","parameters":{"type":"object",)"
            R"("properties":{"b":{"type":"integer"},"a":{"type":"string"}}}}}]})");
  // Its last message is the beginning of the answer.
  EXPECT_TRUE(chat.continue_final_message() && chat.omit_generation_prompt());
}

TEST(MessagesRequest, TakesWhatTemplatesAreGivenAsItIsWritten) {
  const MessagesRequest request = ReadGood(R"({"max_tokens": 5, "messages": [
    {"role": "user", "content": "a"}], "thinking": {"type": "enabled"},
    "chat_template_kwargs": {"z": 1.0, "a": [ ], "enable_thinking": false}})");
  EXPECT_EQ(request.calls[0].chat().template_kwargs_json(),
            R"({"enable_thinking":true,"z": 1.0, "a": [ ], "enable_thinking": false})");
}

// The parser leaves a mark out and ends at a byte 0: whoever reads the text as well must do so.
TEST(MessagesRequest, TextsAreReadAsTheParserReadsThem) {
  const MessagesRequest request = ReadGood(
      "\xEF\xBB\xBF"
      R"({"max_tokens": 5, "messages": [{"role": "user", "content": [)"
      R"({"type": "text", "text": "a"}]}], "chat_template_kwargs": {"z": 1}})");
  EXPECT_EQ(request.calls[0].chat().messages(0).content(), "a");
  EXPECT_EQ(request.calls[0].chat().template_kwargs_json(), R"({"z": 1})");
  EXPECT_TRUE(std::holds_alternative<ApiError>(ParseObject(std::string("{}\0{", 4))));
}

// A reader that keeps their order by looking at all before would take a minute.
TEST(MessagesRequest, TakesManyNamesInTheirStride) {
  std::string names;
  for (int i = 0; i < 120'000; ++i) absl::StrAppend(&names, i == 0 ? "" : ",", "\"n", i, "\":1");
  const MessagesRequest request = ReadGood(
      R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}, {"role": "assistant",)"
      R"( "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {)" +
      names + "}}]}]}");
  EXPECT_EQ(request.calls[0].chat().messages(1).tool_calls(0).arguments_json().size(),
            names.size() + 2);
}

// By the grammar of the model's form of calls.
TEST(MessagesRequest, HasToolsCalledWhereTheyAreChosen) {
  const std::string tools = R"("tools": [
      {"name": "f", "input_schema": {"type": "object", "properties": {"b": {"type": "integer"}}}},
      {"name": "g", "input_schema": {}}])";
  for (const auto& [choice, named, callable] : std::vector<std::tuple<const char*, bool, size_t>>{
           {R"({"type": "any"})", false, 2}, {R"({"type": "tool", "name": "g"})", true, 1}}) {
    MessagesRequest request = ReadGood(
        R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}], "tool_choice": )" +
        std::string(choice) + ", " + tools + "}");
    EXPECT_TRUE(request.wishes.forced);
    EXPECT_EQ(request.wishes.named, named);
    EXPECT_EQ(request.wishes.callable.size(), callable);
    const auto parse = ChooseParse({}, {.tools = ToolForm::kHermes}, &request.wishes,
                                   &request.names, &request.calls);
    ASSERT_TRUE(std::holds_alternative<std::shared_ptr<const ParseOptions>>(parse));
    EXPECT_THAT(request.calls[0].grammar().ebnf(), HasSubstr("g"));
  }
}

TEST(MessagesRequest, RefusesByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(, "service_tier": "auto", "cache_control": {}, "tool_choice": {"type": "none"})",
       "taken"},
      {R"(, "thinking": {"type": "disabled"}, "container": null)", "taken"},
      {R"(, "tools": [{"type": "web_search_20250305", "name": "w"}])", "tools[0].type"},
      {R"(, "tools": [{"name": "w"}])", "tools[0].input_schema"},
      {R"(, "tool_choice": {"type": "any"})", "tool_choice.type"},
      {R"(, "tool_choice": {"type": "some"})", "tool_choice.type"},
      {R"(, "tool_choice": {"type": "tool", "name": "g"},)"
       R"( "tools": [{"name": "f", "input_schema": {}}])",
       "tool_choice.name"},
      {R"(, "output_config": {"format": {"type": "json_schema"}})", "output_config.format"},
      {R"(, "mcp_servers": [1])", "mcp_servers"},
      {R"(, "n": 2)", "n"},
      {R"(, "stop_sequences": [1])", "stop_sequences"},
      {R"(, "system": [{"type": "image"}])", "system[0].type"},
      {R"(, "thinking": {"type": "much"})", "thinking.type"},
  };
  for (const auto& [fields, param] : cases) EXPECT_EQ(Refused(fields), param) << fields;
  // By its size, before it is read.
  EXPECT_EQ(Refused(R"(, "tools": [")" + std::string(kToolsBytesMax, 'a') + "\"]"), "tools");
  const std::pair<const char*, const char*> bodies[] = {
      {R"({"messages": [{"role": "user", "content": "a"}]})", "max_tokens"},
      {R"({"max_tokens": 5})", "messages"},
      {R"({"max_tokens": 5, "messages": [{"role": "tool", "content": "a"}]})", "messages[0].role"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image"}]}]})",
       "messages[0].content[0].type"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": 1}]})", "messages[0].content"},
  };
  for (const auto& [body, param] : bodies) {
    const auto read = ReadText(body);
    ASSERT_TRUE(std::holds_alternative<ApiError>(read)) << body;
    EXPECT_EQ(std::get<ApiError>(read).param, param);
  }
}

v1::GenerateResponse Piece(const std::string& text, int tokens = 1) {
  v1::GenerateResponse message;
  message.set_text(text);
  for (int i = 0; i < tokens; ++i) message.add_tokens();
  return message;
}

// (event, data) of a stream.
std::vector<std::pair<std::string, Json>> EventsOf(const std::string& stream) {
  std::vector<std::pair<std::string, Json>> events;
  for (const auto part : absl::StrSplit(stream, "\n\n", absl::SkipEmpty())) {
    const std::pair<std::string, std::string> lines = absl::StrSplit(part, '\n');
    events.emplace_back(lines.first.substr(7), Json::parse(lines.second.substr(6)));
    EXPECT_EQ(events.back().first, events.back().second["type"]);
  }
  return events;
}

const std::string kCalling =
    "<think>Hm.</think>\n\nI look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n"
    "</tool_call>";

std::string Played(MessagesAnswer* answer, const std::string& text, size_t size,
                   v1::FinishReason reason, const std::string& stop = "") {
  std::string stream;
  for (size_t at = 0; at < text.size(); at += size) {
    v1::GenerateResponse message = Piece(text.substr(at, size));
    if (at == 0) message.mutable_started()->set_prompt_tokens(9);
    stream += answer->OnMessage(0, message);
  }
  v1::GenerateResponse end = Piece("", 1);
  end.mutable_finish()->set_reason(reason);
  end.mutable_finish()->set_stop(stop);
  end.mutable_finish()->mutable_usage()->set_cached_prompt_tokens(4);
  stream += answer->OnMessage(0, end);
  return stream + answer->OnEnd();
}

std::shared_ptr<const ParseOptions> Parsing() {
  return std::make_shared<const ParseOptions>(
      ParseOptions{.form = {.tools = ToolForm::kHermes, .reasoning = ReasoningForm::kThink},
                   .functions = {{"f", {}}}});
}

TEST(MessagesAnswer, StreamsWhatTheWholeAnswerIs) {
  MessagesAnswer whole(/*stream=*/false, "msg_1", "m", Parsing());
  const Json body = Json::parse(Played(&whole, kCalling, 1000, v1::FINISH_REASON_STOP));
  EXPECT_EQ(body["content"], Json::parse(R"([
    {"type": "thinking", "thinking": "Hm.", "signature": ""},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "toolu_1_0", "name": "f", "input": {"a": 1}}])"));
  EXPECT_EQ(body["stop_reason"], "tool_use");
  for (const size_t size : {size_t{1}, size_t{5}, size_t{1000}}) {
    MessagesAnswer answer(/*stream=*/true, "msg_1", "m", Parsing());
    const auto events = EventsOf(Played(&answer, kCalling, size, v1::FINISH_REASON_STOP));
    EXPECT_EQ(events.front().first, "message_start");
    EXPECT_EQ(events.front().second["message"]["usage"]["input_tokens"], 9);
    EXPECT_EQ(events.back().first, "message_stop");
    Json blocks = Json::array();
    std::string arguments;
    size_t open = 0;
    for (const auto& [type, data] : events) {
      if (type == "content_block_start") {
        EXPECT_EQ(data["index"], blocks.size());
        blocks.push_back(data["content_block"]);
        ++open;
      }
      if (type == "content_block_stop") --open;
      if (type != "content_block_delta") continue;
      EXPECT_EQ(open, 1u);
      const Json& delta = data["delta"];
      Json& block = blocks[data["index"].get<size_t>()];
      if (delta["type"] == "input_json_delta") arguments += delta["partial_json"];
      for (const char* name : {"text", "thinking"}) {
        if (delta.contains(name)) {
          block[name] = block[name].get<std::string>() + delta[name].get<std::string>();
        }
      }
    }
    EXPECT_EQ(open, 0u);
    blocks.back()["input"] = Json::parse(arguments);
    EXPECT_EQ(blocks, body["content"]);
    const Json& end = events[events.size() - 2].second;
    EXPECT_EQ(end["delta"]["stop_reason"], "tool_use");
    EXPECT_EQ(end["usage"]["input_tokens"], 5);
    EXPECT_EQ(end["usage"]["cache_read_input_tokens"], 4);
  }
}

TEST(MessagesAnswer, SaysWhyItEnds) {
  const std::tuple<const char*, v1::FinishReason, const char*, const char*> cases[] = {
      {"a", v1::FINISH_REASON_STOP, "", "end_turn"},
      {"", v1::FINISH_REASON_STOP, "", "end_turn"},
      {"a", v1::FINISH_REASON_STOP, "END", "stop_sequence"},
      {"a", v1::FINISH_REASON_LENGTH, "", "max_tokens"},
      // A call that was cut is text where the answer is whole.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", v1::FINISH_REASON_LENGTH, "",
       "max_tokens"},
  };
  for (const auto& [text, reason, stop, said] : cases) {
    MessagesAnswer whole(/*stream=*/false, "msg_1", "m", Parsing());
    const Json body = Json::parse(Played(&whole, text, 4, reason, stop));
    EXPECT_EQ(body["stop_reason"], said);
    EXPECT_EQ(body["stop_sequence"], *stop == '\0' ? Json() : Json(stop));
    EXPECT_EQ(body["content"], Json::array({{{"type", "text"}, {"text", text}}}));
  }
}

TEST(MessagesAnswer, HasErrorsAndSilenceInItsForm) {
  MessagesAnswer answer(/*stream=*/true, "msg_1", "m", nullptr);
  EXPECT_EQ(answer.OnSilence()[0], ':');
  answer.OnMessage(0, Piece("a"));
  EXPECT_EQ(EventsOf(answer.OnSilence()).at(0).first, "ping");
  ApiError error = MakeError(429, "later");
  EXPECT_EQ(EventsOf(answer.OnError(error)).at(0).second["error"]["type"], "rate_limit_error");
  for (const auto& [status, type] :
       std::vector<std::pair<int, const char*>>{{400, "invalid_request_error"},
                                                {401, "authentication_error"},
                                                {403, "permission_error"},
                                                {404, "not_found_error"},
                                                {413, "request_too_large"},
                                                {500, "api_error"},
                                                {503, "overloaded_error"},
                                                {504, "timeout_error"}}) {
    EXPECT_THAT(AnthropicErrorBody(MakeError(status, "why")), HasSubstr(type));
  }
}

}  // namespace
}  // namespace tutti::gateway
