// For tests of the engine's loop: what it tells goes nowhere.
#pragma once

#include "coordinator/service/engine_loop.h"

namespace tutti::coordinator {

class NullSink : public EngineSink {
 public:
  void OnTokens(DeliverTokens) override {}
  void OnFinish(FinishRequest) override {}
  void OnServing(const ServingChanged&) override {}
};

}  // namespace tutti::coordinator
