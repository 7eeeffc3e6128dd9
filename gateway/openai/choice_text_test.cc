// Streams and whole answers with reasoning and calls, from a scripted service.
#include "gateway/openai/choice_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "gateway/openai/answer.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

const AnswerHead kChoiceHead{.id = "chatcmpl-1", .created = 7, .model = "m"};
constexpr char kTools[] = R"("tools": [{"type": "function", "function": {"name": "get_weather",
    "description": "Weather", "strict": true, "parameters": {"type": "object", "properties":
    {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}}}}}])";
constexpr char kOutput[] =
    "<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
    "{\"city\": \"Paris\"}}\n</tool_call>";
const AnswerForm kQwen3{.tools = ToolForm::kHermes, .reasoning = ReasoningForm::kThink};

std::variant<GenerationRequest, ApiError> Read(const std::string& fields) {
  const std::string text = R"({"messages": [{"role": "user", "content": "Hi"}], )" + fields + "}";
  return ReadChatRequest(Json::parse(text), text);
}

GenerationRequest Chosen(const std::string& fields, const AnswerForm& form = kQwen3,
                         const ParseRules& rules = {}) {
  auto read = Read(fields);
  const auto* error = std::get_if<ApiError>(&read);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  if (error != nullptr) return {.calls = {{}}, .echoes = {""}};
  auto request = std::get<GenerationRequest>(std::move(read));
  EXPECT_FALSE(SetParse(rules, form, &request).has_value());
  return request;
}

std::string Outcome(const std::string& fields) {
  const auto read = Read(fields);
  const auto* error = std::get_if<ApiError>(&read);
  return error == nullptr ? "taken" : error->param;
}

v1::GenerateResponse ChoiceMessage(uint32_t output, std::string_view text, bool last = false) {
  v1::GenerateResponse message;
  message.set_output(output);
  message.set_text(std::string(text));
  v1::OutputToken* token = message.add_tokens();
  token->set_token(std::string(text));
  if (last) message.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  return message;
}

// The answer that the openai SDK's stream helper joins: members of deltas one after another, calls
// by index.
struct JoinedChoice {
  Json message = Json::object();
  std::string finish_reason;
  size_t logprobs = 0;
};

void Join(const Json& delta, Json* into) {
  for (const auto& [name, value] : delta.items()) {
    Json& to = (*into)[name];
    if (name == "tool_calls") {
      for (const Json& call : value) {
        const size_t index = call["index"].get<size_t>();
        if (to.size() <= index) to.push_back(Json::object());
        Json rest = call;
        rest.erase("index");
        Join(rest, &to[index]);
      }
    } else if (value.is_object()) {
      if (to.is_null()) to = Json::object();
      Join(value, &to);
    } else if (to.is_string() && name != "type") {
      to = to.get<std::string>() + value.get<std::string>();
    } else {
      to = value;
    }
  }
}

std::vector<JoinedChoice> JoinedOf(const std::string& stream, size_t choices) {
  std::vector<JoinedChoice> joined(choices);
  for (const auto part : absl::StrSplit(stream, "\n\n", absl::SkipEmpty())) {
    const Json event = Json::parse(std::string(part.substr(6)), nullptr, false);
    if (event.is_discarded()) continue;
    for (const Json& choice : event["choices"]) {
      JoinedChoice& to = joined.at(choice["index"].get<size_t>());
      Join(choice["delta"], &to.message);
      if (choice["finish_reason"].is_string()) to.finish_reason = choice["finish_reason"];
      if (!choice["logprobs"].is_null()) to.logprobs += choice["logprobs"]["content"].size();
    }
  }
  return joined;
}

// The answer streamed in pieces of `size` bytes, and whole.
void Play(const GenerationRequest& request, size_t size, std::string* stream, Json* whole) {
  StreamAnswer streamed{AnswerShape(request), kChoiceHead};
  WholeAnswer answer{AnswerShape(request), kChoiceHead};
  const std::string_view text = kOutput;
  const uint32_t n = std::max(request.calls[0].n(), 1u);
  for (size_t at = 0; at < text.size(); at += size) {
    for (uint32_t output = 0; output < n; ++output) {
      const auto message = ChoiceMessage(output, text.substr(at, size), at + size >= text.size());
      *stream += streamed.OnMessage(0, message);
      answer.OnMessage(0, message);
    }
  }
  *stream += streamed.OnEnd();
  *whole = Json::parse(answer.Body());
}

