#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gateway/openai/generation_request.h"
#include "gateway/openai/responses_answer.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;

GenerationRequest ReadBody(const std::string& body) {
  auto read = ReadResponsesRequest(Json::parse(body));
  const auto* error = std::get_if<ApiError>(&read);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  return error != nullptr ? GenerationRequest{.calls = {{}}} : std::get<GenerationRequest>(read);
}

std::string RefusedField(const std::string& fields) {
  auto read = ReadResponsesRequest(Json::parse(R"({"input": "Hi")" + fields + "}"));
  const auto* error = std::get_if<ApiError>(&read);
  return error == nullptr ? "taken" : error->param;
}

v1::GenerateResponse Message(const std::string& text) {
  v1::GenerateResponse message;
  message.set_text(text);
  v1::OutputToken* token = message.add_tokens();
  token->set_token(text);
  token->set_logprob(-0.5F);
  return message;
}

v1::GenerateResponse Last(const std::string& text, v1::FinishReason reason) {
  v1::GenerateResponse message = Message(text);
  message.mutable_finish()->set_reason(reason);
  message.mutable_finish()->mutable_usage()->set_cached_prompt_tokens(2);
  return message;
}

const AnswerHead kResponseHead{.id = "resp_7", .created = 5, .model = "m"};

std::vector<Json> NamedEvents(const std::string& stream) {
  std::vector<Json> events;
  for (const auto part : absl::StrSplit(stream, "\n\n", absl::SkipEmpty())) {
    const std::vector<std::string> lines = absl::StrSplit(part, '\n');
    EXPECT_EQ(lines.size(), 2u);
    events.push_back(Json::parse(lines.at(1).substr(6)));
    EXPECT_EQ(lines[0], "event: " + events.back()["type"].get<std::string>());
  }
  return events;
}

TEST(ResponsesRequest, TakesTextsAndMessages) {
  const GenerationRequest text =
      ReadBody(R"({"model": "m", "input": "Hi", "instructions": "Be brief",
      "max_output_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stream": true, "store": false,
      "metadata": {"a": "b"}, "user": "me", "truncation": "auto",
      "text": {"format": {"type": "text"}}, "tools": [], "tool_choice": "auto",
      "previous_response_id": null, "reasoning": {"effort": "low"},
      "include": ["message.output_text.logprobs"], "top_logprobs": 2})");
  const v1::GenerateRequest& call = text.calls.at(0);
  ASSERT_EQ(call.chat().messages_size(), 2);
  EXPECT_EQ(call.chat().messages(0).role(), "system");
  EXPECT_EQ(call.chat().messages(1).content(), "Hi");
  EXPECT_EQ(call.chat().template_kwargs_json(), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(call.sampling().max_tokens(), 7u);
  EXPECT_TRUE(call.sampling().logprobs());
  EXPECT_EQ(call.sampling().top_logprobs(), 2u);
  EXPECT_TRUE(text.stream);
  EXPECT_EQ((*text.response)["metadata"], Json({{"a", "b"}}));
  EXPECT_EQ((*text.response)["store"], false);

  const GenerationRequest list =
      ReadBody(R"({"input": [{"role": "developer", "content": "Be brief"},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"},
                                                      {"type": "input_text", "text": "b"}]},
      {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
       "content": [{"type": "output_text", "text": "c", "annotations": []}]},
      {"role": "user", "content": "d"}]})");
  std::vector<std::string> roles, contents;
  for (const auto& message : list.calls.at(0).chat().messages()) {
    roles.push_back(message.role());
    contents.push_back(message.content());
  }
  EXPECT_THAT(roles, ElementsAre("system", "user", "assistant", "user"));
  EXPECT_THAT(contents, ElementsAre("Be brief", "a\nb", "c", "d"));
}

