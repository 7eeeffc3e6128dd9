// The head of an answer as bytes.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/message.h"

namespace tutti::gateway {

// `length` of the body; nothing: it comes in chunks, or, with `close`, until the connection ends.
std::string HeadText(const HttpResponse& response, std::optional<uint64_t> length, bool chunked,
                     bool close);
// One chunk. REQUIRES: not empty, which would be the last.
std::string ChunkText(std::string_view piece);
inline constexpr char kLastChunk[] = "0\r\n\r\n";

// Whether a text may stand in a field of a head: printable ASCII.
bool IsFieldText(std::string_view text);

}  // namespace tutti::gateway
