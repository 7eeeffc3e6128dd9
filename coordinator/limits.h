// Every limit of the coordinator, with its derivation. Front ends share these: none may forget one.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

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

// ---- what the engine waits for

// Silence of a worker that loads its shard, before it is taken for dead. It cannot beat while the
// kernel reads for it: the largest tensor in use (an embedding of 2.5 GB) from a disk of 100 MB/s
// takes 25 s.
inline constexpr Duration kLoadingSilenceMax = std::chrono::seconds(30);
// A worker with everything for its next step that makes no progress for this long is stuck, though
// it beats: most likely its link from the previous stage is cut. A worker that computes shows
// progress after every layer, so one lease would do; the second is for the activation on its way.
constexpr Duration StuckAfter(Duration lease) { return 2 * lease; }
// A pipeline that has served this long has not failed because of what it is made of.
inline constexpr Duration kStableServing = std::chrono::seconds(10);
// Wait before the next attempt after this many failures in a row: none after the first, then 250 ms
// and doubling, at most 16 s, so that a shard that cannot be loaded is not tried all the time.
constexpr Duration FormBackOff(int32_t failures) {
  if (failures <= 1) return Duration::zero();
  return std::chrono::milliseconds(250) * (int64_t{1} << (failures < 8 ? failures - 2 : 6));
}
// A client that finds the waiting queue full is told to come back after this many seconds, about
// the time an ordinary answer of 200 tokens takes on a loaded machine.
inline constexpr int32_t kRetryAfterSeconds = 5;

}  // namespace tutti
