#include "coordinator/service/detokenize.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/service/request_builder.h"
#include "door/limits.h"
#include "text/detokenizer.h"

namespace tutti::coordinator {

absl::Status Detokenize(const v1::DetokenizeRequest& request, const ServedModel& model,
                        v1::DetokenizeResponse* response) {
  TUTTI_RETURN_IF_ERROR(CheckModelName(request.model(), model));
  if (model.tokenizer == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ids: model '", model.name, "' has no tokenizer files, so its ids have no text"));
  }
  if (request.ids_size() > door::kDetokenizeIdsMax) {
    return absl::InvalidArgumentError(absl::StrCat("ids has ", request.ids_size(),
                                                   " ids, the limit is ", door::kDetokenizeIdsMax));
  }
  const bool skip = !request.has_skip_special_tokens() || request.skip_special_tokens();
  text::Detokenizer detokenizer(model.tokenizer.get(), skip, text::Detokenizer::From::kBeginning);
  std::string* const text = response->mutable_text();
  int64_t bytes = 0;
  for (int i = 0; i < request.ids_size(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckTokenId(request.ids(i), model, absl::StrCat("ids[", i, "]")));
    const std::string_view token = model.tokenizer->TokenText(request.ids(i)).value_or("");
    bytes += static_cast<int64_t>(token.size());
    if (bytes > door::kPromptBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("ids stand for more than ",
                                                     door::kPromptBytesMax,
                                                     " bytes of text, from ids[", i, "] on"));
    }
    response->add_tokens(token.data(), token.size());
    text->append(detokenizer.Push(request.ids(i)));
  }
  text->append(detokenizer.Finish());
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