TEST(ResponsesRequest, RefusesByNameWhatIsNotServed) {
  EXPECT_EQ(RefusedField(R"(, "previous_response_id": "resp_1")"), "previous_response_id");
  EXPECT_EQ(RefusedField(R"(, "tools": [{"type": "web_search"}])"), "tools[0]");
  EXPECT_EQ(RefusedField(R"(, "tools": [{"type": "function"}])"), "tools[0].name");
  EXPECT_EQ(RefusedField(R"(, "tools": [{"type": "function", "name": "f", "x": 1}])"),
            "tools[0].x");
  EXPECT_EQ(RefusedField(R"(, "tool_choice": {"type": "file_search"})"), "tool_choice.type");
  EXPECT_EQ(RefusedField(R"(, "conversation": "c")"), "conversation");
  EXPECT_EQ(RefusedField(R"(, "background": true)"), "background");
  EXPECT_EQ(RefusedField(R"(, "text": {"format": {"type": "xml"}})"), "text.format.type");
  EXPECT_EQ(RefusedField(R"(, "text": {"format": {"type": "json_schema", "name": "n"}})"),
            "text.format.schema");
  EXPECT_EQ(RefusedField(R"(, "text": {"format": {"type": "json_object"}},
                              "structured_outputs": {"regex": "a"})"),
            "text.format");
  EXPECT_EQ(RefusedField(R"(, "include": ["everything"])"), "include");
  EXPECT_EQ(RefusedField(R"(, "n": 2)"), "n");
  EXPECT_EQ(RefusedField(R"(, "messages": [])"), "messages");
  EXPECT_EQ(RefusedField(R"(, "input": [{"role": "user", "content": [{"type": "input_image"}]}])"),
            "input[0].content[0].type");
  EXPECT_EQ(RefusedField(R"(, "input": [{"type": "function_call", "name": "f"}])"),
            "input[0].call_id");
  EXPECT_EQ(RefusedField(R"(, "input": [{"type": "function_call_output", "call_id": "c"}])"),
            "input[0].output");
  EXPECT_EQ(RefusedField(R"(, "input": [{"type": "item_reference", "id": "x"}])"), "input[0].type");
  EXPECT_EQ(RefusedField(R"(, "input": [])"), "input");
}

TEST(ResponsesAnswer, HasOpenAisOrderOfEvents) {
  const GenerationRequest request = ReadBody(R"({"input": "Hi", "stream": true})");
  ResponsesAnswer answer(true, AnswerShape(request), kResponseHead, request.response);
  v1::GenerateResponse first = Message("a");
  first.mutable_started()->set_prompt_tokens(3);
  std::string stream = answer.OnMessage(0, first);
  stream += answer.OnMessage(0, Message(""));  // a part of a character
  stream += answer.OnMessage(0, Last("b", v1::FINISH_REASON_STOP));
  stream += answer.OnEnd();
  const std::vector<Json> events = NamedEvents(stream);
  std::vector<std::string> types;
  for (size_t i = 0; i < events.size(); ++i) {
    types.push_back(events[i]["type"]);
    EXPECT_EQ(events[i]["sequence_number"], i);
  }
  EXPECT_THAT(types, ElementsAre("response.created", "response.in_progress",
                                 "response.output_item.added", "response.content_part.added",
                                 "response.output_text.delta", "response.output_text.delta",
                                 "response.output_text.done", "response.content_part.done",
                                 "response.output_item.done", "response.completed"));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], Json::array());
  EXPECT_EQ(events[5]["delta"], "b");
  EXPECT_EQ(events[6]["text"], "ab");
  const Json& response = events[9]["response"];
  EXPECT_EQ(response["id"], "resp_7");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "ab");
  EXPECT_EQ(response["output"][0]["id"], events[4]["item_id"]);
  EXPECT_EQ(response["usage"]["input_tokens"], 3);
  EXPECT_EQ(response["usage"]["output_tokens"], 3);
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 2);
  // Required by the SDK's models.
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cache_write_tokens"], 1);
}

