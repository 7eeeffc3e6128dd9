// The engine's input and output: events that happen to it, and actions that it wants done.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/request.h"
#include "model/checkpoint_digests.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

// One control link to one worker process. A worker that reconnects comes with a new key.
using LinkKey = StrongInt<struct LinkKeyTag, uint64_t>;

// ---- events

struct RequestArrived {
  Request request;
  // The other outputs of the same request, equal but for id, seed and what a client has of them:
  // all are taken, or none.
  std::vector<Request> others = {};
  // The outputs, from this one on, of a stream that this one takes over: they end with ABORTED if
  // this one is taken.
  RequestId taken_over;
  int32_t taken_over_outputs = 0;
};
enum class CancelCause { kClientGone, kStopString, kTakenOver };
// The client left, or the output hub found a stop string in the text, or the client has come again
// and nothing of the answer is left to compute. No more tokens are wanted.
struct RequestCancelled {
  RequestId request;
  CancelCause cause = CancelCause::kClientGone;
};
// A worker's hello passed the shell's syntactic checks; the engine decides whether the worker may
// join.
struct WorkerJoined {
  LinkKey link;
  v1::Hello hello;
};
struct WorkerLost {
  LinkKey link;
  absl::Status reason;
};
// shard_progress, shard_ready, link_state, step_result, step_done, beat, leaving or failure.
// Untrusted: checked here, epochs first.
struct WorkerFrame {
  LinkKey link;
  v1::Frame frame;
};
// No more admissions; running requests finish.
struct DrainRequested {};
// The engine's thread stood still, or was busy with other things, for so long up to now: what it
// heard of nobody meanwhile is held against nobody. Comes before the events that it finds then.
struct Stalled {
  Duration duration{};
};

// The digests of the coordinator's own checkpoint, or how far it is with them.
struct CheckpointDigested {
  std::shared_ptr<const model::CheckpointDigests> digests;  // null: not known yet
  std::string why_not;                                      // then, for people
};

// This coordinator leads the cluster from now on, as its number `incarnation`. `judged`: a lease
// gave the number; see Incarnation. Comes before any worker, if at all.
struct Led {
  uint32_t incarnation = 0;
  bool judged = false;
};

// This coordinator stands by: `why` says who leads, for people. It takes no workers and no
// requests.
struct StandsBy {
  std::string why;
};

// The time for them to finish is over: all end now, and their clients are told why.
struct EndRequested {};

using Event =
    std::variant<RequestArrived, RequestCancelled, WorkerJoined, WorkerLost, WorkerFrame,
                 DrainRequested, EndRequested, Stalled, CheckpointDigested, Led, StandsBy>;

// ---- actions

// welcome, assign_shard, step_plan or release.
struct SendToWorker {
  LinkKey link;
  v1::Frame frame;
};
// Close the link and tell the worker why; no WorkerLost is expected back for it, and one that comes
// is ignored.
struct CloseWorker {
  LinkKey link;
  absl::Status reason;
};
// An output whose first token has come: what was open before.
struct OutputBegun {
  int32_t max_tokens = 0;
  std::string numerics;  // the class in which its tokens are computed
};
// The next tokens of a request, in order, never twice.
struct DeliverTokens {
  RequestId request;
  int32_t index = 0;  // of the first token in the output
  std::vector<v1::SampledToken> tokens;
  std::shared_ptr<const OutputBegun> begun;  // of the first delivery; null: of a later one
  bool last = false;                         // the FinishRequest follows at once
};
enum class FinishCause { kStopToken, kLength, kStopString, kError };
// The request's one end. Comes after its last DeliverTokens.
struct FinishRequest {
  RequestId request;
  FinishCause cause = FinishCause::kError;
  absl::Status status;  // not OK exactly when cause is kError
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_prompt_tokens = 0;
  Duration queue_time{};  // arrival to the first step that computes something of it
  int32_t preemptions = 0;
  int32_t guessed = 0;  // tokens that were guessed of it, and so many of them right
  int32_t guessed_right = 0;
};
// Whether a complete pipeline makes progress; feeds the health service.
struct ServingChanged {
  bool serving = false;
  std::string why_not;
  bool leaving = false;  // for that: what served leaves in peace
};
// A line for the log: a layout that was chosen, or why no pipeline can form.
struct Notice {
  std::string text;
  bool warning = false;
};

using Action =
    std::variant<SendToWorker, CloseWorker, DeliverTokens, FinishRequest, ServingChanged, Notice>;

}  // namespace tutti::coordinator
