#include "client/request_size.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/limits.h"

namespace tutti::client {

absl::Status CheckRequestSize(const google::protobuf::MessageLite& request) {
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes <= kRequestBytesMax) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "the request is ", bytes, " bytes as the service reads it, the limit is ", kRequestBytesMax));
}

}  // namespace tutti::client