TEST(ResponsesAnswer, SaysThatItIsIncompleteAndHasLogprobs) {
  const GenerationRequest request =
      ReadBody(R"({"input": "Hi", "include": ["message.output_text.logprobs"]})");
  ResponsesAnswer answer(false, AnswerShape(request), kResponseHead, request.response);
  EXPECT_EQ(answer.OnMessage(0, Message("a")), "");
  EXPECT_EQ(answer.OnMessage(0, Last("b", v1::FINISH_REASON_LENGTH)), "");
  const Json body = Json::parse(answer.OnEnd());
  EXPECT_EQ(body["status"], "incomplete");
  EXPECT_EQ(body["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(body["output"][0]["status"], "incomplete");
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "ab");
  EXPECT_EQ(body["output"][0]["content"][0]["logprobs"].size(), 2u);
  EXPECT_EQ(body["temperature"], nullptr);
}

// A request whose answers begin with reasoning.
GenerationRequest Thinking(const std::string& body) {
  GenerationRequest request = ReadBody(body);
  request.parse = std::make_shared<const ParseOptions>(
      ParseOptions{.form = {.reasoning = ReasoningForm::kThink}});
  return request;
}

TEST(ResponsesRequest, RepeatsItsToolChoiceAsItStands) {
  const std::string tools = R"("tools": [{"type": "function", "name": "f", "parameters": {}}])";
  for (const char* choice : {"none", "auto", "required"}) {
    const GenerationRequest request = ReadBody(
        absl::StrCat(R"({"input": "Hi", )", tools, R"(, "tool_choice": ")", choice, R"("})"));
    EXPECT_EQ((*request.response)["tool_choice"], choice);
    EXPECT_EQ((*request.response)["tools"].size(), 1u);
  }
}

TEST(ResponsesAnswer, TellsReasoningAsAnItemOfItsOwn) {
  const GenerationRequest request = Thinking(R"({"input": "Hi", "stream": true})");
  ResponsesAnswer answer(true, AnswerShape(request), kResponseHead, request.response);
  std::string stream;
  for (const char* text : {"<think>", "\nHm", ".", "</think>", "\n\n4"}) {
    stream += answer.OnMessage(0, Message(text));
  }
  stream += answer.OnMessage(0, Last("2", v1::FINISH_REASON_STOP));
  stream += answer.OnEnd();
  const std::vector<Json> events = NamedEvents(stream);
  std::vector<std::string> types;
  for (size_t i = 0; i < events.size(); ++i) {
    types.push_back(events[i]["type"].get<std::string>().substr(sizeof("response")));
    EXPECT_EQ(events[i]["sequence_number"], i);
  }
  EXPECT_THAT(
      types, ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                         "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done",
                         "content_part.done", "output_item.done", "output_item.added",
                         "content_part.added", "output_text.delta", "output_text.delta",
                         "output_text.done", "content_part.done", "output_item.done", "completed"));
  EXPECT_EQ(events[2]["item"]["type"], "reasoning");
  EXPECT_EQ(events[3]["part"], Json({{"type", "reasoning_text"}, {"text", ""}}));
  EXPECT_EQ(events[6]["text"], "Hm.");
  EXPECT_EQ(events[8]["item"]["status"], "completed");
  EXPECT_EQ(events[11]["output_index"], 1);
  EXPECT_EQ(events[13]["text"], "42");
  const Json& response = events.back()["response"];
  EXPECT_EQ(response["output"][0], events[8]["item"]);
  EXPECT_EQ(response["output"][1], events[15]["item"]);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hm.");
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "42");
  EXPECT_EQ(response["usage"]["output_tokens"], 6);
  EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
}

