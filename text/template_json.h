// JSON for templates, in which no integer loses digits.  Thread: any.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tutti::text {

// `text` as JSON; discarded when it is not well-formed, or nests deeper than kTextJsonDepthMax. An
// integer beyond 64 bits, which the parser would round to a float, becomes a binary value that
// holds its digits.
nlohmann::ordered_json ParseTemplateJson(std::string_view text);

}  // namespace tutti::text
