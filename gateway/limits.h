// Limits of the gateway. Those of a request's fields are the coordinator's and are not repeated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tutti::gateway {

// ---- what one request may be

// Request line and header fields together. Browsers' and SDKs' are below 4 KiB; cookies of a proxy
// may add some.
inline constexpr uint32_t kHeadBytesMax = 16 << 10;
// Largest body. The service takes prompts of 4 MiB, which JSON may write with two characters for
// one; a list of token ids takes seven bytes for each.
inline constexpr int64_t kBodyBytesMax = 16 << 20;
// Of bodies that are read or waited for, of all connections together: sixteen of the largest.
inline constexpr int64_t kBodiesBytesMax = 16 * kBodyBytesMax;
// Objects and lists inside each other. Requests nest less than ten times, a template's variables
// hardly more.
inline constexpr int kJsonDepthMax = 64;
// Prompts of one /v1/completions, each of which is a request to the service: what harnesses send at
// once is below a hundred.
inline constexpr size_t kPromptsMax = 256;
// A larger body is read as JSON by a thread of its own: 16 KiB take some 100 us, which delay the
// tokens of other streams.
inline constexpr size_t kInlineBodyBytesMax = 16 << 10;
// A request's name in the header x-request-id; the service's limit is 128 with what we add.
inline constexpr size_t kRequestNameBytesMax = 64;

// ---- connections

// Most at once, if the process may have twice as many descriptors.
inline constexpr int64_t kConnectionsMax = 16384;
// From a request's first byte to the end of its head, and to the end of its body: slow networks
// need seconds, who sends a byte now and then needs for ever.
inline constexpr Duration kHeadTime = std::chrono::seconds(10);
inline constexpr Duration kBodyTime = std::chrono::seconds(60);
// A connection without a request. SDKs close theirs after a few seconds, load balancers after 60.
inline constexpr Duration kIdleTime = std::chrono::seconds(75);
// A reader that takes nothing of what lies ready.
inline constexpr Duration kWriteTime = std::chrono::seconds(30);
// How often these are looked at.
inline constexpr Duration kTick = std::chrono::milliseconds(500);
// Bytes that lie ready for a reader, of a stream: some thousand chunks. Beyond it the reader is too
// slow and its request ends; the service does the same with 64 KiB of its own, smaller, messages.
inline constexpr size_t kUnsentBytesMax = 512 << 10;
// One read of a connection, and what is kept of requests that come before the last is answered.
inline constexpr size_t kReadBytes = 4 << 10;
// One write: each has kWriteTime.
inline constexpr size_t kWriteBytes = 64 << 10;
// After a refusal, how long is read what nobody looks at, so that the client reads the refusal.
inline constexpr Duration kFarewellTime = std::chrono::seconds(2);
// Ports tried after one that is taken, where that is wished for.
inline constexpr int kNextPortsMax = 100;

// ---- the service behind

// How often it is asked for its model while it answers, and while it does not.
inline constexpr Duration kModelPoll = std::chrono::seconds(1);
inline constexpr Duration kModelPollWhileLost = std::chrono::milliseconds(200);
// One such call, and one call of Tokenize.
inline constexpr Duration kModelTimeout = std::chrono::seconds(2);
inline constexpr Duration kTokenizeTimeout = std::chrono::seconds(30);
// Threads for calls that block and for large bodies, and what may wait for them.
inline constexpr int kBlockingThreads = 2;
inline constexpr size_t kBlockingJobsMax = 256;
// Calls of Generate at once: the service's own limit is on those that wait.
inline constexpr int64_t kCallsMax = 65536;

// ---- what operators watch

// Seconds of which figures are kept, and over which rates and quantiles are taken.
inline constexpr int64_t kTrafficHistoryS = 300;
inline constexpr int64_t kTrafficWindowS = 60;
// Requests under way that are listed one by one: a screen.
inline constexpr size_t kRequestsShown = 64;
// A request is good if its first token came so soon, and the others that far apart on the average.
inline constexpr Duration kGoodFirstToken = std::chrono::seconds(2);
inline constexpr Duration kGoodGap = std::chrono::milliseconds(100);
// A status that is younger is not asked for again, however many watch; and how long one call takes.
inline constexpr Duration kStatusAge = std::chrono::milliseconds(500);
inline constexpr Duration kStatusTimeout = std::chrono::seconds(1);
// How often those who watch are told.
inline constexpr Duration kLivePeriod = std::chrono::seconds(1);
// Who watch at once: a second of the largest cluster is some 400 KB for each.
inline constexpr size_t kWatchersMax = 128;
// Who wait for one status.
inline constexpr size_t kStatusWaitersMax = 1024;

// ---- keys, and the end

// A key in a request. Ours are shorter; providers' are below 200.
inline constexpr size_t kKeyBytesMax = 512;
// The file of keys: some ten thousand.
inline constexpr int64_t kKeyFileBytesMax = 1 << 20;
// Two signals closer than this are one: a process manager may tell `tutti up` and its children.
inline constexpr Duration kOneSignal = std::chrono::seconds(1);
// From the end of the grace to the end of the process: calls end within a step.
inline constexpr Duration kEndTime = std::chrono::seconds(3);

}  // namespace tutti::gateway
