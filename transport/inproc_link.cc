#include "transport/inproc_link.h"

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "transport/frame_rules.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

// Something one end has yet to be told.
struct Delivery {
  enum class Kind { kAccept, kFrame, kClosed };
  Kind kind;
  v1::Frame frame;      // kFrame
  Payload payload;      // kFrame
  int64_t bytes = 0;    // kFrame, encoded
  absl::Status reason;  // kClosed
};

struct Counters {
  std::atomic<int64_t> bytes_out{0}, frames_out{0}, bytes_in{0}, frames_in{0};

  LinkStats Read() const {
    return {bytes_out.load(), frames_out.load(), bytes_in.load(), frames_in.load()};
  }
};

}  // namespace

// One connection. Side 0 dialled, side 1 listens.
struct InprocPipe {
  // One side's members under the mutex.
  struct End {
    std::deque<Delivery> inbox;
    int64_t inbox_cost = 0;  // of its frames, against the limit
    bool scheduled = false;  // the delivery thread knows of the inbox
    bool silenced = false;   // closed from this side, so no more frames
    bool dropped = false;    // the Link is gone
  };

  explicit InprocPipe(std::string name) : name(std::move(name)) {}

  const std::string name;  // the listener's
  Mutex mutex;
  // Goes false once, and then both inboxes end with kClosed.
  bool open ABSL_GUARDED_BY(mutex) = true;
  // The listener is making up its mind.
  bool accepting ABSL_GUARDED_BY(mutex) = false;
  std::array<End, 2> ends ABSL_GUARDED_BY(mutex);
  // Set by Dial before the delivery thread knows of the pipe, or by that thread; used by it alone.
  std::array<std::unique_ptr<LinkHandler>, 2> handlers;
  std::array<Counters, 2> counters;  // any thread
};

class InprocState : public std::enable_shared_from_this<InprocState> {
 public:
  void Start() {
    thread_ = StartThread("links within the process", [this] { Run(); });
  }
  void Stop();

  absl::Status Listen(const std::string& name, AcceptCallback accept);
  void StopListening(const std::string& name);
  void Connect(const std::shared_ptr<InprocPipe>& pipe);
  absl::Status Send(const std::shared_ptr<InprocPipe>& pipe, int side, v1::Frame frame,
                    Payload payload);
  // `side` closes; both ends get `reason`.
  void Close(const std::shared_ptr<InprocPipe>& pipe, int side, const absl::Status& reason);
  // The Link of `side` is gone.
  void Drop(const std::shared_ptr<InprocPipe>& pipe, int side);

 private:
  void Schedule(const std::shared_ptr<InprocPipe>& pipe, int side);
  void Run();
  void DeliverInbox(const std::shared_ptr<InprocPipe>& pipe, int side);
  void Deliver(const std::shared_ptr<InprocPipe>& pipe, int side, Delivery delivery,
               bool is_silenced);
  void Accept(const std::shared_ptr<InprocPipe>& pipe);
  void Handshake(const std::shared_ptr<InprocPipe>& pipe, const AcceptCallback& accept);

  std::thread thread_;  // set by Start, joined by Stop
  Mutex mutex_;
  ConditionVariable ready_;
  // Pipes with something in them.
  std::deque<std::pair<std::shared_ptr<InprocPipe>, int>> inboxes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const AcceptCallback>> listeners_ ABSL_GUARDED_BY(mutex_);
  std::set<std::shared_ptr<InprocPipe>> accepted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The delivery thread has ended or is about to.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

namespace {

class InprocLink : public Link {
 public:
  InprocLink(std::shared_ptr<InprocState> state, std::shared_ptr<InprocPipe> pipe, int side)
      : state_(std::move(state)), pipe_(std::move(pipe)), side_(side) {}
  ~InprocLink() override { state_->Drop(pipe_, side_); }

  absl::Status Send(v1::Frame frame, Payload payload) override {
    return state_->Send(pipe_, side_, std::move(frame), std::move(payload));
  }
  void Close(absl::Status reason) override { state_->Close(pipe_, side_, CloseReason(reason)); }
  LinkStats stats() const override { return pipe_->counters[side_].Read(); }
  std::string peer() const override {
    return absl::StrCat("inproc:", pipe_->name, side_ == 0 ? "" : " (dialer)");
  }

 private:
  const std::shared_ptr<InprocState> state_;
  const std::shared_ptr<InprocPipe> pipe_;
  const int side_;
};

class InprocDialer : public Dialer {
 public:
  explicit InprocDialer(std::shared_ptr<InprocState> state) : state_(std::move(state)) {}

