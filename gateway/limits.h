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
// Bytes of bodies that are read, waited for or asked for, and of answers that lie unread, for all
// callers together: sixteen of the largest bodies. A caller, by its key or by its address without
// one, may have as much as is free beside (door/byte_budget.h). Bodies up to kInlineBodyBytesMax do
// not count, so that large ones cannot keep them out.
inline constexpr int64_t kBodiesBytesMax = 16 * kBodyBytesMax;
// Bodies are counted in such steps: a charge takes a lock.
inline constexpr int64_t kBodyStepBytes = 64 << 10;
// Bytes that lie ready for a reader and do not count yet: what the next writes take.
inline constexpr int64_t kUnsentUncountedBytes = 128 << 10;
// Objects and lists inside each other. Requests nest less than ten times, a template's variables
// hardly more.
inline constexpr int kJsonDepthMax = 64;
// Texts, objects and lists of one body, names among the texts. The service takes 65,536 fields,
// which are at most twice as many of these; each takes some 100 bytes of memory where JSON needs
// three. Numbers take 16: of token ids, which have six bytes and more on the average, a body of the
// largest size has so many.
inline constexpr int64_t kJsonPartsMax = 128 << 10;
inline constexpr int64_t kJsonNumbersMax = kBodyBytesMax / 6;
// The part that the prompts of one request share is sent with each: all copies together.
inline constexpr int64_t kCopiesBytesMax = 16 << 20;
// Biases of one request that are looked at, and outputs: the service takes fewer of both and says
// so; far more would take memory before it is asked.
inline constexpr size_t kBiasesMax = 4096;
inline constexpr int64_t kOutputsMax = 256;
// Of an object's keys that an error names: as many as a reader looks at, and of each what tells it.
inline constexpr size_t kNamedKeysMax = 8;
inline constexpr size_t kNamedKeyBytesMax = 32;
// A whole answer, most of which are log-probabilities: 2 KiB for each token with 20 alternatives.
inline constexpr size_t kWholeAnswerBytesMax = 64 << 20;
// Prompts of one /v1/completions, each of which is a request to the service: what harnesses send at
// once is below a hundred.
inline constexpr size_t kPromptsMax = 256;
// A larger body is read as JSON by a thread of its own: 16 KiB take some 100 us, which delay the
// tokens of other streams.
inline constexpr size_t kInlineBodyBytesMax = 16 << 10;
// Calls at once for the log-probabilities of a request's prompts, and tokens of them all: each is a
// call with the ids before it.
inline constexpr size_t kScoringCallsMax = 32;
inline constexpr size_t kScoredTokensMax = 16384;
// A request's name in the header x-request-id; the service's limit is 128 with what we add.
inline constexpr size_t kRequestNameBytesMax = 64;
// The service's limit of names, and digits of the mark that tells callers' hosts apart: a name is
// met by chance on one of some thousand hosts, and by that mark on one in 2^32.
inline constexpr size_t kServiceNameBytesMax = 128;
inline constexpr size_t kHostDigits = 8;

// A name of the caller's in what it is told.
inline constexpr size_t kShownNameBytesMax = 64;

// ---- requests of KServe

// Input tensors of one request: Triton's models of text have some thirty.
inline constexpr int kTensorsMax = 64;
// Elements of one tensor: lists of stop strings and of words have some dozens, of which the service
// takes fewer and says so. Each takes some 50 bytes of memory.
inline constexpr int64_t kTensorElementsMax = 4096;
// The longest time limit that a request may name; longer ones are as this one: a year.
inline constexpr uint64_t kTimeoutUsMax = uint64_t{365} * 24 * 3600 * 1000000;
// Requests of one stream that are not answered yet: beyond it no other is read. Load generators
// keep some hundred.
inline constexpr size_t kStreamRequestsMax = 1024;
// Such streams at once. A message that comes slowly is part of a stream's memory, up to the largest
// request (8 MiB): all of them at once are 2 GiB, from callers who have keys.
inline constexpr int64_t kInferStreamsMax = 256;
// Streams of one tenant, or of one host without keys: seven others are left as many.
inline constexpr int64_t kInferStreamsPerCallerMax = kInferStreamsMax / 8;

// ---- answers that go on

