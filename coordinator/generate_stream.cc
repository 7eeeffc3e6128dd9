#include "coordinator/generate_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti {

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  std::string bytes;
  message.SerializeToString(&bytes);
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

class GenerateStream::Reactor : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit Reactor(std::shared_ptr<GenerateStream> stream) : stream_(std::move(stream)) {}
  void OnWriteDone(bool ok) override { stream_->OnWriteDone(ok); }
  void OnCancel() override { stream_->OnCancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<GenerateStream> stream_;
};

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateStream::Start(
    OnClientGone on_client_gone, std::shared_ptr<GenerateStream>* stream) {
  *stream = std::make_shared<GenerateStream>();
  (*stream)->on_client_gone_ = std::move(on_client_gone);
  (*stream)->reactor_ = new Reactor(*stream);
  return (*stream)->reactor_;
}

bool GenerateStream::Attach(RequestId request) {
  std::lock_guard lock(mutex_);
  if (client_gone_) return false;
  request_ = request;
  return true;
}

void GenerateStream::Write(v1::GenerateResponse response) {
  Next next;
  {
    std::lock_guard lock(mutex_);
    if (finished_ || final_status_) return;
    if (!pending_) {
      pending_ = std::move(response);
    } else {
      pending_->mutable_text()->append(response.text());
      pending_->mutable_tokens()->MergeFrom(response.tokens());
      if (response.has_finish())
        *pending_->mutable_finish() = std::move(*response.mutable_finish());
    }
    // Measured only while a write waits for the client: a client that reads never gets here with
    // much.
    if (writing_ && static_cast<int64_t>(pending_->ByteSizeLong()) > kUnreadOutputBytesMax) {
      pending_.reset();
      final_status_ = absl::ResourceExhaustedError(
          absl::StrCat("the client left more than ", kUnreadOutputBytesMax, " bytes unread"));
    }
    next = NextLocked();
  }
  Do(next);
}

void GenerateStream::Finish(absl::Status status) {
  Next next;
  {
    std::lock_guard lock(mutex_);
    if (finished_ || final_status_) return;
    final_status_ = std::move(status);
    next = NextLocked();
  }
  Do(next);
}

void GenerateStream::OnWriteDone(bool ok) {
  Next next;
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) pending_.reset();  // the client is gone; OnCancel says so
    next = NextLocked();
  }
  Do(next);
}

void GenerateStream::OnCancel() {
  Next next;
  std::optional<RequestId> request;
  {
    std::lock_guard lock(mutex_);
    client_gone_ = true;
    request = request_;
    pending_.reset();
    if (!final_status_) final_status_ = absl::CancelledError("the client left");
    next = NextLocked();
  }
  Do(next);
  if (request) on_client_gone_(*request);
}

GenerateStream::Next GenerateStream::NextLocked() {
  Next next;
  if (writing_ || finished_) return next;
  if (pending_) {
    current_ = Serialize(*pending_);
    pending_.reset();
    writing_ = next.write = true;
  } else if (final_status_) {
    finished_ = next.finish = true;
  }
  return next;
}

void GenerateStream::Do(Next next) {
  if (next.write) reactor_->StartWrite(&current_);
  if (next.finish) reactor_->Finish(ToGrpc(*final_status_));
}

}  // namespace tutti
