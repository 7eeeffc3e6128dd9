// The number of requests of KServe's protocol, and how long they took.
#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "inference/grpc_service.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// Thread: any.
class InferCounts {
 public:
  // A request has its end after `took`. `timing`: the service's own times of it.
  void Add(const absl::Status& end, Duration took, const v1::Timing& timing, int64_t now_unix_ms);
  inference::ModelStatisticsResponse Describe(const std::string& model) const;

 private:
  mutable Mutex mutex_;
  inference::ModelStatistics counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::gateway
