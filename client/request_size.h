// The size of a request, compared before it is sent: a service would read all of one that is too
// large, and end the connection that others' calls go over for bytes that become nothing.
//
// Thread: any.
#pragma once

#include <google/protobuf/message_lite.h>

#include "base/status.h"

namespace tutti::client {

// OUT_OF_RANGE with both numbers for a request of more than kRequestBytesMax.
absl::Status CheckRequestSize(const google::protobuf::MessageLite& request);

}  // namespace tutti::client
