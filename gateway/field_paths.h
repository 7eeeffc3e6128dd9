// The service's words about a field of its own API, under the name that another protocol has for
// it.
//
// Pure.  Thread: any.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tutti::gateway {

// (path of ours, path of theirs), the first that fits counts: it is the whole path with which the
// words of a status begin, or what stands before a dot or an index in it.
using FieldPaths = std::vector<std::pair<std::string, std::string>>;

// The status with the path in its words replaced, and its details kept.
absl::Status RenameField(const absl::Status& status, const FieldPaths& paths);

// The first field that a message has and its type does not, by its number: INVALID_ARGUMENT, as it
// may change the answer. `what`: of what it is a field.
absl::Status RefuseUnknownFields(const google::protobuf::Message& message, const std::string& what);

}  // namespace tutti::gateway
