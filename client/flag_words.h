// The service's words about a request's fields, in the words of the flags that fill them.
//
// Pure; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tutti::client {

// "sampling.top_p is 1.5, …" as "--top-p is 1.5, …"; a message that begins with no field of a flag
// as it is.
std::string InWordsOfFlags(absl::string_view message);

}  // namespace tutti::client
