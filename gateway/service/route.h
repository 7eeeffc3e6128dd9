// A path of the HTTP port, and who answers it. A protocol is a list of these (Gateway takes them).
#pragma once

#include <functional>
#include <string_view>

#include "gateway/service/caller.h"

namespace tutti::gateway {

struct Route {
  std::string_view method;  // with GET goes HEAD
  std::string_view path;
  // Answers its caller, who was let in.  Thread: the server's loop; must not block.
  std::function<void(const Caller&)> answer;
  bool open = false;  // needs no key
  // The form of errors there.
  std::string (*error_body)(const ApiError&) = ErrorBody;
  bool below = false;  // what follows a slash behind `path` is the answer's business
};

}  // namespace tutti::gateway
