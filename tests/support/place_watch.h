// Watches that places of pipelines are shared: no request waits for long beside others that should
// have given way to it.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "coordinator/engine.h"

namespace tutti::tests {

class PlaceWatch {
 public:
  // A look after a turn of the engine. What is wrong; empty: nothing.
  std::string Check(coordinator::Engine* engine);

 private:
  // By the pipeline that it waits for: steps of that one when it was first found so.
  std::map<std::pair<RequestId, PipelineId>, uint64_t> since_;
};

}  // namespace tutti::tests
