// The weights links of workers without the checkpoint, as the engine's thread sees them: who may
// open one, and whose questions go on to the server.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/protocol.h"
#include "coordinator/limits.h"
#include "coordinator/service/engine_loop.h"
#include "transport/send_or_close.h"

namespace tutti::coordinator {

void EngineLoop::BeginWeights(LinkKey key, WorkerLink* worker, const v1::Hello& hello) {
  if (hello.protocol_version() != kPeerProtocolVersion) {
    return CloseLink(key, absl::FailedPreconditionError(absl::StrCat(
                              "protocol version of the worker is ", hello.protocol_version(),
                              ", of the coordinator ", kPeerProtocolVersion)));
  }
  if (hello.cluster_id() != cluster_id_) {
    return CloseLink(key, absl::FailedPreconditionError(
                              "cluster id of the worker is not that of the coordinator"));
  }
  if (const absl::Status offered = weights_->CheckOffered(); !offered.ok()) {
    worker->worker_id = hello.worker_id();
    return CloseLink(key, offered);
  }
  // One for each name: a worker that dials again has given the old one up.
  const auto old = std::find_if(links_.begin(), links_.end(), [&](const auto& entry) {
    return entry.second.fetches && entry.second.worker_id == hello.worker_id();
  });
  if (old != links_.end()) {
    CloseLink(old->first, absl::AbortedError("this worker has opened another weights link"));
  }
  worker->fetches = true;
  worker->worker_id = hello.worker_id();
  if (hello.takes_beats()) weights_->TakesBeats(key);
  worker->budget->MarkKnown(
      {.frames = transport::kUnreadFramesMax, .bytes = kUnreadControlBytesMax});
  v1::Frame frame;
  frame.mutable_welcome();
  // A link that has closed says so itself.
  (void)transport::SendOrClose(worker->link.get(), std::move(frame));
}

bool EngineLoop::HasJoined(const std::string& worker_id) const {
  return std::any_of(links_.begin(), links_.end(), [&](const auto& entry) {
    return entry.second.welcome && entry.second.worker_id == worker_id;
  });
}

}  // namespace tutti::coordinator
