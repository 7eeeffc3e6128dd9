// Every error names a field of the caller's body, and no field that clients of others send is
// unknown here: tests/clients/openai_checks.py holds the lists to openai-python's.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gateway/openai/generation_request.h"

namespace tutti::gateway {
namespace {

constexpr char kOfAll[] =
    "model frequency_penalty logit_bias n presence_penalty seed stop stream stream_options "
    "temperature top_p user top_k min_p repetition_penalty stop_token_ids ignore_eos min_tokens "
    "skip_special_tokens include_stop_str_in_output priority cache_salt bad_words "
    "allowed_token_ids truncate_prompt_tokens return_token_ids return_tokens_as_token_ids "
    "prompt_logprobs response_format structured_outputs request_id session_id metadata "
    "service_tier vllm_xargs kv_transfer_params ec_transfer_params spaces_between_special_tokens "
    "speculation length_penalty use_beam_search prompt_cache_options cache_control watermarking";
constexpr char kOfChats[] =
    " logprobs audio function_call functions max_completion_tokens max_tokens messages modalities "
    "moderation parallel_tool_calls prediction prompt_cache_key prompt_cache_retention "
    "reasoning_effort safety_identifier store tool_choice tools top_logprobs verbosity "
    "web_search_options chat_template_kwargs enable_thinking include_reasoning documents echo "
    "add_generation_prompt continue_final_message chat_template mm_processor_kwargs";
constexpr char kOfTexts[] = " logprobs best_of echo max_tokens prompt suffix add_special_tokens";
constexpr char kOfResponses[] =
    " access_programs background background_options context_management conversation image include "
    "input instructions max_output_tokens max_tool_calls moderation parallel_tool_calls "
    "previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning "
    "safety_identifier store text tool_choice tools top_logprobs truncation";

struct Door {
  const char* fields;
  Json body;
  std::function<std::variant<GenerationRequest, ApiError>(const Json&)> read;
};

std::vector<Door> Doors() {
  const Json message = {{"role", "user"}, {"content", "a"}};
  return {
      {kOfChats,
       {{"messages", Json::array({message})}},
       [](const Json& body) { return ReadChatRequest(body); }},
      {kOfTexts, {{"prompt", "a"}}, [](const Json& body) { return ReadCompletionRequest(body); }},
      {kOfResponses, {{"input", "a"}}, [](const Json& body) {
         return ReadResponsesRequest(body);
       }}};
}

// The member of the body that the path begins with.
std::string FirstOf(const std::string& path) { return path.substr(0, path.find_first_of(".[")); }

TEST(Errors, NameAFieldOfTheBody) {
  const std::vector<Json> values = {true,
                                    -1,
                                    1e99,
                                    0.5,
                                    "x",
                                    "",
                                    Json::array(),
                                    {1},
                                    {"x"},
                                    {{1}},
                                    Json::object(),
                                    {{"type", "x"}},
                                    {{"x", "y"}},
                                    Json::array({{{"type", "x"}}}),
                                    {{"include_usage", 1}},
                                    Json::array({{{"role", "x"}, {"content", {{{"type", 1}}}}}})};
  for (const Door& door : Doors()) {
    for (const auto part : absl::StrSplit(std::string(kOfAll) + door.fields, ' ')) {
      const std::string field(part);
      for (const Json& value : values) {
        Json body = door.body;
        body[field] = value;
        const auto read = door.read(body);
        const auto* error = std::get_if<ApiError>(&read);
        if (error == nullptr) continue;
        EXPECT_EQ(error->status, 400);
        EXPECT_TRUE(body.contains(FirstOf(error->param))) << body << ": " << error->message;
        EXPECT_TRUE(absl::StrContains(error->message, FirstOf(error->param))) << error->message;
        EXPECT_FALSE(error->param == field && absl::StrContains(error->message, "is no field"))
            << body << ": " << error->message;
      }
    }
  }
}

TEST(Fields, SayAtEveryDoorWhetherTokensAreGuessed) {
  for (const Door& door : Doors()) {
    const auto read = [&door](const char* speculation) {
      Json body = door.body;
      body["speculation"] = Json::parse(speculation);
      return door.read(body);
    };
    const auto taken = [&read](const char* speculation) {
      const auto said = read(speculation);
      EXPECT_TRUE(std::holds_alternative<GenerationRequest>(said)) << speculation;
      return std::get<GenerationRequest>(said).calls.at(0).speculation();
    };
    EXPECT_EQ(taken(R"({"mode": "off"})").mode(), v1::Speculation::MODE_OFF);
    EXPECT_EQ(taken(R"({"mode": "lookup", "max_tokens": 4})").mode(), v1::Speculation::MODE_LOOKUP);
    EXPECT_EQ(taken(R"({"mode": "lookup", "max_tokens": 4})").max_tokens(), 4u);
    EXPECT_EQ(taken(R"({"mode": "draft"})").mode(), v1::Speculation::MODE_DRAFT);
    EXPECT_EQ(taken("{}").mode(), v1::Speculation::MODE_UNSPECIFIED);
    for (const auto& [wrong, field] : std::vector<std::pair<const char*, const char*>>{
             {R"("off")", "speculation"},
             {R"({"mode": "ngram"})", "speculation.mode"},
             {R"({"max_tokens": -1})", "speculation.max_tokens"},
             {R"({"model": "m"})", "speculation.model"}}) {
      const auto said = read(wrong);
      ASSERT_TRUE(std::holds_alternative<ApiError>(said)) << wrong;
      EXPECT_EQ(std::get<ApiError>(said).param, field);
    }
  }
}

TEST(Errors, AreNoneWhereNoAnswerDependsOnTheField) {
  const std::vector<std::pair<size_t, const char*>> taken = {
      {0, R"({"messages": [{"role": "user", "cache_control": {"type": "ephemeral"}, "content": [
           {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"},
            "prompt_cache_breakpoint": {"mode": "explicit"}}]}],
           "prompt_cache_options": {"mode": "implicit", "ttl": "30m"}, "prompt_cache_key": "k"})"},
      {0, R"({"messages": [{"role": "user", "content": "a"},
           {"role": "assistant", "content": "b", "refusal": null, "annotations": [], "audio": null,
            "function_call": null, "tool_calls": null, "provider_specific_fields": {"a": 1}},
           {"role": "user", "content": "c"}],
           "tools": [{"type": "function", "cache_control": {"type": "ephemeral"},
                      "function": {"name": "f", "parameters": {}, "strict": false}}]})"},
      {2, R"({"input": "a", "include": ["reasoning.encrypted_content", "web_search_call.results"],
           "parallel_tool_calls": true, "reasoning": {"mode": "pro", "context": "auto",
           "summary": "auto", "generate_summary": "concise"}, "truncation": "auto",
           "prompt_cache_options": {"mode": "explicit"}, "background_options": {}})"},
      {2, R"({"input": [{"role": "user", "cache_control": {}, "content": [{"type": "input_text",
           "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}]}]})"},
  };
  for (const auto& [door, text] : taken) {
    const auto read = Doors()[door].read(Json::parse(text));
    const auto* error = std::get_if<ApiError>(&read);
    EXPECT_EQ(error, nullptr) << text << error->message;
  }
}

}  // namespace
}  // namespace tutti::gateway
