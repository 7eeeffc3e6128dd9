// The parameters of one simulated run: everything follows from its seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "coordinator/engine_options.h"
#include "coordinator/limits.h"
#include "tests/support/oracle_stage.h"
#include "tests/support/sim_network.h"

namespace tutti::tests {

inline constexpr int32_t kSimVocab = 97;
inline constexpr Duration kSimBeat = std::chrono::milliseconds(250);
inline constexpr Duration kSimLease = std::chrono::milliseconds(1500);

// The smallest bound on a plan: room for ten sequences that run and one of 220 tokens that begins.
inline constexpr int64_t kSimPlanBytes = 1'600;

struct SimOptions {
  uint64_t seed = 0;
  bool trace = false;  // the engine's actions are printed

  // The pipelines.
  int32_t num_pipelines = 1;
  bool auto_pipelines = false;  // the engine is not told how many
  int32_t num_stages = 1;
  std::vector<int32_t> stage_ranks;  // of each stage; empty: one each
  int32_t spare_workers = 0;
  int32_t num_layers = 4;
  int32_t block_size = 16;
  int32_t num_blocks = 16;
  bool prefix_caching = true;
  bool partial_recompute = true;
  int64_t kept_rows_bytes = coordinator::kKeptRowsLeft;  // of each worker
  int32_t max_batch_tokens = 64;
  int32_t chunk_tokens = 16;
  Duration itl_target{};
  int32_t max_sequences = 4;
  int32_t max_waiting = 16;
  int64_t plan_bytes_max = coordinator::kPlanBytesMax;  // of a step
  bool uneven_memory = false;
  bool two_classes = false;  // not all workers can compute the best class of the others

  // Guesses of a sequence in a step at most, the chance that one is right, and by how much they may
  // lengthen a step for others.
  int32_t guesses_max = 0;
  double guess_right_chance = 0;
  double guesses_stretch = coordinator::kGuessesStretch;
  // Tokens that the draft model of the last stage is asked for at most, the chance that one is what
  // the model itself would say, and tokens of a sequence that it can have. 0: there is none.
  int32_t drafts_max = 0;
  OracleDraft draft;
  Duration draft_pass{};     // time that it takes for one token
  double repeat_chance = 0;  // of a request that somebody has made before

  // The load.
  int32_t num_requests = 20;
  int32_t prompt_tokens_max = 40;
  int32_t output_tokens_max = 20;
  int32_t tenants = 1;
  double shared_chance = 0;  // of a prompt that begins as others of the run do
  double follow_chance = 0;  // of a prompt that goes on from an earlier answer
  Duration arrivals_over{};
  double cancel_chance = 0;    // of a request whose client leaves
  double resume_chance = 0;    // of a request whose client comes again with what it has
  double killer_chance = 0;    // of a request that brings workers down
  double group_chance = 0;     // of a request with several outputs
  double deadline_chance = 0;  // of a request with a deadline that may pass
  bool storm = false;          // all clients of one moment leave at once

  // The world.
  SimDelay link;
  Duration step_least{};  // time a stage takes for a step
  Duration step_most{};
  Duration load_most{};
  int32_t faults = 0;  // of workers and links
  int32_t stalls = 0;  // of the engine
  // Times, shortly after one another, that a worker's link to the coordinator is reset or that it
  // stands still; it lives.
  int32_t resets = 0;
  // A coordinator that stands by leads from then on; the other wakes later. 0: there is one only.
  Duration takeover_after{};
  // A worker that serves becomes slow then, for good, and its place must move. 0: none.
  Duration slow_after{};
  double replay_chance = 0;  // that a worker repeats a frame of an old epoch when it gets a new one

  OracleBugs oracle_bugs;  // of the simulated workers; the engine has fail points

  coordinator::EngineOptions Engine(coordinator::GuessSource* guesses) const;
  // Ranks of all stages together.
  int32_t WorkersOfPipeline() const;
  // Nothing is guessed but what the draft model says.
  bool only_drafts() const { return drafts_max > 0 && guesses_max == 0; }
  bool ranked() const { return WorkersOfPipeline() > num_stages; }
  int32_t kv_slots() const { return num_blocks * block_size; }
  std::string Text() const;
};

// Makes prompts long and lets them come and begin together, so that one plan could not hold all of
// them: its bound in bytes decides (SimOptions::plan_bytes_max).
void CrowdPlans(SimOptions* options);

// Leaves prompts no row in any step but those that are kept for them: many sequences generate
// beside them.
void CrowdSteps(SimOptions* options);

// Two stages and a spare, loaded for so long that a worker is seen to be slow.
void StaySlow(SimOptions* options);

// A run like no other: small and large pools, quiet and wild networks, with and without faults.
SimOptions DrawSimOptions(uint64_t seed);

}  // namespace tutti::tests
