// Scenarios: events for the engine, and the engine's answers, as text.
//
// A scenario is a list of blocks. A block is some commands, a line "----", and the engine's
// actions; a blank line ends it. Lines that begin with # are comments. All commands of a block
// happen at one time and the engine then advances once, so a block is one turn of the engine's
// loop.
//
//   request r1 prompt=20 max=3
//   ----
//   w1 w2 <- plan 1, 20 rows: new s1 of 20; s1 0+20 blocks 0,1 sample
//
// Commands:
//   engine KEY=N...           makes a new engine; the keys are in scenario_command.cc
//   join W [KEY=VALUE...]     a worker says hello; memory=, class=, build=, cluster=, model=,
//                             protocol=
//   ready W...                the worker has loaded its shard
//   keep W...                 the same, and it has kept its K/V of the epoch that it was asked for,
//                             and the rows of all blocks
//   done W...                 the worker has done its next step
//   result [tokens=1,2,...]   the last stage has done its next step; a sequence whose token is
//                             "nan" is poisoned. Without tokens, the token at position p is p
//   step [tokens=...]         all stages have done the oldest step
//                             result and step take pipeline=N, 0 if not said, and took=US. Of a
//                             sequence with guesses tokens are taken as long as they are right
//   beat W...                 a beat with progress
//   fail W WORDS              the worker reports a failure
//   lost W WORDS              the worker's link closed
//   send W epoch=N KIND ...   a frame made by hand: done step=N | ready | beat progress=N |
//                             result step=N sequence=N position=N token=N
//   request R prompt=N max=N [stop=1,2] [deadline=MS] [priority=N] [tenant=N] [like=R] [same=N]
//                             like=, same=: its first N tokens are those of the prompt of R and,
//                             after its end, of the answer to it when the token at position p is p
//   cancel R | stop_string R | drain
//   leave W                   the worker was told to stop
//   wait MS                   time passes, before the commands after it
//   status                    the status that an operator sees
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/engine.h"
#include "coordinator/events.h"
#include "tests/support/probe_answers.h"
#include "tests/support/scenario_command.h"

namespace tutti::tests {

class Scenario {
 public:
  // Runs the commands of one block. The text has the engine's actions, or the mistake in the
  // commands.
  std::string RunBlock(std::string_view commands);

 private:
  // A worker, and its last orders.
  struct Node {
    std::string id;
    uint64_t epoch = 0;
    uint64_t kv_epoch = 0;
    uint32_t pipeline = 0;
    int32_t stage = -1;
    int32_t num_blocks = 0;
    uint64_t done = 0;
    uint64_t progress = 0;
  };

  absl::Status Run(const ScenarioCommand& command, const std::string& line);
  absl::Status Join(const ScenarioCommand& command);
  absl::Status Arrive(const ScenarioCommand& command);
  std::vector<TokenId> Prompt(const ScenarioCommand& command, uint64_t id) const;
  absl::Status Send(const ScenarioCommand& command);
  static v1::Frame ReadyFrame(const Node& node, bool keeps);
  absl::Status DoStep(const std::string& worker);
  static std::string PipelineText(const v1::PipelineStatus& pipeline);
  absl::Status Result(const ScenarioCommand& command);
  absl::Status WholeStep(const ScenarioCommand& command);
  absl::Status Status();
  void Give(coordinator::Event event);
  void Advance();
  void SendFrame(const std::string& worker, v1::Frame frame) {
    Give(coordinator::WorkerFrame{link_of_[worker], std::move(frame)});
  }
  void Observe();
  Node* AtStage(uint32_t pipeline, int32_t stage);
  static std::string Rest(const std::string& line, size_t words);

  std::unique_ptr<coordinator::Engine> engine_;
  Instant now_{};
  std::vector<coordinator::Action> actions_;
  size_t observed_ = 0;
  std::string extra_;                                    // text of commands that only look
  std::map<std::string, coordinator::LinkKey> link_of_;  // the latest link of each worker
  std::map<coordinator::LinkKey, Node> nodes_;
  uint64_t next_link_ = 1;
  // The state told in the current epoch of a pipeline.
  struct Told {
    std::map<uint64_t, v1::StepPlan> plans;
    int32_t num_stages = 0;
  };
  std::map<uint32_t, Told> told_;
  std::map<uint64_t, std::vector<TokenId>> prompts_;  // of each request
  ProbeAnswers probes_;  // workers answer them at once; a scenario does not show them
};

// Runs a whole scenario and returns it with the engine's real actions.
std::string RunScenario(std::string_view text);

}  // namespace tutti::tests
