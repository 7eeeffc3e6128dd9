// The paths that the HTTP port of a gateway answers, and the bodies that they take, in words and
// examples for its document (open_api.h). Examples have every form of every field that is served,
// which a test holds against the readers.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/json_text.h"

namespace tutti::gateway {

struct DocumentedPath {
  std::string_view method;
  std::string_view path;
  std::string_view words;
  std::string_view body = {};  // the name of a DocumentedBody; empty: none
  enum class Caller : uint8_t { kAnybody, kWithKey, kOperator } caller = Caller::kWithKey;
  std::string_view content = "application/json";  // of a good answer
};
const std::vector<DocumentedPath>& DocumentedPaths();

// Those without the version in front are of clients whose base URL leaves it out.
bool IsDocumented(std::string_view method, std::string_view path);

struct DocumentedBody {
  std::string_view name;  // of its schema
  std::vector<Json> examples;
  // Nothing: it is taken.
  std::function<std::optional<ApiError>(const Json& body)> read;
};
const std::vector<DocumentedBody>& DocumentedBodies();

// What each served field of a body means, by its name.
const std::map<std::string_view, std::string_view>& FieldWords();

}  // namespace tutti::gateway