// The markup before a call is none of its reasoning.
TEST(ResponsesAnswer, CountsNoReasoningWhereThereIsNone) {
  GenerationRequest request = ReadBody(R"({"input": "Hi"})");
  request.parse = std::make_shared<const ParseOptions>(
      ParseOptions{.form = {.tools = ToolForm::kHermes, .reasoning = ReasoningForm::kThink},
                   .functions = {{"f", Parameters()}}});
  ResponsesAnswer answer(false, AnswerShape(request), kResponseHead, request.response);
  for (const char* text : {"<tool_", "call>", "\n{\"name\":", " \"f\", ", "\"arguments\": {}}"}) {
    answer.OnMessage(0, Message(text));
  }
  answer.OnMessage(0, Last("</tool_call>", v1::FINISH_REASON_STOP));
  const Json body = Json::parse(answer.OnEnd());
  EXPECT_EQ(body["output"][0]["type"], "function_call");
  EXPECT_EQ(body["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST(ResponsesAnswer, ThatEndsWhileItReasonsHasNoMessage) {
  const GenerationRequest request = Thinking(R"({"input": "Hi"})");
  ResponsesAnswer answer(false, AnswerShape(request), kResponseHead, request.response);
  answer.OnMessage(0, Message("<think>"));
  answer.OnMessage(0, Last("Hm", v1::FINISH_REASON_LENGTH));
  const Json body = Json::parse(answer.OnEnd());
  ASSERT_EQ(body["output"].size(), 1u);
  EXPECT_EQ(body["output"][0]["type"], "reasoning");
  EXPECT_EQ(body["output"][0]["status"], "incomplete");
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "Hm");
}

// A conversation goes on with what the last answer had as its output.
TEST(ResponsesRequest, TakesReasoningBack) {
  const GenerationRequest request = ReadBody(R"({"input": [{"role": "user", "content": "a"},
      {"type": "reasoning", "id": "rs_1", "status": "completed", "summary": [],
       "content": [{"type": "reasoning_text", "text": "Hm."}]},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
      {"role": "user", "content": "c"}]})");
  const auto& messages = request.calls.at(0).chat().messages();
  ASSERT_EQ(messages.size(), 3);
  EXPECT_EQ(messages[1].content(), "b");
  EXPECT_EQ(messages[1].reasoning_content(), "Hm.");
  EXPECT_EQ(messages[2].reasoning_content(), "");
  EXPECT_EQ(RefusedField(R"(, "input": [{"type": "reasoning", "content": [{"type": "reasoning_text",
                    "text": "Hm."}]}])"),
            "input[0]");
  EXPECT_EQ(RefusedField(R"(, "input": [{"type": "reasoning", "encrypted_content": "x"}])"),
            "input[0].encrypted_content");
}

TEST(ResponsesRequest, TakesFunctionsCallsAndWhatCameOfThem) {
  const GenerationRequest request = ReadBody(R"({"tools": [{"type": "function", "name": "f",
      "strict": null, "description": "d", "parameters": {"z": 1, "properties": {}}}],
      "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "low"},
      "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema":
      {"properties": {"b": {}, "a": {}}}}, "verbosity": "medium"},
      "input": [{"role": "user", "content": "a"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
      {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
      {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "1"},
      {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text":
      "2"}]}]})");
  const v1::ChatMessages& chat = request.calls.at(0).chat();
  ASSERT_EQ(chat.messages_size(), 4);
  EXPECT_EQ(chat.messages(1).reasoning_content(), "Hm.");
  ASSERT_EQ(chat.messages(1).tool_calls_size(), 2);
  EXPECT_EQ(chat.messages(1).tool_calls(1).id(), "c2");
  EXPECT_EQ(chat.messages(2).role(), "tool");
  EXPECT_EQ(chat.messages(2).tool_call_id(), "c1");
  EXPECT_EQ(chat.messages(3).content(), "2");
  EXPECT_EQ(Json::parse(chat.template_kwargs_json()),
            Json::parse(R"({"reasoning_effort": "low", "tools": [{"type": "function", "function":
                {"name": "f", "description": "d", "parameters": {"z": 1, "properties": {}}}}]})"));
  EXPECT_EQ(request.calls[0].grammar().json_schema(),
            R"({"properties":{"a":{},"b":{}},"additionalProperties":false})");
  EXPECT_EQ(request.names.grammar, "text.format.schema");
  EXPECT_TRUE(request.wishes.calls && request.wishes.forced && request.wishes.named);
  EXPECT_EQ(request.wishes.callable.at(0).path, "tools[0].parameters");
  EXPECT_EQ((*request.response)["tool_choice"]["name"], "f");
  EXPECT_EQ((*request.response)["text"]["format"]["type"], "json_schema");
  EXPECT_EQ((*request.response)["tools"].size(), 1u);
}