TEST(ChoiceText, StreamsWhatTheWholeAnswerIs) {
  const GenerationRequest request =
      Chosen(std::string(kTools) + R"(, "n": 2, "logprobs": true, "stream": true)");
  for (size_t size = 1; size < 40; ++size) {
    std::string stream;
    Json whole;
    Play(request, size, &stream, &whole);
    const auto joined = JoinedOf(stream, 2);
    for (size_t i = 0; i < 2; ++i) {
      const Json& choice = whole["choices"][i];
      const Json& message = choice["message"];
      EXPECT_EQ(message["content"], "I look.");
      EXPECT_EQ(message["reasoning"], "Hm.\n");
      EXPECT_FALSE(message.contains("reasoning_content"));
      EXPECT_EQ(choice["finish_reason"], "tool_calls");
      const Json& call = message["tool_calls"][0];
      EXPECT_EQ(call["type"], "function");
      EXPECT_THAT(call["id"].get<std::string>(), StartsWith("call_"));
      EXPECT_EQ(call["function"],
                Json({{"name", "get_weather"}, {"arguments", R"({"city": "Paris"})"}}));
      EXPECT_EQ(joined[i].message["content"], message["content"]);
      EXPECT_EQ(joined[i].message["reasoning"], message["reasoning"]);
      EXPECT_EQ(joined[i].message["tool_calls"], message["tool_calls"]) << size;
      EXPECT_EQ(joined[i].finish_reason, "tool_calls");
      EXPECT_EQ(joined[i].logprobs, choice["logprobs"]["content"].size());
    }
    EXPECT_NE(whole["choices"][0]["message"]["tool_calls"][0]["id"],
              whole["choices"][1]["message"]["tool_calls"][0]["id"]);
  }
}

TEST(ChoiceText, FirstSaysTheNameThenTheArguments) {
  std::string stream;
  Json whole;
  Play(Chosen(kTools), 4, &stream, &whole);
  std::vector<Json> deltas;
  for (const auto part : absl::StrSplit(stream, "\n\n", absl::SkipEmpty())) {
    const Json event = Json::parse(std::string(part.substr(6)), nullptr, false);
    if (event.is_discarded() || !event["choices"][0]["delta"].contains("tool_calls")) continue;
    deltas.push_back(event["choices"][0]["delta"]["tool_calls"][0]);
  }
  ASSERT_GT(deltas.size(), 3u);
  EXPECT_EQ(deltas[0]["function"], Json({{"name", "get_weather"}, {"arguments", ""}}));
  for (size_t i = 1; i < deltas.size(); ++i) {
    EXPECT_EQ(deltas[i].size(), 2u);
    EXPECT_EQ(deltas[i]["index"], 0);
    EXPECT_EQ(deltas[i]["function"].size(), 1u);
  }
}

TEST(ChoiceText, SaysNoCallsWhereNoneIsWhole) {
  const GenerationRequest request = Chosen(kTools);
  WholeAnswer answer{AnswerShape(request), kChoiceHead};
  answer.OnMessage(0, ChoiceMessage(0, "<think>cut", true));
  const Json choice = Json::parse(answer.Body())["choices"][0];
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["reasoning"], "cut");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

// The first message says whether the prompt ends inside of a reasoning, with whatever choice it
// comes.
TEST(ChoiceText, BeginsAsThePromptEnds) {
  const GenerationRequest request = Chosen(R"("n": 2)");
  for (const bool in_reasoning : {false, true}) {
    WholeAnswer whole{AnswerShape(request), kChoiceHead};
    StreamAnswer stream{AnswerShape(request), kChoiceHead};
    std::string events;
    for (const uint32_t output : {1u, 0u}) {
      v1::GenerateResponse message = ChoiceMessage(output, "Hm.</think>42", true);
      if (output == 1) message.mutable_started()->set_in_reasoning(in_reasoning);
      whole.OnMessage(0, message);
      events += stream.OnMessage(0, message);
    }
    const Json body = Json::parse(whole.Body());
    for (const Json& choice : body["choices"]) {
      EXPECT_EQ(choice["message"]["content"], in_reasoning ? "42" : "Hm.</think>42");
      EXPECT_EQ(choice["message"]["reasoning"], in_reasoning ? Json("Hm.") : Json(nullptr));
    }
    for (const JoinedChoice& choice : JoinedOf(events, 2)) {
      EXPECT_EQ(choice.message["content"], in_reasoning ? "42" : "Hm.</think>42");
    }
  }
}