  std::unique_ptr<Link> Dial(const DialTarget& target,
                             std::unique_ptr<LinkHandler> handler) override {
    auto pipe = std::make_shared<InprocPipe>(target.address);
    pipe->handlers[0] = std::move(handler);
    auto link = std::make_unique<InprocLink>(state_, pipe, 0);
    state_->Connect(pipe);
    return link;
  }

 private:
  const std::shared_ptr<InprocState> state_;
};

}  // namespace

absl::Status InprocState::Listen(const std::string& name, AcceptCallback accept) {
  const MutexLock lock(&mutex_);
  auto callback = std::make_shared<const AcceptCallback>(std::move(accept));
  if (!listeners_.emplace(name, std::move(callback)).second) {
    return absl::AlreadyExistsError(absl::StrCat("\"", name, "\" has a listener already"));
  }
  return absl::OkStatus();
}

void InprocState::StopListening(const std::string& name) {
  std::set<std::shared_ptr<InprocPipe>> pipes;
  {
    const MutexLock lock(&mutex_);
    listeners_.erase(name);
    for (const auto& pipe : accepted_) {
      if (pipe->name == name) pipes.insert(pipe);
    }
  }
  const auto reason = absl::UnavailableError(absl::StrCat("\"", name, "\" stopped listening"));
  for (const auto& pipe : pipes) Close(pipe, 1, reason);
}

void InprocState::Connect(const std::shared_ptr<InprocPipe>& pipe) {
  {
    const MutexLock lock(&pipe->mutex);
    pipe->ends[1].inbox.push_back({Delivery::Kind::kAccept});
    pipe->ends[1].scheduled = true;
  }
  Schedule(pipe, 1);
}

absl::Status InprocState::Send(const std::shared_ptr<InprocPipe>& pipe, int side, v1::Frame frame,
                               Payload payload) {
  TUTTI_RETURN_IF_ERROR(CheckFrame(frame, payload));
  const int64_t bytes = EncodedFrameBytes(frame, payload.size());
  {
    const MutexLock lock(&pipe->mutex);
    InprocPipe::End& peer = pipe->ends[1 - side];
    if (!pipe->open) {
      return absl::UnavailableError(absl::StrCat("link to ", pipe->name, " is closed"));
    }
    if (peer.inbox_cost + bytes + kQueuedFrameOverheadBytes > kQueuedBytesMax) {
      return absl::ResourceExhaustedError(absl::StrCat("link to ", pipe->name, ": ",
                                                       peer.inbox_cost, " bytes queued, at most ",
                                                       kQueuedBytesMax));
    }
    peer.inbox_cost += bytes + kQueuedFrameOverheadBytes;
    peer.inbox.push_back({Delivery::Kind::kFrame, std::move(frame), std::move(payload), bytes});
    if (std::exchange(peer.scheduled, true)) return absl::OkStatus();
  }
  Schedule(pipe, 1 - side);
  return absl::OkStatus();
}

void InprocState::Close(const std::shared_ptr<InprocPipe>& pipe, int side,
                        const absl::Status& reason) {
  std::array<bool, 2> is_new = {false, false};
  {
    const MutexLock lock(&pipe->mutex);
    pipe->ends[side].silenced = true;
    if (!std::exchange(pipe->open, false)) return;
    for (int i = 0; i < 2; ++i) {
      pipe->ends[i].inbox.push_back({Delivery::Kind::kClosed, {}, {}, 0, reason});
      is_new[i] = !std::exchange(pipe->ends[i].scheduled, true);
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (is_new[i]) Schedule(pipe, i);
  }
}

void InprocState::Drop(const std::shared_ptr<InprocPipe>& pipe, int side) {
  {
    const MutexLock lock(&pipe->mutex);
    pipe->ends[side].dropped = true;
    // A listener that refuses lets go of the link before it says so.
    if (pipe->accepting && side == 1) return;
  }
  Close(pipe, side, absl::OkStatus());
}

void InprocState::Schedule(const std::shared_ptr<InprocPipe>& pipe, int side) {
  {
    const MutexLock lock(&mutex_);
    if (!stopped_) {
      inboxes_.emplace_back(pipe, side);
      ready_.NotifyOne();
      return;
    }
  }
  // A dialer that outlived the network: no delivery thread is left to say so.
  DeliverInbox(pipe, side);
}

void InprocState::Run() {
  while (true) {
    std::pair<std::shared_ptr<InprocPipe>, int> next;
    {
      const MutexLock lock(&mutex_);
      while (!stopping_ && inboxes_.empty()) ready_.Wait(&mutex_);
      if (inboxes_.empty()) {
        stopped_ = true;
        return;
      }
      next = std::move(inboxes_.front());
      inboxes_.pop_front();
    }
    DeliverInbox(next.first, next.second);
  }
}

void InprocState::DeliverInbox(const std::shared_ptr<InprocPipe>& pipe, int side) {
  for (int i = 0; i < kDeliveriesPerTurn; ++i) {
    Delivery delivery;
    bool is_silenced;
    {
      const MutexLock lock(&pipe->mutex);
      InprocPipe::End& end = pipe->ends[side];
      if (end.inbox.empty()) {
        end.scheduled = false;
        return;
      }
      delivery = std::move(end.inbox.front());
      end.inbox.pop_front();
      is_silenced = end.silenced;
      if (delivery.kind == Delivery::Kind::kFrame) {
        end.inbox_cost -= delivery.bytes + kQueuedFrameOverheadBytes;
      }
    }
    Deliver(pipe, side, std::move(delivery), is_silenced);
  }
  Schedule(pipe, side);
}

void InprocState::Deliver(const std::shared_ptr<InprocPipe>& pipe, int side, Delivery delivery,
                          bool is_silenced) {
  std::unique_ptr<LinkHandler>& handler = pipe->handlers[side];
  switch (delivery.kind) {
    case Delivery::Kind::kAccept:
      Accept(pipe);
      return;
    case Delivery::Kind::kFrame: {
      Counters& sender = pipe->counters[1 - side];
      sender.bytes_out += delivery.bytes;
      sender.frames_out += 1;
      pipe->counters[side].bytes_in += delivery.bytes;
      pipe->counters[side].frames_in += 1;
      if (is_silenced || handler == nullptr) return;
      handler->OnFrame(std::move(delivery.frame), std::move(delivery.payload));
      return;
    }
    case Delivery::Kind::kClosed: {
      if (handler != nullptr) handler->OnClosed(std::move(delivery.reason));
      handler.reset();
      if (side == 1) {
        const MutexLock lock(&mutex_);
        accepted_.erase(pipe);
      }
      return;
    }
  }
}

void InprocState::Accept(const std::shared_ptr<InprocPipe>& pipe) {
  std::shared_ptr<const AcceptCallback> accept;
  absl::Status refusal;
  {
    const MutexLock lock(&mutex_);
    const auto found = listeners_.find(pipe->name);
    if (stopping_) {
      refusal = absl::UnavailableError("the in-process network is shutting down");
    } else if (found == listeners_.end()) {
      refusal = absl::UnavailableError(absl::StrCat("\"", pipe->name, "\" has no listener"));
    } else if (static_cast<int64_t>(accepted_.size()) >= kAcceptedLinksMax) {
      refusal = absl::ResourceExhaustedError(
          absl::StrCat("\"", pipe->name, "\" serves ", kAcceptedLinksMax, " links already"));
    } else {
      accept = found->second;
      accepted_.insert(pipe);
    }
  }
  if (accept == nullptr) return Close(pipe, 1, refusal);
  Handshake(pipe, *accept);
}

void InprocState::Handshake(const std::shared_ptr<InprocPipe>& pipe, const AcceptCallback& accept) {
  {
    const MutexLock lock(&pipe->mutex);
    pipe->accepting = true;
  }
  pipe->handlers[1] = accept(std::make_unique<InprocLink>(shared_from_this(), pipe, 1));
  bool is_dropped;
  {
    const MutexLock lock(&pipe->mutex);
    pipe->accepting = false;
    is_dropped = pipe->ends[1].dropped;
  }
  if (pipe->handlers[1] == nullptr) {
    Close(pipe, 1, absl::PermissionDeniedError(absl::StrCat("\"", pipe->name, "\" refused")));
  } else if (is_dropped) {
    Close(pipe, 1, absl::OkStatus());
  }
}

void InprocState::Stop() {
  CHECK(std::this_thread::get_id() != thread_.get_id()) << "a handler destroys its network";
  std::set<std::shared_ptr<InprocPipe>> pipes;
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    pipes = accepted_;
  }
  for (const auto& pipe : pipes) {
    Close(pipe, 1, absl::UnavailableError("the in-process network is shutting down"));
  }
  ready_.NotifyOne();
  thread_.join();
  const MutexLock lock(&mutex_);
  listeners_.clear();
}

InprocNetwork::InprocNetwork() : state_(std::make_shared<InprocState>()) { state_->Start(); }

InprocNetwork::~InprocNetwork() { state_->Stop(); }

absl::Status InprocNetwork::Listen(const std::string& name, AcceptCallback accept) {
  return state_->Listen(name, std::move(accept));
}

void InprocNetwork::StopListening(const std::string& name) { state_->StopListening(name); }

std::unique_ptr<Dialer> InprocNetwork::MakeDialer() {
  return std::make_unique<InprocDialer>(state_);
}

}  // namespace tutti::transport
