// A call of VllmEngine's Generate: the service's answer in that protocol's messages.
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "door/grpc/generate_stream.h"
#include "gateway/grpc/forwarder.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// Thread: any.
class EngineCall : public door::GenerateStream {
 public:
  // Called before anything is written: how the answer to `request` is told.
  void SetRequest(bool stream, const v1::GenerateRequest& request);
  // The end of the request at the service. False: nobody wants its answer any more.
  bool AttachCall(door::ByteBudget::Charge charge, Forwarder::Cancel cancel);
  // Ends the outputs that have not ended, as aborted.
  void Abort();

  void Write(v1::GenerateResponse response) override;
  // Names fields as the caller does.
  void Finish(absl::Status status) override;

 private:
  uint32_t outputs_ = 1;
  bool stream_ = true;
  std::atomic<int64_t> bytes_{0};
  Mutex call_mutex_;
  Forwarder::Cancel cancel_ ABSL_GUARDED_BY(call_mutex_);
};

}  // namespace tutti::gateway
