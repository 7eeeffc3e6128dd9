// Limits of the client library and the `tutti` command.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tutti::client {

// Largest message a client takes. A response carries the tokens of one step: one token with 20
// alternatives is below 1 KiB. Tokenize answers with about 16 bytes per token, so 64 MiB covers
// four million tokens; a server that sends more than that in one message is not ours.
inline constexpr int kClientMessageBytesMax = 64 << 20;

// Largest request message: as large as a service takes one (door/limits.h).
inline constexpr int64_t kRequestBytesMax = 8 << 20;

// A request that gRPC can send again by itself: as large as the service takes one. gRPC's default,
// 256 KiB, is less than a long prompt.
inline constexpr int kRetryBufferBytes = 8 << 20;

// The time that a client waits for the first connection. A local service answers within a
// millisecond; five seconds cover a name look-up and a slow network, and are short enough for a
// person to wait and then read why it failed.
inline constexpr int kConnectTimeoutMs = 5000;

// A call that hears nothing for so long pings the service, and gives the connection up without an
// answer: then its stream goes on elsewhere, or there once more. Together as long as a process may
// stand still for a moment (transport/limits.h has 15 s, too). The coordinator permits a ping every
// five seconds; a queued request may rightly hear nothing for minutes.
inline constexpr int kKeepaliveTimeMs = 8000;
inline constexpr int kKeepaliveTimeoutMs = 7000;

// A key for a gateway: as long as one takes (gateway/limits.h).
inline constexpr size_t kApiKeyBytesMax = 512;

// The period at which TLS files are looked at, for connections that are made from then on: a
// certificate is renewed days before it ends.
inline constexpr unsigned kCertificateLookS = 2;

// Longest delay a service may ask of us before another try: an hour; more is a mistake of its.
inline constexpr int64_t kRetryDelayMsMax = 3'600'000;

// The time in which a client tries to go on with an answer of which nothing comes: as long as a
// service tries to form a pipeline again (--recovery-timeout), or a person waits.
inline constexpr Duration kResumeWithin = std::chrono::seconds(60);
// Calls that wait at once for a service which is not there, and the bytes of their requests: others
// are refused. As many as a service lets wait; a request has 16 MiB at most.
inline constexpr int64_t kFirstWaitsMax = 1024;
inline constexpr int64_t kFirstWaitBytesMax = int64_t{64} << 20;
// Pause before another try: at first as long as a process takes to start, then doubling; at most so
// long that a service is not missed for long. Each is cut by up to a half at random, so that
// clients of one service do not come all at once.
inline constexpr Duration kResumePauseMin = std::chrono::milliseconds(50);
inline constexpr Duration kResumePauseMax = std::chrono::seconds(1);

// Largest prompt of a file or of standard input (the service has a limit of its own for the prompt
// of a request): 16 MiB of text are some four million tokens, more than any model's context.
inline constexpr int64_t kPromptFileBytesMax = 16 << 20;

// Largest file with a schema or a grammar; as the service's own limit.
inline constexpr int64_t kGrammarFileBytesMax = 1 << 20;

// Most devices in one `--devices` list: more than the largest clusters known have. Planning for
// 10,000 devices takes less than a second.
inline constexpr int kDevicesMax = 16384;

// Most workers of one `tutti up`: one machine, one process each.
inline constexpr int kLocalWorkersMax = 64;
// Drivers of machines with eight GPUs take some seconds to wake up.
inline constexpr int kListDevicesPatienceMs = 30'000;

// ---- tutti chat

// Lines of the history of `tutti chat`: some weeks of a person's questions, in a file of about 100
// KiB.
inline constexpr int kHistoryLinesMax = 1000;

// ---- tutti up

// The period at which child processes, their logs and the service's status are looked at. A person
// sees 100 ms as immediate.
inline constexpr int kSuperviseTickMs = 100;
// The period at which a service that already serves is asked for its status: once per second costs
// nothing and shows a lost stage before the person wonders.
inline constexpr int kServingPollMs = 1000;
// The time for which a reason not to form may stay the same once every worker has joined or was
// turned away: then nothing that is still to come changes it. Workers measure for 2 s at most.
inline constexpr int kCannotFormMs = 5000;
// One status call. The coordinator answers from memory; half a second without an answer is itself
// worth knowing.
inline constexpr int kStatusTimeoutMs = 500;
// The time that running requests get to finish when `tutti up` is told to stop: as much as a
// coordinator gives them by itself (program/daemon.h).
inline constexpr std::chrono::seconds kDrainTimeout{30};
// The time from the end of that time, or from a second signal, to SIGKILL: the coordinator ends its
// streams within a second, and workers leave after it (worker/limits.h, kLeaveMargin).
inline constexpr int kStopGraceMs = 3000;
// Two signals closer than this are one: a process manager may tell `tutti up` and its children.
inline constexpr int kOneSignalMs = 1000;
// The time from the first signal to the processes to the second: they count the same second from
// when they saw the first, which may be a moment later.
inline constexpr int kTellAgainMs = 3 * kOneSignalMs / 2;
// Delay before a dead child starts again: doubles from the first to the last, back to the first
// after a quiet time.
inline constexpr int kRestartDelayMinMs = 200;
inline constexpr int kRestartDelayMaxMs = 10000;
inline constexpr int kRestartQuietMs = 60000;
// Restarts of one child without a quiet time between them before `tutti up` gives up: with the
// delays above about 15 s of trying, after which a cause that goes away by itself is unlikely.
inline constexpr int kRestartsMax = 8;
// A child's log is cut back to nothing beyond this size; a quiet child writes some lines per event,
// so only a faulty one reaches 64 MiB, and of its log the end matters.
inline constexpr int64_t kLogBytesMax = 64 << 20;
// Lines and bytes of a dead child's log shown on the terminal.
inline constexpr int kLastLogLines = 20;
inline constexpr int64_t kLastLogBytes = 16 << 10;

// KV room of `tutti up` when the user asks for none: 16,384 tokens are 1.75 GiB on Qwen3-0.6B
// (114,688 bytes per token), enough for a long conversation or a dozen short ones, and do not fill
// a small machine.
inline constexpr int64_t kLocalKvTokensDefault = 16384;
// Share of the available memory that `tutti up` divides over its workers; the rest stays for the
// coordinator, page cache and everything else on the machine.
inline constexpr double kLocalMemoryShare = 0.8;

// ---- `tutti certs`

// Clocks of one cluster may differ by so much when a certificate is new.
inline constexpr long kClockSkewS = 300;
// Twenty years, for an authority: longer than its machines live.
inline constexpr int kCertificateDaysMax = 7300;
// 128 bits at random; 20 bytes is the most that readers take.
inline constexpr int kSerialBytes = 16;

}  // namespace tutti::client
