// One request of a ModelStreamInfer stream: its answer, until it is written. What waits to be
// written is merged by output.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "door/byte_budget.h"
#include "door/output_stream.h"
#include "gateway/grpc/forwarder.h"
#include "gateway/kserve/grpc/infer_call.h"

namespace tutti::gateway {

// Thread: any.
class InferAsked : public door::OutputStream, public std::enable_shared_from_this<InferAsked> {
 public:
  // There is more to be written, by so many bytes. Called without a lock of the request's.
  using OnMore = std::function<void(const std::shared_ptr<InferAsked>&, int64_t bytes)>;
  // The messages that are to be written now, in order.
  struct Said {
    std::vector<grpc::ByteBuffer> messages;
    bool is_over = false;  // with these
    int64_t bytes = 0;     // as OnMore counted them
  };

  // REQUIRES: what is pointed to outlives the request
  InferAsked(const InferRequest& request, const std::string& tenant, InferCounts* counts,
             door::Door* door, OnMore on_more);

  // Keeps the request's charge until its end. False: no answer is wanted any more.
  bool Attach(door::ByteBudget::Charge charge, Forwarder::Cancel cancel);
  // No answer is wanted any more.
  void Leave();

  void Write(v1::GenerateResponse response) override;
  void Finish(absl::Status status) override;
  Said Take();
  // Its caller has left more of it unread than so much for each output.
  bool HasMoreThan(int64_t bytes);

 private:
  void EndLocked(const absl::Status& status, Said* said) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int32_t outputs_;
  const OnMore on_more_;
  Mutex mutex_;
  InferProgress progress_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::GenerateResponse> pending_ ABSL_GUARDED_BY(mutex_);
  int64_t unread_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // behind what is pending
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool unwanted_ ABSL_GUARDED_BY(mutex_) = false;
  Forwarder::Cancel cancel_ ABSL_GUARDED_BY(mutex_);
  door::ByteBudget::Charge charge_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::gateway
