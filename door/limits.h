// Every limit of what a stranger may ask and make us hold, with its derivation. Front ends share
// these: none may forget one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tutti::door {

// ---- requests of clients (checked in coordinator/service/request_builder.cc, one test
// at each edge)

// A request label for logs: one line of a log, and longer than any UUID or trace id.
inline constexpr int64_t kRequestIdBytesMax = 128;
// Text of one prompt. The largest context of the families served is 131,072 tokens at about 4 bytes
// each, with a margin of 8 for text that tokenizes badly; it must stay below the largest message
// (below).
inline constexpr int64_t kPromptBytesMax = 4 << 20;
// Messages of one conversation: more turns than a context of 131,072 tokens can hold at 32 tokens a
// turn.
inline constexpr int64_t kChatMessagesMax = 4096;
// JSON of a template's variables: the tools of an agent with some hundred of them take 1 MiB, which
// is more than the context of most models; and 64 KiB for all others.
inline constexpr int64_t kTemplateKwargsBytesMax = (1 << 20) + (64 << 10);
// Calls of one message: models that call in parallel make a handful.
inline constexpr int64_t kToolCallsMax = 128;
// Names and ids of functions, calls and participants: OpenAI allows 64 characters, some clients
// put a UUID and a prefix.
inline constexpr int64_t kChatNameBytesMax = 256;
inline constexpr int64_t kStopTokenIdsMax = 128;
inline constexpr int64_t kLogitBiasMax = 1024;
// Penalties and biases are added and multiplied in f32, and nothing is clamped: a logit that left
// its range would end the request as if the checkpoint had lost its numbers. A repetition penalty
// undoes its reciprocal, so its ends are reciprocals. With both at their ends, a presence and a
// frequency penalty of 2 and the longest context of all (2^27 tokens), a logit l becomes at most
// 100 |l| + 100 + 2 + 2^28 in size: below the largest f32 for every |l| < 3.4e36. Logits in use
// stay below 1e5.
inline constexpr float kRepetitionPenaltyMin = 0.01f;
inline constexpr float kRepetitionPenaltyMax = 100;
inline constexpr float kAdditivePenaltyMax = 2;  // presence and frequency, either sign
inline constexpr float kLogitBiasValueMax = 100;
// Above it weights of trained logits differ by less than a third; 0 is greedy. Its reciprocal and
// products of it with logits are far from both ends of f64, in which they are computed.
inline constexpr float kTemperatureMax = 100;
// The public convention of other services is 20; a row of 20 ids and values is 160 bytes a token.
inline constexpr int64_t kTopLogprobsMax = 20;
// Outputs of one request. Each is a sequence with a copy of the prompt's token ids: 64 of the
// longest prompt are 32 MiB, and twice as many as a comparison of answers asks for.
inline constexpr uint32_t kOutputsMax = 64;
// Names of tenants: room for any account id, URL or certificate subject.
inline constexpr int64_t kTenantBytesMax = 256;
// Ids of one Detokenize: eight of the largest contexts, in a message of 5 MiB at most. Their text
// is bounded as that of a prompt is.
inline constexpr int64_t kDetokenizeIdsMax = 1 << 20;
// Largest request message: the prompt, its escapes and everything else a request may hold.
inline constexpr int64_t kRequestBytesMax = 8 << 20;
// Fields of one request message, nested ones included, counted before it is parsed: in memory an
// empty message is a hundred times its two bytes. The fullest honest request has kChatMessagesMax
// messages of 12 fields (a call of a function among them), kLogitBiasMax biases of 3 and some
// hundred others: 52,000. Ids in the packed form, which every proto3 library writes, are one field.
inline constexpr int64_t kRequestFieldsMax = 65536;

// ---- what the door holds (door.h, docs/decisions/0034)

