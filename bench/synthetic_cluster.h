// The workers of all pipelines seen from the engine, and clients beside them: workers do every step
// at once, and say so when asked. Nothing here waits, and time stands still unless it is moved.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "coordinator/engine.h"
#include "coordinator/metrics/step_metrics.h"
#include "tests/support/probe_answers.h"

namespace tutti::bench {

struct SyntheticLoad {
  int32_t pipelines = 1;
  int32_t sequences = 1;  // the most that live at once
  int32_t stages = 2;
  int32_t running = 0;  // of the sequences of each pipeline at most; 0: all
  int32_t prompt_tokens = 64;
  int32_t output_tokens = 0;  // of an answer; 0: without end
  bool guesses = false;       // of next tokens, nearly all of which are right in the end
  int64_t row_us = 0;         // of a step's time, for each of its rows; 0: steps say no time
};

class SyntheticCluster {
 public:
  // All pipelines serve; no request has come yet.
  explicit SyntheticCluster(const SyntheticLoad& load);

  // So many new requests, none of which begins as another does. `change` may give them a tenant, a
  // deadline or other outputs.
  std::vector<coordinator::Event> NewRequests(
      int32_t count, const std::function<void(coordinator::RequestArrived*)>& change = nullptr);
  // They arrive at once, find their pipelines and are planned. The seconds that it took the engine.
  double Arrive(std::vector<coordinator::Event> requests);

  // The next pipeline, in turn, does its oldest step. The seconds that the engine took to hear of
  // it, and to plan the next. Where answers end, another request arrives for each, outside of these
  // seconds.  REQUIRES: some step is under way
  struct Turn {
    double result_seconds = 0;
    double plan_seconds = 0;
    int64_t tokens = 0;
    int64_t plan_bytes = 0;  // of the next plan, to one stage
  };
  Turn DoStep();
  // Steps of all pipelines, until each sequence that runs generates, and for a while longer.
  void WarmUp();

  // Any other event, and what the engine does about it.
  void Handle(coordinator::Event event);
  void Advance();
  void MoveTime(Duration by) { now_ += by; }

  // Tokens that a sequence may have, prompt and output, so that all fit.
  static int32_t TokensEach(int32_t sequences);
  static coordinator::LinkKey LinkOf(int32_t pipeline, int32_t stage, int32_t stages) {
    return coordinator::LinkKey(static_cast<uint64_t>(pipeline) * stages + stage + 1);
  }

  const coordinator::Engine& engine() const { return engine_; }
  const coordinator::StepMetrics& step_metrics() const { return step_metrics_; }
  Instant now() const { return now_; }

 private:
  struct Pipeline {
    uint64_t epoch = 0;
    std::deque<v1::StepPlan> plans;
  };

  static coordinator::EngineOptions OptionsOf(const SyntheticLoad& load,
                                              coordinator::StepMetrics* step_metrics);
  void Join();
  coordinator::RequestArrived NewRequest();
  void ReplaceEnded();
  int64_t Observe();
  static v1::Frame Result(const v1::StepPlan& plan, uint64_t epoch, int64_t step_us);

  const SyntheticLoad load_;
  coordinator::StepMetrics step_metrics_;
  coordinator::Engine engine_;
  Instant now_{};
  std::vector<coordinator::Action> actions_;
  std::vector<Pipeline> pipelines_;
  tests::ProbeAnswers probes_;
  size_t turn_ = 0;
  uint64_t last_request_ = 0;
  int32_t ended_ = 0;  // and not replaced yet
};

}  // namespace tutti::bench
