#include "text/added_token_json.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/limits.h"
#include "text/text_fields.h"

namespace tutti::text {

using nlohmann::json;

absl::Status ReadAddedToken(const json& value, const std::string& path, std::optional<int64_t> id,
                            TokenizerSpec* spec) {
  TUTTI_ASSIGN_OR_RETURN(const TextFields fields,
                         TextFields::Open(value, path,
                                          {"id", "content", "single_word", "lstrip", "rstrip",
                                           "normalized", "special"}));
  AddedToken token;
  TUTTI_ASSIGN_OR_RETURN(token.content, fields.String("content"));
  if (token.content.empty() || token.content.size() > kAddedTokenBytesMax) {
    return RefuseField(
        fields.Path("content"),
        absl::StrCat("has ", token.content.size(), " bytes, not 1 to ", kAddedTokenBytesMax));
  }
  if (!id.has_value()) {
    const json& member = fields.Get("id");
    if (!member.is_number_integer()) return RefuseField(fields.Path("id"), "not an integer");
    id = member.get<int64_t>();
  }
  if (*id < 0 || *id > kTokenIdMax) {
    return RefuseField(fields.Path("id"), absl::StrCat(*id, " is outside [0, ", kTokenIdMax, "]"));
  }
  token.id = static_cast<TokenId>(*id);
  TUTTI_ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word", false));
  TUTTI_ASSIGN_OR_RETURN(token.lstrip, fields.Bool("lstrip", false));
  TUTTI_ASSIGN_OR_RETURN(token.rstrip, fields.Bool("rstrip", false));
  TUTTI_ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
  TUTTI_ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", !token.special));
  if (spec->added_tokens.size() >= kAddedTokensMax) {
    return RefuseField(path, absl::StrCat("more than ", kAddedTokensMax, " added tokens"));
  }
  spec->added_tokens.push_back(std::move(token));
  return absl::OkStatus();
}

}  // namespace tutti::text
