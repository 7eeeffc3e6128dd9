// Limits of the coordinator's service that its core does not know; the others are in
// coordinator/limits.h and door/limits.h.
#pragma once

#include <chrono>
#include <cstddef>
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
// Bytes of a request whose prompt is encoded to its end though it is too long, so that its sender
// learns by how much: a third of a second of one thread.
inline constexpr size_t kCountedPromptBytesMax = 1 << 20;

// ---- grammars (grammar_builder.h, running_grammars.h)

// Texts of a choice: labels of a classifier with some thousands of classes.
inline constexpr int64_t kChoiceTextsMax = 4096;
// The texts of all tokens in one frame to a worker: 262,144 tokens of Gemma take 2.3 MB, and a
// frame takes 8 MiB.
inline constexpr int64_t kVocabularyBytesMax = 6 << 20;
// Grammars that are remembered as good: 40 bytes each, and the names of their special tokens, which
// take a kilobyte at most, or it is made again for each request: 5 MB in all.
inline constexpr size_t kKnownGrammarsMax = 4096;
inline constexpr size_t kKnownGrammarBytesMax = 1024;
// Requests that wait for the thread of grammars that take long to make: two minutes of it, alone.
inline constexpr size_t kPatientRequestsMax = 1024;
// Different grammars of one tenant under way at a time, and of all: each costs the workers that
// sample an automaton, of which they remember so many (worker/limits.h). An application has a
// handful, an agent one for each set of its tools.
inline constexpr int64_t kTenantGrammarsMax = 64;
inline constexpr int64_t kGrammarsMax = 256;
// ... and the bytes of their sources, of which a graph takes some ten times as much: a quarter of
// all for one tenant, so that sources as long as they may be (1 MiB) take 160 MiB of a worker.
inline constexpr int64_t kTenantGrammarBytesMax = 4 << 20;
inline constexpr int64_t kGrammarBytesMax = 16 << 20;

// Tokens of the served model that a draft model may lack: models of one family differ in a handful
// that were added later.
inline constexpr double kDraftTokensLackingShare = 0.01;

// ---- the end of the process

// The pause between two looks at whether the last stream, or call, has ended.
inline constexpr Duration kShutdownLookInterval = std::chrono::milliseconds(20);
// The time for streams that are ended to get their last words.
inline constexpr Duration kEndPatience = std::chrono::seconds(1);
// The time for these, and other calls' answers, to reach the connections, which end then, read or
// not.
inline constexpr Duration kLastWordsPatience = std::chrono::milliseconds(200);

}  // namespace tutti::coordinator
