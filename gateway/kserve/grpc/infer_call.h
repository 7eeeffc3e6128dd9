// One request of KServe's protocol under way, of a call of its own or of a stream: what there is to
// say of it at its end.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "door/door.h"
#include "door/grpc/client_call.h"
#include "door/output_stream.h"
#include "door/request_log.h"
#include "gateway/grpc/forwarder.h"
#include "gateway/kserve/infer_answer.h"
#include "gateway/kserve/infer_counts.h"

namespace tutti::gateway {

// Its answer, as far as it has come, and its line in the log.  Thread: one at a time.
class InferProgress {
 public:
  // REQUIRES: the others outlive it
  InferProgress(const InferRequest& request, const std::string& tenant, InferCounts* counts,
                door::Door* door);

  absl::StatusOr<std::vector<inference::ModelInferResponse>> Take(
      const v1::GenerateResponse& message);
  // Its end, once: counted and logged. The result names fields as the caller does.
  absl::Status End(const absl::Status& status);
  const InferAnswer& answer() const { return answer_; }

 private:
  InferAnswer answer_;
  const FieldPaths paths_;
  InferCounts* const counts_;
  door::Door* const door_;
  const SystemClock clock_{};
  const Instant begin_ = clock_.Now();
  door::RequestRecord record_;
};

// Gives a request to the service; as Forwarder::Begin.
absl::StatusOr<Forwarder::Cancel> BeginInfer(std::string_view method, InferRequest request,
                                             GrpcCaller caller, Forwarder* forwarder,
                                             std::shared_ptr<door::OutputStream> to);

// A call of ModelInfer.  Thread: any.
class InferCall : public door::UnaryCall, public door::OutputStream {
 public:
  // Called before anything is written.
  void SetProgress(std::unique_ptr<InferProgress> progress);
  // `request`: held until the call has its end. False: it has; nothing is kept.
  bool Attach(door::ByteBudget::Charge request, Forwarder::Cancel cancel);

  void Write(v1::GenerateResponse response) override;
  void Finish(absl::Status status) override;
  void End(absl::Status status) override;

 private:
  Mutex infer_mutex_;
  std::unique_ptr<InferProgress> progress_ ABSL_GUARDED_BY(infer_mutex_);
  std::vector<inference::ModelInferResponse> answer_ ABSL_GUARDED_BY(infer_mutex_);
  door::ByteBudget::Charge request_ ABSL_GUARDED_BY(infer_mutex_);
  Forwarder::Cancel cancel_ ABSL_GUARDED_BY(infer_mutex_);
};

}  // namespace tutti::gateway