// Bytes held for clients, in all: request messages received and not yet built, the token ids of
// requests that have not ended (of each output), and output that waits to be read. 1,024 waiting
// requests of 8,000 tokens are 32 MiB; one of the longest context (131,072 tokens) with 64 outputs
// is 32 MiB, and one client may have half of the budget (byte_budget.h).
inline constexpr int64_t kDoorBytesMax = 256 << 20;
// Memory goes back to the system when so much more of the heap is free than the last time left.
inline constexpr int64_t kTrimAfterBytes = 16 << 20;
// A request that has come this far within kReadGrace is counted when it is complete; a slower one
// is counted as the largest message from then on. Small requests arrive within a round trip.
inline constexpr Duration kReadGrace = std::chrono::milliseconds(200);
// A request message that is not complete by then ends its call: the largest, 8 MiB, over a line of
// 2.5 Mbit/s.
inline constexpr Duration kReadMax = std::chrono::seconds(30);
// Output that a client has not read yet, for each output of its request, in our memory; the
// client's own window and the sockets hold as much again. 64 KiB are 200 tokens with 20
// log-probabilities each or 6,000 without: seconds of generation. Beyond it the stream ends.
inline constexpr int64_t kUnreadOutputBytesMax = 64 << 10;
// The part of it that is not counted against the budget: a client that reads has a message or two
// there, and streams are bounded elsewhere.
inline constexpr int64_t kUnreadUncountedBytes = 4 << 10;
// The steps in which it is counted: a charge takes a lock that all calls share.
inline constexpr int64_t kUnreadStepBytes = 16 << 10;
// A stream that ended because its client did not read waits so long for the client to read the
// reason; then it is reset.
inline constexpr Duration kUnreadLinger = std::chrono::seconds(10);
// Requests up to this size have a thread of the tokenizer's pool that takes no larger ones: 4,000
// tokens of text, some 10 ms of work.
inline constexpr int64_t kSmallRequestBytes = 16 << 10;
// Larger ones than this, some 0.3 s of work, have threads of their own where a pool has such
// (work_pool.h), so many steps of `nice` below all others: beside a thread that computes one has a
// tenth of a processor, by the weights that Linux gives to both.
inline constexpr int64_t kMediumRequestBytes = 256 << 10;
inline constexpr int kLargeNiceSteps = 10;
// Work on a request that does not depend on its size, in bytes of text that take as long.
inline constexpr int64_t kRequestCostBytes = 4 << 10;
// Hosts, and connections of a host, without work for the tokenizer that are remembered because they
// have had more than their share of late: some 200 bytes each.
inline constexpr size_t kTurnsRemembered = 1024;
// The pause between two looks at the heap, and how much longer than a look, and than a trim, it is
// at least: of 100,000 free pieces a look takes 20 to 50 ms, for which others may wait who want
// memory, a trim up to 400.
inline constexpr Duration kHeapLookEvery = std::chrono::seconds(2);
inline constexpr int kHeapLookShare = 100;
inline constexpr int kHeapTrimShare = 20;
// What a trim had to leave, because pieces in use lay between, is forgotten in this time: when they
// are free, another one gives it back.
inline constexpr Duration kHeapForgets = std::chrono::seconds(30);
// A buffer from this size on is the system's, and goes back to it when it is freed; and what the
// allocator keeps at an arena's end. By itself it would raise both to what was freed last, up to 32
// and 64 MiB.
inline constexpr int kHeapMappedBytes = 1 << 20;
inline constexpr int kHeapTopBytes = 2 << 20;
// The pause of a thread that has no memory between two tries, and how long it tries: requests that
// have none end within milliseconds.
inline constexpr Duration kMemoryPause = std::chrono::milliseconds(1);
inline constexpr Duration kMemoryWaitMax = std::chrono::seconds(10);
// Requests up to this size that are refused for what they are wait for their own bytes only, and
// not for those that others at their address have sent: a prompt that is too long by mistake.
inline constexpr int64_t kOwnPauseBytesMax = 256 << 10;

// A deadline that is further away is none.
inline constexpr Duration kDeadlineMax = std::chrono::hours(24 * 365);

// ---- the public port (grpc/public_port.h)

// A client that has vanished is noticed by a ping: sent after so long without any frame from it,
// and answered within the time-out. 30 s together.
inline constexpr Duration kPublicPingAfter = std::chrono::seconds(20);
inline constexpr Duration kPublicPingTimeout = std::chrono::seconds(10);
// A connection without calls is closed after so long; clients are told before, and connect again
// when they need one. A stranger's costs some 40 KB. Also ends connections that sent a part of a
// first request's headers and no more.
inline constexpr Duration kPublicIdleMax = std::chrono::minutes(1);
// Bytes of one call that gRPC takes before anybody reads them: HTTP/2's own default.
inline constexpr int kStreamWindowBytes = 64 << 10;
// Threads for the one service of gRPC's that blocks a thread per call, server reflection: people
// with a command-line tool.
inline constexpr int kReflectionThreadsMax = 16;
// Calls at once on one client connection. A gateway that pools clients may want thousands; a stream
// refused here waits in the client's own library, and 20,000 resets on one connection then cost
// bounded memory.
inline constexpr int kStreamsPerConnectionMax = 4096;

// ---- what callers and the log are told

// Lines of the log about requests that were refused or failed; those that end well are as many as
// the workers can compute.
inline constexpr int64_t kRefusalLinesPerSecond = 20;
// Clients that are sent away at once must not come back at once: each delay is made longer by up to
// this share of it, at random.
inline constexpr double kRetryJitter = 0.25;
// The words of an error go to the client twice, once escaped to three bytes each and once in
// base64, and the description of a field at fault once more; clients take 8 KiB of trailing
// metadata.
inline constexpr size_t kErrorTextBytesMax = 1200;
inline constexpr size_t kErrorDescriptionBytesMax = 256;

}  // namespace tutti::door
