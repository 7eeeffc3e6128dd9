// Requests of Anthropic's Messages API, as requests to the service.
//
// Every field is served, or refused by name if it would change the answer. A budget of thinking is
// taken and not enforced: nothing here ends a reasoning.
//
// Pure.  Thread: any.
#pragma once

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

struct MessagesRequest {
  std::vector<v1::GenerateRequest> calls;  // one
  FieldNames names;
  bool stream = false;
  AnswerWishes wishes;
};

// POST /v1/messages. `text`: that of the body, whose order of members is the template's.
std::variant<MessagesRequest, ApiError> ReadMessagesRequest(const Json& body,
                                                            std::string_view text);

// POST /v1/messages/count_tokens.
struct CountRequest {
  v1::TokenizeRequest request;
  FieldNames names;
};
std::variant<CountRequest, ApiError> ReadCountRequest(const Json& body, std::string_view text);

// ---- a part of the above

// `system` and `messages`. `written`: the text of the body.
void ReadConversation(FieldReader* fields, std::string_view written, v1::ChatMessages* chat,
                      FieldNames* names);

}  // namespace tutti::gateway
