// Every limit of the coordinator, with its derivation. Front ends share these: none may forget one.
#pragma once

#include <cstdint>

namespace tutti {

// ---- what a client may ask (checked in request_builder.cc, one test at each edge)

// A request label for logs: one line of a log, and longer than any UUID or trace id.
inline constexpr int64_t kRequestIdBytesMax = 128;
// Text of one prompt. The largest context of the families served is 131,072 tokens at about 4 bytes
// each, with a margin of 8 for text that tokenizes badly; it must stay below the largest message
// (below).
inline constexpr int64_t kPromptBytesMax = 4 << 20;
// Messages of one conversation: more turns than a context of 131,072 tokens can hold at 32 tokens a
// turn.
inline constexpr int64_t kChatMessagesMax = 4096;
inline constexpr int64_t kTemplateKwargsBytesMax = 64 << 10;
// Stop strings are searched after every token: work per token is their number times their length.
inline constexpr int64_t kStopStringsMax = 16;
inline constexpr int64_t kStopStringBytesMax = 256;
inline constexpr int64_t kStopTokenIdsMax = 128;
inline constexpr int64_t kLogitBiasMax = 1024;
// The public convention of other services is 20; a row of 20 ids and values is 160 bytes a token.
inline constexpr int64_t kTopLogprobsMax = 20;
// Largest request message: the prompt, its escapes and everything else a request may hold.
inline constexpr int64_t kRequestBytesMax = 8 << 20;
// Output a client has not read yet. Beyond it the stream ends: 1 MiB is some 3,000 tokens with 20
// log-probabilities each.
inline constexpr int64_t kUnreadOutputBytesMax = 1 << 20;
// Requests between the door and the engine's own queue: one burst of arrivals between two steps.
inline constexpr int64_t kMailboxEventsMax = 8192;
// Calls at once on one client connection. A gateway that pools clients may want thousands; a stream
// refused here waits in the client's own library, and 20,000 resets on one connection then cost
// bounded memory.
inline constexpr int kStreamsPerConnectionMax = 4096;
// A connection that has not said hello by then is closed.
inline constexpr int64_t kHelloTimeoutMs = 5000;
// Control links at once: 10,000 devices would need a coordinator of another shape.
inline constexpr int64_t kWorkerLinksMax = 1024;

}  // namespace tutti
