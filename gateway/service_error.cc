#include "gateway/service_error.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/retry_delay.h"
#include "gateway/grammar_fields.h"

namespace tutti::gateway {
namespace {

int HttpStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kOutOfRange:
      return 413;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

// The characters of a path such as "sampling.logit_bias[17]".
bool IsPathCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '[' || c == ']';
}

// The fields of requests to the service that have another name in JSON. A longer path begins with
// the field: what follows is kept.
std::optional<std::string> JsonPath(absl::string_view path, const FieldNames& names) {
  const std::string prompt =
      names.prompt_is_list ? absl::StrCat("prompt[", names.prompt_index, "]") : names.prompt;
  if (absl::StartsWith(path, "grammar") && !names.grammar.empty()) {
    return GrammarPath(std::string_view(path.data(), path.size()), names.grammar);
  }
  const std::pair<absl::string_view, std::string> renamed[] = {
      {"sampling.max_tokens", names.max_tokens},
      {"sampling.top_logprobs",
       names.chat ? "top_logprobs" : absl::StrCat(names.sampling, "logprobs")},
      {"sampling.stop", names.stop},
      {"sampling.", names.sampling},
      {"n", absl::StrCat(names.sampling, "n")},
      {"chat.template_kwargs_json", "chat_template_kwargs"},
      {"chat.messages", names.messages},
      {"chat.continue_final_message", "continue_final_message"},
      {"chat", names.messages},
      {"token_ids.ids", prompt},
      {"text", prompt},
      {"ids", "tokens"},
      {"resume.token", kLastEventId},
      {"resume", kLastEventId},
  };
  constexpr absl::string_view kMessage = "chat.messages[";
  const size_t end = path.find(']');
  size_t index = 0;
  if (absl::StartsWith(path, kMessage) && end != absl::string_view::npos &&
      absl::SimpleAtoi(path.substr(kMessage.size(), end - kMessage.size()), &index) &&
      index < names.places.size()) {
    const FieldNames::Place& place = names.places[index];
    return place.is_text ? place.path : absl::StrCat(place.path, path.substr(end + 1));
  }
  for (const auto& [ours, theirs] : renamed) {
    if (!absl::StartsWith(path, ours)) continue;
    const absl::string_view rest = path.substr(ours.size());
    if (ours.back() == '.' || rest.empty() || rest[0] == '.' || rest[0] == '[') {
      return absl::StrCat(theirs, rest);
    }
  }
  for (const absl::string_view same : {"model", "priority", "request_id", "cache_salt",
                                       "speculation.mode", "speculation.max_tokens"}) {
    if (path == same) return std::string(path);
  }
  return std::nullopt;
}

// Of rules that were made of several fields, the one that the byte which the words name lies in.
std::string GrammarField(const std::string& message, const FieldNames& names) {
  constexpr absl::string_view kByte = "byte ";
  const size_t found = message.find(kByte.data(), 0, kByte.size());
  if (found == std::string::npos) return names.grammar;
  size_t byte = 0;
  const absl::string_view digits = absl::string_view(message).substr(found + kByte.size());
  if (!absl::SimpleAtoi(digits.substr(0, digits.find_first_not_of("0123456789")), &byte)) {
    return names.grammar;
  }
  const std::string* field = &names.grammar;
  for (const auto& [begin, path] : names.grammar_parts) {
    if (begin <= byte) field = &path;
  }
  return *field;
}

// Sets `param` and rewrites the message, where this begins with a path or names one before a colon.
void NameField(const FieldNames& names, ApiError* error) {
  const std::string message = error->message;
  size_t end = 0;
  while (end < message.size() && IsPathCharacter(message[end])) ++end;
  if (end == 0 || end == message.size() || (message[end] != ' ' && message[end] != ':')) return;
  auto path = JsonPath(absl::string_view(message).substr(0, end), names);
  if (!path.has_value()) return;
  if (!names.grammar_parts.empty() && *path == names.grammar) path = GrammarField(message, names);
  error->param = *path;
  // Other fields that it names are of the client's JSON too.
  error->message =
      absl::StrReplaceAll(absl::StrCat(*path, message.substr(end)),
                          {{" sampling.", absl::StrCat(" ", names.sampling)},
                           {" chat.omit_generation_prompt", " add_generation_prompt: false"}});
}

}  // namespace

ApiError FromStatus(const absl::Status& given, const FieldNames& names, int64_t context_length) {
  const absl::Status status = WithoutAddress(given);
  const absl::string_view message = status.message();
  ApiError error = MakeError(HttpStatus(status.code()), std::string(message));
  error.retry_after = RetryDelayOf(status);
  if (error.status == 404) error.code = "model_not_found";
  if (error.status >= 500) return error;
  NameField(names, &error);
  const std::string prompt = names.chat ? names.messages : names.prompt;
  if (error.param.empty() &&
      (absl::StartsWith(message, "the prompt ") || absl::StartsWith(message, "prompt of "))) {
    error.param = prompt;
  }
  // Agents look for these words, and cut their prompt.
  if (error.status == 400 && absl::StrContains(message, "the context of ") && context_length > 0) {
    error.code = "context_length_exceeded";
    if (error.param.empty()) error.param = prompt;
    error.message = absl::StrCat("This model's maximum context length is ", context_length,
                                 " tokens: ", error.message);
  }
  return error;
}

}  // namespace tutti::gateway
