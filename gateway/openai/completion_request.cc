// POST /v1/completions and POST /tokenize.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/openai/generation_request.h"
#include "gateway/sampling_fields.h"

namespace tutti::gateway {
namespace {

// OpenAI's default, which clients of this endpoint count on.
constexpr uint32_t kCompletionTokensDefault = 16;

constexpr UnservedField kUnservedOfCompletions[] = {
    {"suffix"},
    {"prompt_embeds"},
    {"parallel_tool_calls", "*"},
    {"include_reasoning", "true"},
};

// A text or a list of ids.
bool SetPrompt(const Json& value, v1::GenerateRequest* call) {
  if (value.is_string()) {
    call->set_text(value.get<std::string>());
    return true;
  }
  const auto ids = IdsOf(value);
  if (!ids.has_value()) return false;
  call->mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
  return true;
}

// One text, one list of ids, or a list of either: a call like `like` for each.
void ReadPrompts(FieldReader* fields, const v1::GenerateRequest& like, GenerationRequest* request) {
  const Json* prompt = fields->Find("prompt");
  if (prompt == nullptr) return fields->Fail("prompt", "is missing");
  const bool is_list = prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number();
  const size_t count = is_list ? prompt->size() : 1;
  if (count > kPromptsMax) {
    return fields->Fail("prompt",
                        absl::StrCat("has ", count, " prompts, the limit is ", kPromptsMax));
  }
  if (static_cast<int64_t>(count * like.ByteSizeLong()) > kCopiesBytesMax) {
    return fields->Fail("prompt", "has too many prompts for so large sampling fields");
  }
  request->names.prompt_is_list = is_list;
  for (size_t i = 0; i < count; ++i) {
    v1::GenerateRequest& call = request->calls.emplace_back(like);
    if (SetPrompt(is_list ? (*prompt)[i] : *prompt, &call)) continue;
    return fields->Fail(is_list ? absl::StrCat("prompt[", i, "]") : "prompt",
                        "is neither a text nor a list of token ids");
  }
}

// The prompt stands before the output, with log-probabilities of its own where those are wanted.
// Of ids the text is found with them.
void ReadEcho(FieldReader* fields, GenerationRequest* request) {
  request->echoes.resize(request->calls.size());
  if (!fields->Bool("echo").value_or(false)) return;
  request->echoes_ids = true;
  for (size_t i = 0; i < request->calls.size(); ++i) {
    if (request->calls[i].has_text()) request->echoes[i] = request->calls[i].text();
  }
  if (!request->logprobs) return;
  request->prompt_top =
      std::max(request->prompt_top.value_or(0), request->calls.front().sampling().top_logprobs());
}

// A length of 0: only the prompt is answered, if that is wanted.
void ReadNoOutput(GenerationRequest* request) {
  if (!request->echoes_ids && !request->prompt_top.has_value()) return;
  for (v1::GenerateRequest& call : request->calls) {
    if (call.sampling().max_tokens() > 0) return;
    call.mutable_sampling()->set_max_tokens(1);
    call.mutable_sampling()->clear_min_tokens();
  }
  request->no_output = true;
}

}  // namespace

std::optional<v1::TokenizeRequest> AskPromptIds(const v1::GenerateRequest& call) {
  if (call.has_token_ids()) return std::nullopt;
  v1::TokenizeRequest asked;
  asked.set_model(call.model());
  if (call.has_text()) asked.set_text(call.text());
  if (call.has_text_reading()) *asked.mutable_text_reading() = call.text_reading();
  if (call.has_chat()) *asked.mutable_chat() = call.chat();
  return asked;
}

void SetPromptIds(std::vector<int32_t> ids, size_t prompt, GenerationRequest* request) {
  v1::GenerateRequest& call = request->calls[prompt];
  const size_t keep = call.truncate_prompt_tokens();
  if (keep > 0 && ids.size() > keep) ids.erase(ids.begin(), ids.end() - static_cast<int64_t>(keep));
  call.clear_truncate_prompt_tokens();
  call.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  request->prompt_ids.resize(request->calls.size());
  request->prompt_ids[prompt] = std::move(ids);
}

std::variant<GenerationRequest, ApiError> ReadCompletionRequest(const Json& body,
                                                                std::string_view text) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  FieldReader fields(body, "");
  GenerationRequest request;
  v1::GenerateRequest like;
  ReadCommonFields(&fields, &request, &like);
  ReadTextReading(&fields, &like);
  ReadGrammar(&fields, text, &request, &like);
  v1::SamplingParams* sampling = like.mutable_sampling();
  sampling->set_max_tokens(static_cast<uint32_t>(
      fields.Integer("max_tokens", 0, kMax).value_or(int64_t{kCompletionTokensDefault})));
  if (const auto top = fields.Integer("logprobs", 0, kMax)) {
    request.logprobs = true;
    sampling->set_logprobs(true);
    sampling->set_top_logprobs(static_cast<uint32_t>(*top));
  }
  ReadPrompts(&fields, like, &request);
  ReadPromptLogprobs(&fields, &request);
  ReadEcho(&fields, &request);
  ReadNoOutput(&request);
  for (const UnservedField& field : kUnservedOfCompletions) fields.Refuse(field);
  RefuseUnserved(&fields);
  if (fields.error().has_value()) return *fields.error();
  return request;
}

std::variant<TokenizeJob, ApiError> ReadTokenizeRequest(const Json& body, std::string_view text) {
  FieldReader fields(body, "");
  TokenizeJob job;
  if (const auto model = fields.Text("model")) job.request.set_model(*model);
  job.with_texts = fields.Bool("return_token_strs").value_or(false);
  job.names.chat = fields.Find("messages") != nullptr;
  if (job.names.chat) {
    ReadChat(&fields, text, job.request.mutable_chat());
    ReadWishes(&fields, {.body = text});
    fields.Refuse({.name = "add_special_tokens", .harmless = "false"});
    for (const std::string_view name : {"chat_template", "mm_processor_kwargs"}) {
      fields.Refuse({.name = name});
    }
  } else {
    const auto prompt = fields.Text("prompt");
    if (!prompt.has_value()) fields.Fail("prompt", "must be a text; or send messages");
    job.request.set_text(prompt.value_or(""));
    ReadTextReading(&fields, &job.request);
  }
  fields.RefuseOthers();
  if (fields.error().has_value()) return *fields.error();
  return job;
}

std::variant<v1::DetokenizeRequest, ApiError> ReadDetokenizeRequest(const Json& body) {
  FieldReader fields(body, "");
  v1::DetokenizeRequest request;
  if (const auto model = fields.Text("model")) request.set_model(*model);
  const auto ids = fields.Ids("tokens");
  if (!ids.has_value()) fields.Fail("tokens", "must be a list of ids of tokens");
  if (ids.has_value()) request.mutable_ids()->Assign(ids->begin(), ids->end());
  // The text that was tokenized comes back whole.
  request.set_skip_special_tokens(false);
  fields.RefuseOthers();
  if (fields.error().has_value()) return *fields.error();
  return request;
}

}  // namespace tutti::gateway