TEST(ChooseParse, FollowsRequestTemplateAndOperator) {
  EXPECT_EQ(Chosen(R"("n": 1)", {}).parse, nullptr);
  EXPECT_EQ(Chosen(R"("n": 1)").parse->form.tools, ToolForm::kNone);
  EXPECT_EQ(Chosen(std::string(kTools) + R"(, "tool_choice": "none")").parse->form.tools,
            ToolForm::kNone);
  const auto options = Chosen(std::string(kTools) + R"(, "parallel_tool_calls": false,
                            "include_reasoning": false)")
                           .parse;
  EXPECT_TRUE(options->one_call_only);
  EXPECT_FALSE(options->tells_reasoning);
  EXPECT_EQ(options->functions.at("get_weather").at("days").types,
            (std::vector{ValueTypes::Type::kInteger, ValueTypes::Type::kNull}));
  EXPECT_EQ(Chosen(kTools, {}, {.tools = ToolForm::kNone}).parse, nullptr);
  EXPECT_EQ(Chosen(kTools, {}, {.tools = ToolForm::kLlama3}).parse->form.tools, ToolForm::kLlama3);
  EXPECT_EQ(Chosen(R"("n": 1)", kQwen3, {.reasoning = ReasoningForm::kNone}).parse, nullptr);
  EXPECT_EQ(
      Chosen(R"("n": 1)", kQwen3, {.reasoning = ReasoningForm::kThinkBegun}).parse->form.reasoning,
      ReasoningForm::kThinkBegun);
  EXPECT_TRUE(Chosen(R"("n": 1)", kQwen3, {.old_reasoning_name = true}).old_reasoning_name);
}

TEST(ChooseParse, AsksForTheTokensThatItNeedsToSee) {
  for (const ToolForm form : {ToolForm::kLlama3, ToolForm::kChatGlm3}) {
    const auto sampling = Chosen(kTools, {.tools = form}).calls[0].sampling();
    EXPECT_TRUE(sampling.has_skip_special_tokens() && !sampling.skip_special_tokens());
  }
  EXPECT_FALSE(Chosen(kTools).calls[0].sampling().has_skip_special_tokens());
}

TEST(ChooseParse, RefusesCallsThatNobodyWouldFind) {
  auto read = Read(kTools);
  const auto error = SetParse({}, {}, &std::get<GenerationRequest>(read));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->param, "tools");
}

TEST(Tools, ReachTheTemplateAsTheyAreWritten) {
  const std::string variables =
      Chosen(R"("chat_template_kwargs": {"z": 1, "a": "\"tools\": {"}, "tools": [{"type":
          "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object",
          "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}}}])")
          .calls[0]
          .chat()
          .template_kwargs_json();
  EXPECT_EQ(OrderedJson::parse(variables).dump(),
            R"({"z":1,"a":"\"tools\": {","tools":[{"type":"function","function":{"name":"f",)"
            R"("description":"d","parameters":{"type":"object","properties":{"b":{"type":)"
            R"("string"},"a":{"type":"integer"}}}}}]})");
}

TEST(Tools, AreRefusedByName) {
  EXPECT_EQ(Outcome(kTools), "taken");
  EXPECT_EQ(Outcome(R"("tools": [])"), "taken");
  EXPECT_EQ(Outcome(R"("tools": 3)"), "tools");
  EXPECT_EQ(Outcome(R"("tools": [{"type": "function"}])"), "tools[0]");
  EXPECT_EQ(Outcome(R"("tools": [{"type": "web_search"}])"), "tools[0]");
  EXPECT_EQ(Outcome(R"("tools": [{"type": "function", "function": {}}])"),
            "tools[0].function.name");
  EXPECT_EQ(Outcome(R"("tools": [{"type": "function", "function": {"name": "f", "x": 1}}])"),
            "tools[0].function.x");
  EXPECT_EQ(Outcome(R"("tools": [{"type": "function", "function": {"name": ")" +
                    std::string((1 << 20) + 1, 'x') + R"("}}])"),
            "tools");
  EXPECT_EQ(Outcome(R"("tool_choice": "required")"), "tool_choice");
  EXPECT_EQ(Outcome(std::string(kTools) + R"(, "tool_choice": "auto")"), "taken");
}

}  // namespace
}  // namespace tutti::gateway
