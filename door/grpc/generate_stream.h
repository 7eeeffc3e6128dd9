// The call of one Generate request: an OutputStream that a client reads.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "door/grpc/client_call.h"
#include "door/output_stream.h"
#include "door/request_log.h"
#include "door/stream_trace.h"
#include "door/unread_output.h"

namespace tutti::door {

// One write is outstanding at a time; responses that come meanwhile are merged into one per output,
// as the bytes that the client will read.  Thread: any.
class GenerateStream : public ClientCall, public OutputStream {
 public:
  using OnUnwanted = std::function<void()>;

  // Calls `on_unwanted` once, when the client leaves or has left too much unread. False: that has
  // already happened, and nothing is kept. `prompt` is held until the stream ends; the stream has
  // `n` outputs.
  bool Attach(int32_t n, ByteBudget::Charge prompt, OnUnwanted on_unwanted);

  // The caller and the request: for the log, which gets one line when the stream has its end.
  void Identify(const std::string& request_id, RequestId id, Hash128 tenant);
  // Called before anything is written.
  void SetTrace(StreamTrace trace);

  // The messages of another protocol that the client reads instead of a response: none, or several.
  using Translate = std::function<std::vector<grpc::ByteBuffer>(v1::GenerateResponse)>;
  // Called for every response in order, one at a time and without waiting for anything. Unset: the
  // client reads the responses. Before anything is written.
  // `is_whole`: these are whole answers of any size, not pieces that a client should have read. One
  // that is not read in time is given up as that of a UnaryCall is.
  void SetTranslate(Translate translate, bool is_whole = false);

  void Write(v1::GenerateResponse response) override;
  void Finish(absl::Status status) override;
  void End(absl::Status status) override { Finish(std::move(status)); }
  bool ended() const override;

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void SetLingerLocked(Duration delay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnLinger();
  void OnWholeUnread();
  // Ends the call although its last write has not been read.
  void ResetUnread() ABSL_LOCKS_EXCLUDED(mutex_);
  // The calls to make once the lock is released: gRPC may call back inside StartWrite and Finish.
  struct Next {
    bool write = false;
    std::optional<absl::Status> finish;
    OnUnwanted unwanted;
    std::optional<RequestRecord> record;  // to be logged
    std::optional<StreamTrace> trace;     // to be written
    absl::Status end;
  };
  void FillNextLocked(Next* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Next& next) ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: the stream has no end yet
  void SetEndLocked(absl::Status status, Next* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From now on nothing is wanted of the engine.
  OnUnwanted GiveUpLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The part of an output that no write has begun to send.
  struct Pending {
    uint32_t output = 0;
    uint32_t index = 0;
    std::string text;
    std::string tokens;  // the encoded field, once for each token
    std::optional<v1::Finish> finish;
    std::optional<v1::Started> started;

    int64_t bytes() const;
    grpc::ByteBuffer Encoded() const;
    v1::GenerateResponse Whole() const;
  };
  // The next message of what is pending; false: there is none.
  bool TakeMessageLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MergeLocked(v1::GenerateResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  UnreadOutput& UnreadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts what the client has not read; false when that is too much.
  bool CountUnreadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same of whole answers, which count once they have not been read in time.
  bool CountWholeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t WholeBytesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  OnUnwanted on_unwanted_ ABSL_GUARDED_BY(mutex_);
  // The messages that wait, at most one per output, the longest waiting first.
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  Translate translate_ ABSL_GUARDED_BY(mutex_);
  bool is_whole_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<grpc::ByteBuffer> translated_ ABSL_GUARDED_BY(mutex_);  // of one response
  int64_t pending_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t n_ ABSL_GUARDED_BY(mutex_) = 1;
  ByteBudget::Charge prompt_ ABSL_GUARDED_BY(mutex_);
  std::optional<UnreadOutput> unread_ ABSL_GUARDED_BY(mutex_);  // once anything lay there
  RequestRecord record_ ABSL_GUARDED_BY(mutex_);
  StreamTrace trace_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool resetting_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool unwanted_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Alarm linger_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm whole_unread_ ABSL_GUARDED_BY(mutex_);
  // One that had fired when it was cancelled and set again calls too early.
  Instant linger_due_ ABSL_GUARDED_BY(mutex_);
  Instant whole_unread_due_ ABSL_GUARDED_BY(mutex_);
  // Belongs to the write in progress.
  grpc::ByteBuffer current_;
};

}  // namespace tutti::door
