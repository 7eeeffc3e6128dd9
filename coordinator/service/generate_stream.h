// The gRPC side of one Generate call: an OutputStream that a client reads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "coordinator/service/output_stream.h"

namespace tutti::coordinator {

grpc::Status ToGrpc(const absl::Status& status);
// The bytes of a message, for methods that speak raw bytes.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Trailing metadata of a refusal: after how many milliseconds to try again.
inline constexpr char kRetryAfterMetadata[] = "retry-after-ms";

// Shared by the reactor and the output hub; outlives the reactor. One write is outstanding at a
// time; what comes meanwhile is merged into one pending response per output.  Thread: any.
class GenerateStream : public OutputStream {
 public:
  using OnClientGone = std::function<void()>;

  // Makes the stream and its reactor, which frees itself when gRPC is done with the call.
  // REQUIRES: `context` is the call's.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(grpc::CallbackServerContext* context,
                                                           std::shared_ptr<GenerateStream>* stream);

  // Says what to do, once, when the client leaves. False, with nothing kept: it has already left.
  bool Attach(OnClientGone on_client_gone);

  void Write(v1::GenerateResponse response) override;
  void Finish(absl::Status status) override;

 private:
  class Reactor;
  void OnWriteDone(bool ok);
  void OnCancel();
  // What to do once the lock is let go: gRPC may call back inside StartWrite and Finish.
  struct Next {
    bool write = false;
    bool finish = false;
  };
  Next NextLocked();
  void Do(Next next);

  // Of an output, what no write has taken yet.
  struct Pending {
    v1::GenerateResponse response;
    int64_t bytes = 0;  // of its parts before they were merged
  };
  void MergeLocked(v1::GenerateResponse response);

  // Both valid until Do({.finish}) was called, which happens once and only while no write is
  // outstanding.
  Reactor* reactor_ = nullptr;
  grpc::CallbackServerContext* context_ = nullptr;

  std::mutex mutex_;
  // Guarded by mutex_.
  OnClientGone on_client_gone_;
  std::deque<Pending> pending_;  // at most one per output, the longest waiting first
  int64_t pending_bytes_ = 0;
  std::optional<absl::Status> final_status_;
  bool writing_ = false;
  bool finished_ = false;
  bool client_gone_ = false;
  // Touched only by the write in progress.
  grpc::ByteBuffer current_;
};

}  // namespace tutti::coordinator
