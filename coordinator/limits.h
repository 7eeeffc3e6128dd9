// Every limit of the coordinator, with its derivation. Front ends share these: none may forget one.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace tutti::coordinator {

// ---- requests of clients (checked in request_builder.cc, one test at each edge)

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
// Calls of one message: models that call in parallel make a handful.
inline constexpr int64_t kToolCallsMax = 128;
// Names and ids of functions, calls and participants: OpenAI allows 64 characters, some clients
// put a UUID and a prefix.
inline constexpr int64_t kChatNameBytesMax = 256;
inline constexpr int64_t kStopTokenIdsMax = 128;
inline constexpr int64_t kLogitBiasMax = 1024;
// The public convention of other services is 20; a row of 20 ids and values is 160 bytes a token.
inline constexpr int64_t kTopLogprobsMax = 20;
// Outputs of one request. Each is a sequence with a copy of the prompt's token ids: 64 of the
// longest prompt are 32 MiB, and twice as many as a comparison of answers asks for.
inline constexpr uint32_t kOutputsMax = 64;
// Names of tenants: room for any account id, URL or certificate subject.
inline constexpr int64_t kTenantBytesMax = 256;
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

// Priority classes, as vLLM counts them: lower goes first. More classes than a service tells apart,
// few enough that the queue's memory per class does not matter.
inline constexpr int32_t kPriorityMin = -100;
inline constexpr int32_t kPriorityMax = 100;

// ---- order of turns (admission_queue.h, router.h, docs/decisions/0007)

// A request without a deadline, or with a later one, waits for its turn as if its deadline were so
// far away: longer than any client waits for a first token, and short enough that a stream of
// requests in a hurry cannot hold it up for good.
inline constexpr Duration kPatience = std::chrono::seconds(60);
// Tenants whose served tokens differ by less are level, and the earliest deadline decides between
// them: a few ordinary requests of a thousand tokens each.
inline constexpr int64_t kLevelTokens = 4096;
// The assumed length of an answer until it has ended; the mean of public chat traces is 200 to 300
// tokens.
inline constexpr int32_t kExpectedOutputTokens = 256;
// Tenants that have nothing waiting and are remembered all the same, because they were served more
// than others that wait; about 100 bytes each.
inline constexpr size_t kIdleTenantsMax = 4096;
// How often a request that has delivered nothing begins again when its pipeline is lost: once. One
// that saw two pipelines go down is likely to be the cause.
inline constexpr int32_t kLossesMax = 2;

// Numeric faults of one step whose requests get to know the layer; as many as workers trace. Others
// end all the same, when a token of theirs is no number.
inline constexpr int kNumericFaultsNamed = 16;

// Weight of a prompt token computed a second time, beside one that waits before it. It delays not
// only its own request but all that come after, and its copy takes KV room from others.
inline constexpr int64_t kRecomputeWeight = 4;
// Cached tokens thrown away that weigh as much as one computed: those that go have not been asked
// for longest, and we take one in eight of them to be asked for again.
inline constexpr int64_t kEvictionsPerRecompute = 8;

// Steps that are timed together: enough that results which arrive a little late or together do not
// look like a fast machine.
inline constexpr int32_t kRateGroupSteps = 8;
// Share at which the best rate counts after each group since: half after some 70 groups.
inline constexpr double kRateKept = 0.99;

// ---- the engine's waits

// Speeds that a worker may claim. A first Raspberry Pi reads some 100 MB/s and computes 100
// Mflop/s; 1 PB/s or an exaflop claimed for one worker is a mistake in the unit.
inline constexpr double kReadSpeedMin = 1e6;
inline constexpr double kReadSpeedMax = 1e15;
inline constexpr double kFlopsMin = 1e6;
inline constexpr double kFlopsMax = 1e18;

// Workers of one cluster are started within seconds of each other. A layout that depends on those
// that join is chosen when no worker has joined or left for so long.
inline constexpr Duration kJoinQuiet = std::chrono::seconds(2);
// Workers that have a number (device_numbers.h); those beyond it have none. Several times
// kWorkerLinksMax, because those that were replaced keep theirs; about 100 bytes each.
inline constexpr size_t kDeviceNumbersMax = 4096;
// Silence of a worker that loads its shard, before it is taken for dead. It cannot beat while the
// kernel reads for it: the largest tensor in use (an embedding of 2.5 GB) from a disk of 100 MB/s
// takes 25 s.
inline constexpr Duration kLoadingSilenceMax = std::chrono::seconds(30);
// A worker with everything for its next step that makes no progress for this long is stuck, though
// it beats: most likely its link from the previous stage is cut. A worker that computes shows
// progress after every layer, so one lease would do; the second is for the activation on its way.
constexpr Duration StuckAfter(Duration lease) { return 2 * lease; }
// How long the times of steps are added up before they are compared, and how many steps it takes
// at least: fewer could be one prompt that only some stages have seen. A worker that slows is named
// after the window in which it did and two more, within ten seconds.
inline constexpr Duration kPaceWindow = std::chrono::seconds(2);
inline constexpr int kPaceWindowSteps = 4;
inline constexpr int kSlowWindows = 2;
// Below a factor of 2, for noise and for the mix of prompts and answers.
inline constexpr double kSlowdown = 1.7;
// Share that the average time of a step keeps with each step since: half after some 34 steps.
inline constexpr double kStepAverageKept = 0.98;
// A pipeline that has served this long has not failed because of its composition.
inline constexpr Duration kStableServing = std::chrono::seconds(10);
// Wait before the next attempt after this many failures in a row: none after the first, then 250 ms
// and doubling, at most 16 s, so that a shard that cannot be loaded is not tried all the time.
constexpr Duration FormBackOff(int32_t failures) {
  if (failures <= 1) return Duration::zero();
  return std::chrono::milliseconds(250) * (int64_t{1} << (failures < 8 ? failures - 2 : 6));
}
// A client that finds the admission queue full is told to come back after this many seconds, about
// the time an ordinary answer of 200 tokens takes on a loaded machine.
inline constexpr int32_t kRetryAfterSeconds = 5;

}  // namespace tutti::coordinator
