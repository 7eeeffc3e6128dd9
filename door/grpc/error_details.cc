#include "door/grpc/error_details.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/retry_delay.h"
#include "door/limits.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "text/unicode.h"
#include "tutti/v1/cluster.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::door {
namespace {

namespace pb = google::protobuf;

bool IsNameCharacter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
}

// "[12]" at the beginning of `text`, or nothing of it.
size_t IndexLength(absl::string_view text) {
  if (text.empty() || text.front() != '[') return 0;
  size_t end = 1;
  while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
  return end > 1 && end < text.size() && text[end] == ']' ? end + 1 : 0;
}

// The length of the longest path of fields of `type` with which the text begins; 0: none.
size_t PathLength(absl::string_view text, const pb::Descriptor* type) {
  size_t end = 0;
  while (type != nullptr) {
    const size_t begin = end == 0 ? 0 : end + 1;
    if (begin > 0 && (end >= text.size() || text[end] != '.')) break;
    size_t name = begin;
    while (name < text.size() && IsNameCharacter(text[name])) ++name;
    const std::string word(text.substr(begin, name - begin));
    const pb::FieldDescriptor* const field = type->FindFieldByName(word);
    if (field == nullptr) {
      if (begin == 0 && type->FindOneofByName(word) != nullptr) end = name;
      break;
    }
    end = name + IndexLength(text.substr(name));
    type = field->message_type();
  }
  // For a longer word or path, nothing.
  if (end < text.size() && text[end] != ' ' && text[end] != ':' && text[end] != ',') return 0;
  return end;
}

size_t PathLengthInFile(absl::string_view text, const pb::FileDescriptor& file) {
  size_t longest = 0;
  for (int i = 0; i < file.message_type_count(); ++i) {
    const pb::Descriptor* const type = file.message_type(i);
    if (absl::EndsWith(type->name(), "Request"))
      longest = std::max(longest, PathLength(text, type));
  }
  return longest;
}

// A word for programs: the words may change, these may not.
const char* ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_REQUEST";
    case absl::StatusCode::kNotFound:
      return "NOT_FOUND";
    case absl::StatusCode::kAlreadyExists:
      return "NAME_IN_USE";
    case absl::StatusCode::kAborted:
      return "TAKEN_OVER";
    case absl::StatusCode::kResourceExhausted:
      return RetryDelayOf(status) ? "OVERLOADED" : "TOO_MUCH";
    case absl::StatusCode::kUnavailable:
      return "NOT_SERVING";
    case absl::StatusCode::kDeadlineExceeded:
      return "DEADLINE_PASSED";
    case absl::StatusCode::kCancelled:
      return "CLIENT_LEFT";
    case absl::StatusCode::kFailedPrecondition:
      return "NOT_POSSIBLE_HERE";
    case absl::StatusCode::kPermissionDenied:
      return "NOT_ALLOWED";
    case absl::StatusCode::kUnauthenticated:
      return "NO_KEY";
    case absl::StatusCode::kDataLoss:
      return "OTHER_TOKENS";
    default:
      return "INTERNAL";
  }
}

// The beginning of `words`, at most so many bytes of valid UTF-8.
std::string Shortened(absl::string_view words, size_t bytes_max) {
  std::string_view kept(words.data(), std::min(words.size(), bytes_max));
  if (const auto bad = text::FindInvalidUtf8(kept)) kept = kept.substr(0, *bad);
  return std::string(kept);
}

void AddDetails(const absl::Status& status, const std::string& words, std::optional<Duration> delay,
                google::rpc::Status* rich) {
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonOf(status));
  info.set_domain(kErrorDomain);
  rich->add_details()->PackFrom(info);
  if (const std::string field = FieldAtFault(status); !field.empty()) {
    google::rpc::BadRequest bad;
    auto* const violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description(Shortened(words, kErrorDescriptionBytesMax));
    rich->add_details()->PackFrom(bad);
  }
  if (delay) {
    google::rpc::RetryInfo retry;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*delay);
    retry.mutable_retry_delay()->set_seconds(seconds.count());
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>((*delay - seconds).count()));
    rich->add_details()->PackFrom(retry);
  }
}

}  // namespace

std::string FieldAtFault(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return "";
  absl::string_view words = status.message();
  // "one of text, token_ids and chat must be set", "the prompt has …".
  const bool one_of = absl::ConsumePrefix(&words, "one of ");
  if (!one_of) absl::ConsumePrefix(&words, "the ");
  const size_t path =
      std::max(PathLengthInFile(words, *v1::GenerateRequest::descriptor()->file()),
               PathLengthInFile(words, *v1::GetStatusRequest::descriptor()->file()));
  if (path > 0 && one_of) return "prompt";
  return std::string(words.substr(0, path));
}

grpc::Status ToGrpc(const absl::Status& status, std::optional<Duration> delay) {
  if (status.ok()) return grpc::Status::OK;
  const std::string words = Shortened(status.message(), kErrorTextBytesMax);
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(words);
  AddDetails(status, words, delay, &rich);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), words,
                      rich.SerializeAsString());
}

grpc::Status ToGrpc(const absl::Status& status) { return ToGrpc(status, RetryDelayOf(status)); }

std::optional<Duration> JitteredDelay(const absl::Status& status, double draw) {
  const std::optional<Duration> delay = RetryDelayOf(status);
  if (!delay) return std::nullopt;
  const auto nanoseconds = static_cast<double>(delay->count()) * (1 + kRetryJitter * draw);
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      Duration(static_cast<int64_t>(nanoseconds)));
}

std::optional<int64_t> PushbackMs(const absl::Status& status, std::optional<Duration> delay) {
  if (status.ok() || absl::IsCancelled(status)) return std::nullopt;
  if (delay) return std::chrono::duration_cast<std::chrono::milliseconds>(*delay).count();
  if (absl::IsUnavailable(status)) return std::nullopt;
  return kNoRetry;
}

}  // namespace tutti::door
