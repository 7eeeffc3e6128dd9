#include "gateway/field_paths.h"

#include <google/protobuf/unknown_field_set.h>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::gateway {

absl::Status RenameField(const absl::Status& status, const FieldPaths& paths) {
  const absl::string_view words = status.message();
  for (const auto& [ours, theirs] : paths) {
    if (!absl::StartsWith(words, ours) || words.size() == ours.size()) continue;
    const absl::string_view rest = words.substr(ours.size());
    if (absl::string_view(" .:[").find(rest[0]) == absl::string_view::npos) continue;
    // "sampling" becomes "": so does its dot.
    absl::Status renamed(
        status.code(),
        absl::StrCat(theirs, theirs.empty() && rest[0] == '.' ? rest.substr(1) : rest));
    status.ForEachPayload([&renamed](absl::string_view type, const absl::Cord& payload) {
      renamed.SetPayload(type, payload);
    });
    return renamed;
  }
  return status;
}

absl::Status RefuseUnknownFields(const google::protobuf::Message& message,
                                 const std::string& what) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has field ", unknown.field(0).number(),
                   ", which this service does not know; leave it out"));
}

}  // namespace tutti::gateway
