// Hands spans on, from a thread of its own: to a file, to a collector, or both. What waits is
// bounded, and what finds no room is dropped and counted: nobody waits for a trace.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "metrics/exposition.h"
#include "metrics/http_call.h"
#include "metrics/span.h"

namespace tutti::metrics {

struct TraceOptions {
  std::string file;      // OTLP's JSON is appended here, a batch a line; empty: nowhere
  std::string endpoint;  // of a collector, http://HOST:PORT; empty: nowhere
};

// Thread: any.
class SpanWriter {
 public:
  // `service`: the program's name. Null where there is nowhere to write to. Errors name the flag.
  static absl::StatusOr<std::unique_ptr<SpanWriter>> Start(std::string service,
                                                           const TraceOptions& options);
  // Hands on what waits, for as long as one batch may take.
  ~SpanWriter();

  // Does not wait.
  void Add(std::vector<Span> spans);
  void WriteMetrics(Exposition* to) const;

 private:
  SpanWriter(std::string service, int file, HttpUrl collector);
  void Run();
  void HandOn(const std::vector<Span>& spans, bool ending);

  const std::string service_;
  const int file_;           // -1: none
  bool is_cut_ = false;      // the file's last line; the thread's own
  const HttpUrl collector_;  // without a host: none
  std::atomic<uint64_t> written_{0}, no_room_{0}, failed_{0};
  Mutex mutex_;
  ConditionVariable changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Span> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tutti::metrics