// Ids of events: the service's token is some 130 bytes in a cluster of one numerics class, and a
// list of classes by layer where they are mixed. Four thirds of it, and 20 bytes for each output,
// fit into the head of a request beside its other fields.
inline constexpr size_t kEventIdTokenBytesMax = 2 << 10;
inline constexpr size_t kEventIdOutputsMax = 16;
inline constexpr size_t kEventIdBytesMax = 4 << 10;
// What an id may claim: bytes of a token's text, of which vocabularies have at most some hundred;
// tokens of one message of the service, which are those of one step or, for a reader that was slow,
// of kUnreadOutputBytesMax (door/limits.h).
inline constexpr uint64_t kTokenTextBytesMax = 1024;
inline constexpr uint64_t kMessageTokensMax = 8192;
// New output that is held until what the client has of the others has come again: outputs of one
// answer are computed side by side, and differ by the tokens of some steps.
inline constexpr size_t kHeldBehindBytesMax = 1 << 20;
// An Idempotency-Key: SDKs send some 60 characters.
inline constexpr size_t kKeyOfRequestBytesMax = 255;
// Answers kept under one, at once, and how long one is kept that nobody reads: SDKs try again after
// at most 8 s, proxies wait 60 s for a connection.
inline constexpr size_t kKeyedAnswersMax = 4096;
inline constexpr Duration kKeptTime = std::chrono::seconds(60);
// The answer of one stream: its reader gets all of it at once, in less than kUnsentBytesMax of
// events; some 4,000 tokens without log-probabilities. Of one whole answer; of all together.
inline constexpr size_t kKeptStreamBytesMax = 96 << 10;
inline constexpr size_t kKeptAnswerBytesMax = 1 << 20;
inline constexpr size_t kKeptBytesMax = 64 << 20;

// ---- connections

// Most at once of HTTP, if the process may have as many descriptors; where there is a port for gRPC
// too, twice as many, of which that one has the rest (gateway/service/main.cc).
inline constexpr int64_t kConnectionsMax = 16384;
// An account (transport/listening_sockets.h) leaves this part of the places to others: proxies have
// one address, and two accounts are needed to shut the port. Newcomers have places of the account
// that has most: those go first whose clients have not read for so long, or who say nothing.
inline constexpr int64_t kOthersConnectionsDivisor = 4;
inline constexpr Duration kUnreadPatience = std::chrono::milliseconds(250);
// Where nobody made way, so long nobody looks again.
inline constexpr Duration kLookAgainAfter = std::chrono::milliseconds(20);
// Handshakes of TLS under way: 90 KB each. One that lasts for so long makes way for others of its
// account that wait: it needs two round trips.
inline constexpr int64_t kHandshakesMax = 128;
inline constexpr Duration kHandshakePatience = std::chrono::seconds(1);
// The time from a request's first byte to the end of its head, and to the end of its body: slow
// networks need seconds, who sends a byte now and then needs for ever.
inline constexpr Duration kHeadTime = std::chrono::seconds(10);
inline constexpr Duration kBodyTime = std::chrono::seconds(60);
// A connection without a request, unless the operator says otherwise. The client should be the
// first to close it: a request that is on its way meanwhile would be lost. Go's pools keep theirs
// for 90 s, load balancers for 60.
inline constexpr Duration kIdleTime = std::chrono::seconds(120);
// A reader that takes nothing of what lies ready.
inline constexpr Duration kWriteTime = std::chrono::seconds(30);
// The period at which these are looked at.
inline constexpr Duration kTick = std::chrono::milliseconds(500);
// Bytes that lie ready for a reader, of a stream: some thousand chunks. Where more have lain there
// for so long the reader is too slow and its request ends; the service does the same with 64 KiB of
// its own, smaller, messages. All of them are counted as its owner's meanwhile.
inline constexpr size_t kUnsentBytesMax = 512 << 10;
inline constexpr Duration kBehindPatience = std::chrono::seconds(5);
// A stream that says nothing: after so long its head is sent, and after so long again and again,
// unless the operator says otherwise, a comment, which no client shows. Proxies end a connection
// that is silent for 50 or 60 s.
inline constexpr Duration kHeadPatience = std::chrono::seconds(1);
inline constexpr Duration kHeartbeat = std::chrono::seconds(10);
// One read of a connection. Of requests that come before the last is answered kHeadBytesMax are
// kept; who sends more is not served.
inline constexpr size_t kReadBytes = 4 << 10;
// The buffer that the system keeps for a reader, which would else be megabytes for each; it takes
// twice this.
inline constexpr int kSendBufferBytes = 128 << 10;
// A client that is silent so long is asked by the system whether it is there, and is gone without
// an answer to three such questions: a machine that lost its power must not keep its request.
inline constexpr int kProbeAfterSeconds = 15;
inline constexpr int kProbeEverySeconds = 5;
inline constexpr int kProbes = 3;
// One write: each has kWriteTime.
inline constexpr size_t kWriteBytes = 64 << 10;
// After a refusal, how long is read what nobody looks at, so that the client reads the refusal.
inline constexpr Duration kFarewellTime = std::chrono::seconds(2);
// And how much: many clients read no answer before all of their body is sent. Beyond it nothing is
// read any more.
inline constexpr size_t kFarewellBytesMax = 1 << 20;
// Ports tried after one that is taken, where that is wished for.
inline constexpr int kNextPortsMax = 100;

