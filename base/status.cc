#include "base/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(
      status.code(),
      absl::StrCat(absl::string_view(context.data(), context.size()), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

}  // namespace tutti
