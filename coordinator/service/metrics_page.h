// The page that the coordinator answers a scrape with: the engine's status, times of requests, this
// process.
//
// Thread: the listener's of metrics/listener.h, which may wait.
#pragma once

#include <string>
#include <vector>

#include "coordinator/metrics/request_metrics.h"
#include "coordinator/metrics/step_metrics.h"
#include "coordinator/service/engine_loop.h"
#include "coordinator/service/running_grammars.h"
#include "door/door.h"
#include "metrics/process_metrics.h"
#include "metrics/span_writer.h"

namespace tutti::coordinator {

struct MetricsPage {
  EngineLoop* engine;
  const RequestMetrics* requests;
  const StepMetrics* steps;
  const door::Door* door;
  const RunningGrammars* grammars;
  const metrics::SpanWriter* spans;  // null: nothing is traced
  std::vector<metrics::CertificateFile> certificates;
  std::string model;        // its name
  bool vllm_names = false;  // beside ours

  // An engine that does not answer within metrics::kScrapePatience is left out, and said to be.
  std::string Write() const;
};

}  // namespace tutti::coordinator
