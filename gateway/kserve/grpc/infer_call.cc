#include "gateway/kserve/grpc/infer_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/ids.h"
#include "gateway/grpc/tenant_mark.h"

namespace tutti::gateway {

InferProgress::InferProgress(const InferRequest& request, const std::string& tenant,
                             InferCounts* counts, door::Door* door)
    : answer_(request), paths_(request.paths), counts_(counts), door_(door) {
  record_.Identify(request.id, RequestId(), TenantMark(tenant));
}

absl::StatusOr<std::vector<inference::ModelInferResponse>> InferProgress::Take(
    const v1::GenerateResponse& message) {
  record_.Count(message);
  return answer_.Take(message);
}

absl::Status InferProgress::End(const absl::Status& status) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  counts_->Add(status, clock_.Now() - begin_, answer_.timing(),
               std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count());
  record_.LogEnd(status, &door_->refusal_lines);
  return RenameField(status, paths_);
}

absl::StatusOr<Forwarder::Cancel> BeginInfer(std::string_view method, InferRequest request,
                                             GrpcCaller caller, Forwarder* forwarder,
                                             std::shared_ptr<door::OutputStream> to) {
  if (request.timeout) {
    caller.deadline = std::min<Instant>(caller.deadline, SystemClock().Now() + *request.timeout);
  }
  return forwarder->Begin(method, std::move(request.call), caller, std::move(to));
}

void InferCall::SetProgress(std::unique_ptr<InferProgress> progress) {
  const MutexLock lock(&infer_mutex_);
  progress_ = std::move(progress);
}

bool InferCall::Attach(door::ByteBudget::Charge request, Forwarder::Cancel cancel) {
  const MutexLock lock(&infer_mutex_);
  if (ended()) return false;
  request_ = std::move(request);
  cancel_ = std::move(cancel);
  return true;
}

void InferCall::Write(v1::GenerateResponse response) {
  absl::Status too_much;
  {
    const MutexLock lock(&infer_mutex_);
    if (progress_ == nullptr) return;
    auto taken = progress_->Take(response);
    too_much = taken.status();
    if (taken.ok() && !taken->empty()) answer_ = *std::move(taken);
  }
  if (!too_much.ok()) End(too_much);
}

void InferCall::Finish(absl::Status status) {
  std::vector<inference::ModelInferResponse> answer;
  {
    const MutexLock lock(&infer_mutex_);
    if (progress_ == nullptr) return;
    answer = std::move(answer_);
    if (status.ok() && answer.empty()) status = absl::InternalError("the service gave no answer");
    status = progress_->End(status);
    progress_ = nullptr;
  }
  if (status.ok()) {
    Reply(answer.front());
  } else {
    UnaryCall::End(status);
  }
}

void InferCall::End(absl::Status status) {
  Forwarder::Cancel cancel;
  door::ByteBudget::Charge request;  // given back without the lock
  {
    const MutexLock lock(&infer_mutex_);
    if (progress_ != nullptr) status = progress_->End(status);
    progress_ = nullptr;
  }
  UnaryCall::End(status);
  {
    const MutexLock lock(&infer_mutex_);  // what was attached before the call had its end
    cancel = std::exchange(cancel_, nullptr);
    request = std::move(request_);
  }
  if (cancel) cancel();
}

}  // namespace tutti::gateway
