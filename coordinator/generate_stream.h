// The gRPC side of one Generate call: an OutputStream that a client reads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/ids.h"
#include "coordinator/output_stream.h"

namespace tutti {

grpc::Status ToGrpc(const absl::Status& status);
// The bytes of a message, for methods that speak raw bytes.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Shared by the reactor and the output hub; outlives the reactor. One write is outstanding at a
// time; what comes meanwhile is merged into one pending response.  Thread: any.
class GenerateStream : public OutputStream {
 public:
  using OnClientGone = std::function<void(RequestId)>;

  // Makes the stream and its reactor, which frees itself when gRPC is done with the call.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(OnClientGone on_client_gone,
                                                           std::shared_ptr<GenerateStream>* stream);

  // Names the request whose end the client's leaving is. False: the client has already left;
  // nothing should start.
  bool Attach(RequestId request);

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

  OnClientGone on_client_gone_;
  // Valid until Do({.finish}) was called, which happens once and only while no write is
  // outstanding.
  Reactor* reactor_ = nullptr;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<RequestId> request_;
  std::optional<v1::GenerateResponse> pending_;
  std::optional<absl::Status> final_status_;
  bool writing_ = false;
  bool finished_ = false;
  bool client_gone_ = false;
  // Touched only by the write in progress.
  grpc::ByteBuffer current_;
};

}  // namespace tutti
