#include "coordinator/service/prompt_requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/request_builder.h"
#include "door/tenant.h"

namespace tutti::coordinator {
namespace {

absl::Status LongerThanContext(const std::string& tokens, const ServedModel& model) {
  return absl::InvalidArgumentError(absl::StrCat("the prompt has ", tokens,
                                                 " tokens, the context of ", model.max_model_len,
                                                 " holds no more, and so does no worker"));
}

absl::StatusOr<std::vector<TokenId>> PromptOf(const v1::LookupPrefixRequest& request,
                                              const ServedModel& model) {
  switch (request.prompt_case()) {
    case v1::LookupPrefixRequest::kText:
      return model.EncodeText(request.text(), request.text_reading(), "text", model.max_model_len);
    case v1::LookupPrefixRequest::kChat:
      return model.EncodeChat(request.chat(), "chat", model.max_model_len);
    case v1::LookupPrefixRequest::kTokenIds: {
      // Ids of no vocabulary are found nowhere; that is all there is to say about them.
      const auto& ids = request.token_ids().ids();
      if (ids.size() > model.max_model_len) {
        return LongerThanContext(absl::StrCat(ids.size()), model);
      }
      return std::vector<TokenId>(ids.begin(), ids.end());
    }
    case v1::LookupPrefixRequest::PROMPT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("one of text, token_ids and chat must be set");
}

}  // namespace

absl::Status Tokenize(const v1::TokenizeRequest& request, const ServedModel& model,
                      v1::TokenizeResponse* response) {
  TUTTI_RETURN_IF_ERROR(CheckModelName(request.model(), model));
  std::vector<TokenId> ids;
  switch (request.prompt_case()) {
    case v1::TokenizeRequest::kText: {
      TUTTI_ASSIGN_OR_RETURN(ids, model.EncodeText(request.text(), request.text_reading(), "text"));
      break;
    }
    case v1::TokenizeRequest::kChat: {
      TUTTI_ASSIGN_OR_RETURN(ids, model.EncodeChat(request.chat(), "chat"));
      break;
    }
    case v1::TokenizeRequest::PROMPT_NOT_SET:
      return absl::InvalidArgumentError("one of text and chat must be set");
  }
  for (const TokenId id : ids) {
    response->add_ids(id);
    response->add_tokens(std::string(model.tokenizer->TokenText(id).value_or("")));
  }
  return absl::OkStatus();
}

absl::StatusOr<Lookup> ReadLookup(const v1::LookupPrefixRequest& request,
                                  const std::vector<std::string>& tenants,
                                  const ServedModel& model) {
  Lookup lookup;
  TUTTI_ASSIGN_OR_RETURN(lookup.tenant,
                         door::TenantOf(request.tenant(), tenants, {.may_name_tenant = true}));
  absl::StatusOr<std::vector<TokenId>> tokens = PromptOf(request, model);
  if (absl::IsOutOfRange(tokens.status())) {
    return LongerThanContext(absl::StrCat("more than ", model.max_model_len), model);
  }
  TUTTI_ASSIGN_OR_RETURN(lookup.tokens, std::move(tokens));
  return lookup;
}

}  // namespace tutti::coordinator
