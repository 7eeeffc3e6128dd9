#include "coordinator/service/generate_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

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
    grpc::CallbackServerContext* context, std::shared_ptr<GenerateStream>* stream) {
  *stream = std::make_shared<GenerateStream>();
  (*stream)->context_ = context;
  (*stream)->reactor_ = new Reactor(*stream);
  return (*stream)->reactor_;
}

bool GenerateStream::Attach(OnClientGone on_client_gone) {
  const MutexLock lock(&mutex_);
  if (client_gone_) return false;
  on_client_gone_ = std::move(on_client_gone);
  return true;
}

// A client that reads has one message of an output waiting at most; one that does not gets them
// merged.
void GenerateStream::MergeLocked(v1::GenerateResponse response) {
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  pending_bytes_ += bytes;
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&response](const Pending& pending) {
        return pending.response.output() == response.output();
      });
  if (found == pending_.end()) {
    pending_.push_back({std::move(response), bytes});
    return;
  }
  found->bytes += bytes;
  found->response.mutable_text()->append(response.text());
  found->response.mutable_tokens()->MergeFrom(response.tokens());
  if (response.has_finish()) {
    *found->response.mutable_finish() = std::move(*response.mutable_finish());
  }
}

void GenerateStream::Write(v1::GenerateResponse response) {
  Next next;
  {
    const MutexLock lock(&mutex_);
    if (finished_ || final_status_) return;
    MergeLocked(std::move(response));
    if (writing_ && pending_bytes_ > kUnreadOutputBytesMax) {
      pending_.clear();
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
    const MutexLock lock(&mutex_);
    if (finished_ || final_status_) return;
    final_status_ = std::move(status);
    next = NextLocked();
  }
  Do(next);
}

void GenerateStream::OnWriteDone(bool ok) {
  Next next;
  {
    const MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) pending_.clear();  // the client is gone; OnCancel says so
    next = NextLocked();
  }
  Do(next);
}

void GenerateStream::OnCancel() {
  Next next;
  OnClientGone on_client_gone;
  {
    const MutexLock lock(&mutex_);
    client_gone_ = true;
    on_client_gone = std::move(on_client_gone_);
    on_client_gone_ = nullptr;
    pending_.clear();
    if (!final_status_) final_status_ = absl::CancelledError("the client left");
    next = NextLocked();
  }
  Do(next);
  if (on_client_gone) on_client_gone();
}

GenerateStream::Next GenerateStream::NextLocked() {
  Next next;
  if (writing_ || finished_) return next;
  if (!pending_.empty()) {
    current_ = Serialize(pending_.front().response);
    pending_bytes_ -= pending_.front().bytes;
    pending_.pop_front();
    writing_ = next.write = true;
  } else if (final_status_) {
    finished_ = true;
    next.finish = final_status_;
  }
  return next;
}

void GenerateStream::Do(const Next& next) {
  if (next.write) reactor_->StartWrite(&current_);
  if (!next.finish) return;
  if (const auto delay = RetryDelayOf(*next.finish)) {
    const int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(*delay).count();
    context_->AddTrailingMetadata(kRetryAfterMetadata, absl::StrCat(ms));
  }
  reactor_->Finish(ToGrpc(*next.finish));
}

}  // namespace tutti::coordinator
