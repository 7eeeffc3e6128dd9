// The state that a gRPC stream's reactor and its Link share.
//
// gRPC's rules: one read and one write outstanding, buffers live until their operation is done, a
// reactor ends only in its OnDone. Nothing but the state here ever points to a reactor, and only
// until that OnDone; links, timers and registries hold this state by shared_ptr.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/impl/codegen/call_op_set.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/link.h"
#include "transport/receive_budget.h"

namespace tutti::transport {

class StreamState;

// The streams of one dialer or listener.  Thread: any.
class StreamRegistry {
 public:
  // UNAVAILABLE after Stop, RESOURCE_EXHAUSTED when there are `limit` streams.
  absl::Status Add(const std::shared_ptr<StreamState>& stream, int64_t limit);
  void Remove(const StreamState* stream);
  // Closes the oldest streams whose peers are not known yet, down to `strangers_max` of them.
  void EvictStrangers(int64_t strangers_max);
  // Lets no more in, closes all with `reason`, cancels those left after `grace`, waits for the
  // rest.
  void Stop(const absl::Status& reason, std::chrono::milliseconds grace);

 private:
  std::vector<std::shared_ptr<StreamState>> Snapshot();

  Mutex mutex_;
  ConditionVariable empty_;
  struct Entry {
    std::shared_ptr<StreamState> stream;
    uint64_t number;  // in the order they came
  };
  std::map<const StreamState*, Entry> streams_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  // The reactor's operations, as the state asks for them; called without the mutex held.
  class Operations {
   public:
    virtual ~Operations() = default;
    // `frame` lives until OnWritten.
    virtual void Write(const grpc::ByteBuffer* frame, grpc::WriteOptions options) = 0;
    // The last operation: no Write follows. A listener gives the stream its status, a dialer ends
    // its half.
    virtual void End(const absl::Status& status) = 0;
    // The next read, after MayRead said no.
    virtual void Read() = 0;
    // Breaks the stream off.
    virtual void Cancel() = 0;
  };

  enum class Role { kDialer, kListener };

  StreamState(Role role, std::string peer, std::shared_ptr<StreamRegistry> registry);

  // --- Setting up, before the first operation is started.
  void Attach(Operations* operations) {
    const MutexLock lock(&mutex_);
    operations_ = operations;
  }
  void SetHandler(std::unique_ptr<LinkHandler> handler);
  // There will be no operations: the stream did not begin, and OnDone comes next.
  void NeverBegin();
  // Until Trust the stream ends with `refusal` after `patience`, or when the peer sends anything
  // that is no frame or longer than the handler's budget allows.
  void Distrust(std::chrono::milliseconds patience, absl::Status refusal);
  // Asks `accept` for the handler of this listener's stream.
  void Accept(const AcceptCallback& accept);

  // The peer has proved who it is; from now on the handler's budget is another.  Thread: that of
  // the reactions.
  void Trust();

  // --- For the Link.  Thread: any.
  absl::Status Send(const v1::Frame& frame, const Payload& payload);
  void Close(const absl::Status& reason) { CloseWith(reason, /*drop_queue=*/false); }
  // The Link is gone.
  void Drop();
  void Cancel();
  LinkStats stats() const;
  const std::string& peer() const { return peer_; }
  // The handler has a budget, and its peer is not known yet.
  bool is_stranger() const;

  // --- For the reactor, from its reactions. OnRead, OnReadEnd and OnDone come one after the other.
  void OnRead(const grpc::ByteBuffer& bytes);
  // Called after OnRead: whether to read on. No: Operations::Read is called when the receiver has
  // room.
  bool MayRead();
  void OnReadEnd() { StreamOver(/*was_writing=*/false); }
  void OnCancelled() { StreamOver(/*was_writing=*/false); }
  void OnWritten(bool ok);
  // The reactor must not be used any more.
  void Detach();
  // Called after Detach. `status`: the stream's, on the dialer's side.
  void OnDone(const std::optional<absl::Status>& status);

 private:
  // The operation to start once the mutex is released, with all that it needs of the guarded
  // members.
  struct Next {
    enum class Kind { kNothing, kWrite, kEnd };
    Kind kind = Kind::kNothing;
    Operations* operations = nullptr;
    const grpc::ByteBuffer* frame = nullptr;  // kWrite
    grpc::WriteOptions options;               // kWrite
    absl::Status status;                      // kEnd
  };
  struct Queued {
    grpc::ByteBuffer bytes;
    int64_t size = 0;  // encoded
    // The cost against the limit; 0 for the frame that says why we close, which is not counted.
    int64_t cost = 0;
  };

  // The result must be started, once the mutex is released.
  Next DecideNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void StartNext(const Next& next);
  void CloseWith(const absl::Status& reason, bool drop_queue);
  void StreamOver(bool was_writing);
  void ResumeReading();
  std::shared_ptr<ReceiveBudget> Budget();
  void StartCloseTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Constant after construction.
  const Role role_;
  const std::string peer_;
  const std::shared_ptr<StreamRegistry> registry_;

  // --- Set up once, then used by reactions only.
  std::unique_ptr<LinkHandler> handler_;

  // --- Set by Distrust, used by reactions only.
  bool is_trusted_ = true;
  absl::Status refusal_;

  // --- Counters, for any thread.
  std::atomic<int64_t> bytes_out_{0}, frames_out_{0}, bytes_in_{0}, frames_in_{0};

  mutable Mutex mutex_;
  ConditionVariable unpinned_;
  // The handler's; looked up again as long as there is none, and after Trust.
  std::shared_ptr<ReceiveBudget> budget_ ABSL_GUARDED_BY(mutex_);
  // Valid while ended_ is false or writing_ is true, because then OnDone cannot come; else only
  // under a pin.
  Operations* operations_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int pins_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queue_cost_ ABSL_GUARDED_BY(mutex_) = 0;
  // Being written while writing_. gRPC reads its bytes without the mutex until OnWritten.
  Queued current_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // No read is outstanding until the receiver has room.
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads that are calling Operations::Read, for which End must wait.
  int resuming_ ABSL_GUARDED_BY(mutex_) = 0;
  // The listener is making up its mind.
  bool is_accepting_ ABSL_GUARDED_BY(mutex_) = false;
  // The Link is gone.
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
  // Nothing more is queued.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Closed by this end: queued frames are sent, then the stream ends.
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // The stream carries nothing more.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  // End was or is being called.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // No more OnFrame.
  bool silenced_ ABSL_GUARDED_BY(mutex_) = false;
  // The status with which a listener ends the stream.
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
  // The reason for OnClosed; the first one counts.
  std::optional<absl::Status> reason_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Alarm> close_timer_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Alarm> trust_timer_ ABSL_GUARDED_BY(mutex_);
};

// The Link of a stream.
class GrpcLink final : public Link {
 public:
  explicit GrpcLink(std::shared_ptr<StreamState> stream) : stream_(std::move(stream)) {}
  ~GrpcLink() override { stream_->Drop(); }

  absl::Status Send(v1::Frame frame, Payload payload) override {
    return stream_->Send(frame, payload);
  }
  void Close(absl::Status reason) override;
  LinkStats stats() const override { return stream_->stats(); }
  std::string peer() const override { return stream_->peer(); }

 private:
  const std::shared_ptr<StreamState> stream_;
};

}  // namespace tutti::transport
