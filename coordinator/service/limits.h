// Limits of the coordinator's service that its core does not know; the others are in
// coordinator/limits.h and door/limits.h.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace tutti::coordinator {

// Words of bad_words and bytes of each: the lists of names and curses that are in use have some
// dozens. Each is looked for at every token, in two spellings.
inline constexpr int64_t kBadWordsMax = 128;
inline constexpr int64_t kBadWordBytesMax = 256;
// Ids of allowed_token_ids: all tokens of a script, or of numbers and signs. 64 KiB for each output
// of a request, in memory and in the plan that begins it.
inline constexpr int64_t kAllowedTokenIdsMax = 16384;
// A salt of cached prompts: a random text or a name, as a tenant's.
inline constexpr int64_t kCacheSaltBytesMax = 256;

// ---- the end of the process

// The pause between two looks at whether the last stream, or call, has ended.
inline constexpr Duration kShutdownLookInterval = std::chrono::milliseconds(20);
// The time for streams that are ended to get their last words.
inline constexpr Duration kEndPatience = std::chrono::seconds(1);
// The time for these, and other calls' answers, to reach the connections, which end then, read or
// not.
inline constexpr Duration kLastWordsPatience = std::chrono::milliseconds(200);

}  // namespace tutti::coordinator
