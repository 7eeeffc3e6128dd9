// The gRPC side of one Generate call: an OutputStream that a client reads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "coordinator/service/output_stream.h"

namespace tutti::coordinator {

grpc::Status ToGrpc(const absl::Status& status);
// The bytes of a message, for methods that speak raw bytes.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Trailing metadata of a refusal: after how many milliseconds to try again.
inline constexpr char kRetryAfterMetadata[] = "retry-after-ms";

// Shared by the reactor and the output hub; outlives the reactor. One write is outstanding at a
// time; responses that come meanwhile are merged into one per output.  Thread: any.
class GenerateStream : public OutputStream {
 public:
  using OnClientGone = std::function<void()>;

  // Makes the stream and its reactor, which frees itself when gRPC is done with the call.
  // REQUIRES: `context` is the call's.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(grpc::CallbackServerContext* context,
                                                           std::shared_ptr<GenerateStream>* stream);

  // Calls `on_client_gone` once, when the client leaves. False: it has already left, and nothing is
  // kept.
  bool Attach(OnClientGone on_client_gone);

  void Write(v1::GenerateResponse response) override;
  void Finish(absl::Status status) override;

 private:
  class Reactor;
  void OnWriteDone(bool ok);
  void OnCancel();
  // The calls to make once the lock is released: gRPC may call back inside StartWrite and Finish.
  struct Next {
    bool write = false;
    std::optional<absl::Status> finish;
  };
  Next NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Next& next) ABSL_LOCKS_EXCLUDED(mutex_);

  // The part of an output that no write has begun to send.
  struct Pending {
    v1::GenerateResponse response;
    int64_t bytes = 0;  // of its parts before they were merged
  };
  void MergeLocked(v1::GenerateResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Both valid until Do({.finish}) was called, which happens once and only while no write is
  // outstanding.
  Reactor* reactor_ = nullptr;
  grpc::CallbackServerContext* context_ = nullptr;

  Mutex mutex_;
  OnClientGone on_client_gone_ ABSL_GUARDED_BY(mutex_);
  // At most one per output, the longest waiting first.
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  int64_t pending_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool client_gone_ ABSL_GUARDED_BY(mutex_) = false;
  // Belongs to the write in progress.
  grpc::ByteBuffer current_;
};

}  // namespace tutti::coordinator
