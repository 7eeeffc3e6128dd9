#include "client/flag_words.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::client {
namespace {

struct FieldFlag {
  absl::string_view field;
  absl::string_view flag;
};

constexpr FieldFlag kFields[] = {
    {"chat.template_kwargs_json", "--template-kwargs"},
    {"grammar.choice", "--choice"},
    {"grammar.choice.texts", "--choice"},
    {"grammar.ebnf", "--grammar"},
    {"grammar.json_object", "--json-object"},
    {"grammar.json_schema", "--json-schema"},
    {"grammar.regex", "--regex"},
    {"n", "--outputs"},
    {"priority", "--priority"},
    {"request_id", "--request-id"},
    {"speculation.mode", "--speculation"},
    {"tenant", "--tenant"},
    {"token_ids.ids", "--token-ids"},
    {"model", "--model"},
};
// A flag for a sampling parameter has the field's name, but for these.
constexpr absl::string_view kSampling = "sampling.";
constexpr FieldFlag kSamplingFields[] = {
    {"allowed_token_ids", "--allowed-token"},
    {"bad_words", "--bad-word"},
    {"include_stop_str_in_output", "--include-stop-str-in-output"},
    {"skip_special_tokens", "--keep-special-tokens"},
};

std::string FlagOfSampling(absl::string_view field) {
  for (const FieldFlag& one : kSamplingFields) {
    if (one.field == field) return std::string(one.flag);
  }
  std::string flag = absl::StrCat("--", field);
  for (char& c : flag) c = c == '_' ? '-' : c;
  return flag;
}

}  // namespace

std::string InWordsOfFlags(absl::string_view message) {
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.");
  if (end == absl::string_view::npos || end == 0) return std::string(message);
  const absl::string_view field = message.substr(0, end), rest = message.substr(end);
  // True of words about a field; a sentence may begin with the same word.
  const bool is_said_of = absl::StartsWith(rest, " is ") || absl::StartsWith(rest, " names ") ||
                          rest[0] == ':' || rest[0] == '[';
  if (!is_said_of) return std::string(message);
  if (absl::StartsWith(field, kSampling)) {
    return absl::StrCat(FlagOfSampling(field.substr(kSampling.size())), rest);
  }
  for (const FieldFlag& one : kFields) {
    if (one.field == field) return absl::StrCat(one.flag, rest);
  }
  return std::string(message);
}

}  // namespace tutti::client
