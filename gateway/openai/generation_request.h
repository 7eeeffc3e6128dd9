// Requests of OpenAI's API, as requests to the service.
//
// Every field is served, or refused by name if it would change the answer. Ranges are the service's
// business: what it says of a field comes back under the client's name for it (api_error.h).
//
// Pure.  Thread: any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/field_reader.h"
#include "gateway/json_text.h"
#include "gateway/parse_choice.h"
#include "gateway/service_error.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// The request of a client.
struct GenerationRequest {
  // One for each prompt; choices are numbered over all of them. Without request_id and tenant.
  std::vector<v1::GenerateRequest> calls;
  // /v1/completions: what stands before the text of each prompt's choices; empty: nothing.
  std::vector<std::string> echoes;
  bool echoes_ids = false;  // also those of prompts that are ids, once they are known
  FieldNames names;
  bool stream = false;
  bool include_usage = false;     // in a chunk of its own at the end of a stream
  bool continuous_usage = false;  // in every chunk
  bool logprobs = false;
  bool tokens_as_ids = false;  // in log-probabilities: "token_id:7" instead of the text
  bool token_ids = false;      // those of the prompt and of the output are part of the answer
  // Ids by prompt, where they are wanted; found before the calls are made (AskPromptIds).
  std::vector<std::vector<int32_t>> prompt_ids;
  // Log-probabilities of the prompts' own tokens, with so many alternatives; found before the calls
  // are made (prompt_scoring.h).
  std::optional<uint32_t> prompt_top;
  bool prompt_logprobs = false;  // told in a field of their own; else before the output's
  bool no_output = false;        // the prompt alone is answered
  std::vector<std::vector<v1::OutputToken>> prompt_scores;  // by prompt and token
  // Tokens of the model that end an output, unless it ignores them; set before the calls are made.
  std::vector<int32_t> eos_token_ids;
  AnswerWishes wishes;
  // Set by SetParse; null: all text is content.
  std::shared_ptr<const ParseOptions> parse;
  bool old_reasoning_name = false;  // reasoning_content beside reasoning
  // /v1/responses: what the answer repeats of the request; else null.
  std::shared_ptr<const OrderedJson> response;
};

// Sets how the answers to a conversation are read (ChooseParse).
std::optional<ApiError> SetParse(const ParseRules& rules, const AnswerForm& of_template,
                                 GenerationRequest* request);

// The request for the ids of a call's prompt; nothing where it has them.
std::optional<v1::TokenizeRequest> AskPromptIds(const v1::GenerateRequest& call);
// Puts the ids in the place of prompt `prompt`, cut as it asks for; the answer tells them.
void SetPromptIds(std::vector<int32_t> ids, size_t prompt, GenerationRequest* request);

// POST /v1/chat/completions, POST /v1/completions and POST /v1/responses. `text`: that of the body,
// whose order of members is the template's.
std::variant<GenerationRequest, ApiError> ReadChatRequest(const Json& body,
                                                          std::string_view text = {});
std::variant<GenerationRequest, ApiError> ReadCompletionRequest(const Json& body,
                                                                std::string_view text = {});
std::variant<GenerationRequest, ApiError> ReadResponsesRequest(const Json& body,
                                                               std::string_view text = {});

// POST /tokenize: a prompt as of either of them.
struct TokenizeJob {
  v1::TokenizeRequest request;
  FieldNames names;
  bool with_texts = false;  // the text of every id too
};
std::variant<TokenizeJob, ApiError> ReadTokenizeRequest(const Json& body,
                                                        std::string_view text = {});
// POST /detokenize: ids.
std::variant<v1::DetokenizeRequest, ApiError> ReadDetokenizeRequest(const Json& body);

// ---- parts of the above

// `prompt_logprobs`, of whole answers.
void ReadPromptLogprobs(FieldReader* fields, GenerationRequest* request);
// Fields of both kinds of request, into each of `calls`' sampling, n, model and priority.
void ReadCommonFields(FieldReader* fields, GenerationRequest* request, v1::GenerateRequest* call);
// `messages`, `tools`, `chat_template_kwargs` and what else makes a conversation's prompt.
void ReadChat(FieldReader* fields, std::string_view text, v1::ChatMessages* chat);
// Where `tools` stand, and beside what.
struct WishesPlace {
  std::string_view body;       // its text
  bool flat = false;           // a function's members stand in its tool, as in /v1/responses
  bool beside_format = false;  // an answer without calls is JSON
};
// `tools`, and what a client wants of calls and reasoning.
AnswerWishes ReadWishes(FieldReader* fields, const WishesPlace& place);
// `response_format` and `structured_outputs`, and under which name they are told of.
void ReadGrammar(FieldReader* fields, std::string_view text, GenerationRequest* request,
                 v1::GenerateRequest* call);

}  // namespace tutti::gateway