TEST(ResponsesAnswer, TellsCallsAsItemsOfTheirOwn) {
  GenerationRequest request = ReadBody(R"({"input": "Hi", "stream": true, "tools": [{"type":
      "function", "name": "f"}]})");
  request.parse = std::make_shared<const ParseOptions>(
      ParseOptions{.form = {.tools = ToolForm::kHermes}, .functions = {{"f", {}}}});
  for (const bool stream : {true, false}) {
    ResponsesAnswer answer(stream, AnswerShape(request), kResponseHead, request.response);
    std::string text;
    for (const char* piece :
         {"I look.", "<tool_call>{\"name\": \"f\", ", "\"arguments\": {\"a\"", ": 1}}</tool_call>",
          "<tool_call>{\"name\": \"f\", \"arguments\": {}}"}) {
      text += answer.OnMessage(0, Message(piece));
    }
    text += answer.OnMessage(0, Last("</tool_call>", v1::FINISH_REASON_STOP));
    text += answer.OnEnd();
    const std::vector<Json> events = stream ? NamedEvents(text) : std::vector<Json>();
    const Json response = stream ? events.back()["response"] : Json::parse(text);
    ASSERT_EQ(response["output"].size(), 3u);
    EXPECT_EQ(response["output"][0]["content"][0]["text"], "I look.");
    const Json& call = response["output"][1];
    EXPECT_EQ(call["type"], "function_call");
    EXPECT_EQ(call["name"], "f");
    EXPECT_EQ(call["arguments"], R"({"a": 1})");
    EXPECT_EQ(call["status"], "completed");
    EXPECT_NE(call["call_id"], response["output"][2]["call_id"]);
    EXPECT_NE(call["id"], response["output"][2]["id"]);
    if (!stream) continue;
    std::vector<std::string> types;
    for (const Json& event : events) {
      if (event.value("output_index", 0) == 1) {
        types.push_back(event["type"].get<std::string>().substr(sizeof("response")));
      }
    }
    EXPECT_THAT(types, ElementsAre("output_item.added", "function_call_arguments.delta",
                                   "function_call_arguments.delta", "function_call_arguments.done",
                                   "output_item.done"));
  }
}

TEST(ResponsesAnswer, SaysThatACallWasCut) {
  GenerationRequest request = ReadBody(R"({"input": "Hi"})");
  request.parse = std::make_shared<const ParseOptions>(
      ParseOptions{.form = {.tools = ToolForm::kHermes}, .functions = {{"f", {}}}});
  ResponsesAnswer answer(false, AnswerShape(request), kResponseHead, request.response);
  answer.OnMessage(
      0, Last("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", v1::FINISH_REASON_LENGTH));
  const Json body = Json::parse(answer.OnEnd());
  EXPECT_EQ(body["status"], "incomplete");
  EXPECT_EQ(body["output"][0]["status"], "incomplete");
  EXPECT_EQ(body["output"][0]["arguments"], "{\"a\": ");
}

TEST(ResponsesAnswer, FailsInTheStream) {
  const GenerationRequest request = ReadBody(R"({"input": "Hi", "stream": true})");
  ResponsesAnswer answer(true, AnswerShape(request), kResponseHead, request.response);
  answer.OnMessage(0, Message("a"));
  const auto events = NamedEvents(answer.OnError(MakeError(503, "gone")));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["type"], "response.failed");
  EXPECT_EQ(events[0]["response"]["status"], "failed");
  EXPECT_EQ(events[0]["response"]["error"]["message"], "gone");
}

}  // namespace
}  // namespace tutti::gateway