// ---- the service behind

// The period at which it is asked for its model while it answers, and while it does not.
inline constexpr Duration kModelPoll = std::chrono::seconds(1);
inline constexpr Duration kModelPollWhileLost = std::chrono::milliseconds(200);
// The time for which it counts as ready after a pipeline last served: longer than workers take to
// form one again with a spare.
inline constexpr Duration kReadyPatience = std::chrono::seconds(10);
// One such call, and one call of Tokenize.
inline constexpr Duration kModelTimeout = std::chrono::seconds(2);
inline constexpr Duration kTokenizeTimeout = std::chrono::seconds(30);
// Threads of the lanes for work that blocks or takes long (work_lanes.h), and what may wait for
// each lane, of which a caller has what others leave. Two that call the service for small bodies,
// so that one slow answer is not all that there is; two of each kind for larger ones, to be read
// and to call the service for, whose answers may take hundreds of megabytes.
inline constexpr int kShortLaneThreads = 2;
inline constexpr int kMediumBodyThreads = 2;
inline constexpr int kLargeBodyThreads = 2;
inline constexpr size_t kLaneJobsMax = 256;
// Bytes of memory that the tokens of a text take for each byte of the request, as messages and as
// JSON: a token has 4 bytes on the average, and 32 here.
inline constexpr int64_t kTokenizeAnswerPerByte = 8;
// Calls of Generate at once: the service's own limit is on those that wait.
inline constexpr int64_t kCallsMax = 65536;

// ---- calls of functions in answers

// Text of one output that is held back because it may become a call, or is a value whose type is
// not certain yet. Names come before arguments, and values other than texts are short; what is
// longer is text.
inline constexpr size_t kHeldBytesMax = 64 << 10;
// Blanks between two parts of a call. Models write one or two.
inline constexpr size_t kMarkupBlanksMax = 64;
// A function's name, or a parameter's; OpenAI's limit is 64.
inline constexpr size_t kFunctionNameBytesMax = 256;
// Calls of one output. Models are told to make a few at once.
inline constexpr size_t kCallsPerOutputMax = 128;
// Broken calls of a whole answer that are looked for one by one; with more nothing of it is a call.
inline constexpr size_t kBrokenCallsMax = 4;
// Braces behind a call that close nothing.
inline constexpr size_t kExtraBracesMax = 4;
// Schemas and listed values that are looked at to find the types of a request's parameters.
inline constexpr int64_t kSchemaVisitsMax = 20'000;
// A value of `enum` as JSON, or a `$ref`: a longer one is not known.
inline constexpr size_t kListedValueBytesMax = 1024;
// Texts of an `enum` that are written as they stand in Qwen's form of calls, each of which is
// compared with all; more are written as JSON.
inline constexpr size_t kRawListedValuesMax = 256;
// JSON of `tools` in a request, and of chat_template_kwargs: the service takes both together.
inline constexpr size_t kToolsBytesMax = 1 << 20;
inline constexpr size_t kTemplateKwargsBytesMax = 60 << 10;
// Definitions of functions' schemas, each time that they stand with a parameter that refers to
// them: the service takes no grammar of more.
inline constexpr size_t kRepeatedDefinitionsBytesMax = 1 << 20;

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
// The period at which those who watch are told.
inline constexpr Duration kLivePeriod = std::chrono::seconds(1);
// Pages that watch at once: a second of the largest cluster is some 400 KB for each.
inline constexpr size_t kWatchersMax = 128;
// Callers that wait for one status.
inline constexpr size_t kStatusWaitersMax = 1024;

// ---- keys, and the end

// A key in a request. Ours are shorter; providers' are below 200.
inline constexpr size_t kKeyBytesMax = 512;
// The file of keys: some ten thousand.
inline constexpr int64_t kKeyFileBytesMax = 1 << 20;
// The time from the end of the grace to the end of the process: calls end within a step.
inline constexpr Duration kEndTime = std::chrono::seconds(3);

}  // namespace tutti::gateway
