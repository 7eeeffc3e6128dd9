#include "gateway/kserve/grpc/infer_asked.h"

#include <algorithm>
#include <utility>

#include "door/grpc/client_call.h"

namespace tutti::gateway {
namespace {

using door::Serialize;

void Add(std::vector<inference::ModelInferResponse> responses,
         std::vector<grpc::ByteBuffer>* messages) {
  for (inference::ModelInferResponse& response : responses) {
    inference::ModelStreamInferResponse message;
    *message.mutable_infer_response() = std::move(response);
    messages->push_back(Serialize(message));
  }
}

void Merge(v1::GenerateResponse response, std::deque<v1::GenerateResponse>* pending) {
  for (v1::GenerateResponse& other : *pending) {
    if (other.output() != response.output() || other.has_finish()) continue;
    other.mutable_text()->append(response.text());
    other.mutable_tokens()->MergeFrom(response.tokens());
    if (response.has_finish()) *other.mutable_finish() = std::move(*response.mutable_finish());
    return;
  }
  pending->push_back(std::move(response));
}

}  // namespace

InferAsked::InferAsked(const InferRequest& request, const std::string& tenant, InferCounts* counts,
                       door::Door* door, OnMore on_more)
    : outputs_(static_cast<int32_t>(std::max(request.call.n(), 1u))),
      on_more_(std::move(on_more)),
      progress_(request, tenant, counts, door) {}

bool InferAsked::Attach(door::ByteBudget::Charge charge, Forwarder::Cancel cancel) {
  const MutexLock lock(&mutex_);
  if (unwanted_) return false;
  if (!end_) charge_ = std::move(charge);
  cancel_ = std::move(cancel);
  return true;
}

void InferAsked::Leave() {
  Forwarder::Cancel cancel;
  door::ByteBudget::Charge charge;  // given back without the lock
  {
    const MutexLock lock(&mutex_);
    unwanted_ = true;
    pending_.clear();
    cancel = std::exchange(cancel_, nullptr);
    if (end_) cancel = nullptr;  // there is nothing left to end
    charge = std::move(charge_);
    Said unused;
    EndLocked(absl::CancelledError("the client left"), &unused);
  }
  if (cancel) cancel();
}

void InferAsked::Write(v1::GenerateResponse response) {
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  {
    const MutexLock lock(&mutex_);
    if (end_ || unwanted_) return;
    unread_ += bytes;
    Merge(std::move(response), &pending_);
  }
  on_more_(shared_from_this(), bytes);
}

void InferAsked::Finish(absl::Status status) {
  door::ByteBudget::Charge charge;  // given back without the lock
  {
    const MutexLock lock(&mutex_);
    if (end_ || unwanted_) return;
    end_ = std::move(status);
    charge = std::move(charge_);
  }
  on_more_(shared_from_this(), 0);
}

void InferAsked::EndLocked(const absl::Status& status, Said* said) {
  if (std::exchange(is_over_, true)) return;
  said->is_over = true;
  const absl::Status end = progress_.End(status);
  if (end.ok()) {
    Add(progress_.answer().TakeFinal(), &said->messages);
  } else {
    said->messages.push_back(Serialize(progress_.answer().Fail(end)));
  }
}

InferAsked::Said InferAsked::Take() {
  Said said;
  const MutexLock lock(&mutex_);
  said.bytes = std::exchange(unread_, 0);
  for (const v1::GenerateResponse& response : std::exchange(pending_, {})) {
    if (is_over_) break;
    auto taken = progress_.Take(response);
    if (taken.ok()) {
      Add(*std::move(taken), &said.messages);
    } else {
      EndLocked(taken.status(), &said);
    }
  }
  if (end_) EndLocked(*end_, &said);
  return said;
}

bool InferAsked::HasMoreThan(int64_t bytes) {
  const MutexLock lock(&mutex_);
  return unread_ > bytes * outputs_;
}

}  // namespace tutti::gateway
