// The tie between a call's context and its caller's options.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <optional>

#include "base/clock.h"
#include "client/cancel_token.h"

namespace tutti::client {

// Ties a token to a call for as long as the call's context lives.
class CancelScope {
 public:
  CancelScope(CancelToken* token, grpc::ClientContext* context) : token_(token) {
    if (token_ == nullptr) return;
    const MutexLock lock(&token_->mutex_);
    token_->on_cancel_ = [context] { context->TryCancel(); };
    if (token_->cancelled_) context->TryCancel();
  }
  ~CancelScope() {
    if (token_ == nullptr) return;
    const MutexLock lock(&token_->mutex_);
    token_->on_cancel_ = nullptr;
  }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  CancelToken* const token_;
};

inline void SetDeadline(std::optional<Duration> timeout, grpc::ClientContext* context) {
  if (timeout) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::microseconds>(*timeout));
  }
}

}  // namespace tutti::client
