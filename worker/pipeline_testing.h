// Support for tests: a whole pipeline of stage workers with real transformers, driven by one thread
// (and one more for each further rank of a stage), with a small scheduler whose choices (stages,
// chunk sizes, batches, blocks) the tests vary.
//
// Its functions are in two files, because the small scheduler is one by itself:
// pipeline_requests_testing.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/backend.h"
#include "model/model_config.h"
#include "proto/peer_messages.h"
#include "worker/links/link_collective.h"
#include "worker/stage_worker.h"
#include "worker/transformer.h"

namespace tutti::kernels::cuda {
class Nccl;
}

namespace tutti::worker {

// The golden checkpoint called `name`, below tests/golden.
std::string GoldenDir(const std::string& name);
std::string ReadFileOrDie(const std::string& path);

// Backends of the tests of whole models: "reference", "cpu" and this machine's first GPU, "cuda:0".
// In the programs that are linked with the emulated GPU, only "cuda-emulated".
std::vector<std::string> TestedBackends();
// Whether a test should try less on it.
bool IsSlow(const std::string& backend);

struct TestRequest {
  std::vector<TokenId> prompt;
  int32_t max_tokens = 0;
  v1::SequenceSampling sampling;
  // Its output, of which some is guessed in every step, and wrongly now and then; empty: nothing
  // is.
  std::vector<TokenId> likely;
  // Tokens that the draft model is asked for in every step, where there is one: all are guesses of
  // the next.
  int32_t drafts = 0;
};

struct TestOutput {
  std::vector<v1::SampledToken> tokens;
  std::vector<TokenId> ids() const;
  // Token ids with the bits of everything reported about them.
  std::vector<uint32_t> bits() const;
};

struct TestPipelineOptions {
  std::string model_dir;
  std::string draft_dir;              // "": there is no draft model
  std::string backend = "reference";  // as in TestedBackends()
  int threads = 1;
  std::string instruction_set;
  std::string numerics_class;  // "": the backend's best
  bool graphs = true;
  std::vector<int32_t> layers;  // per stage; empty: one stage
  std::vector<int> ranks;       // per stage; empty: one each
  bool whole_experts = false;
  model::QuantiseChoice quantise;  // codes that are made of the checkpoint
  // Which matrices are codes is not known when a shard is assigned, as to a worker that fetches its
  // checkpoint.
  bool roles_unknown = false;
  // "cuda-emulated": ranks sum and gather through emulated NCCL; rows of two steps out of three
  // pass from stage to stage so.
  bool device_exchange = false;
  bool device_links = false;
  int32_t block_size = 16;
  int32_t num_blocks = 64;
  int32_t max_batch_tokens = 128;
};

class TestPipeline {
 public:
  explicit TestPipeline(const TestPipelineOptions& options);
  ~TestPipeline();

  // Runs all requests together until each has its tokens. Each step gives every sequence up to
  // `chunk` tokens (0: as many as fit). Grammars are over the toy vocabulary, and its end ends
  // their answers. Blocks are handed out in an order drawn from `block_seed`, as guesses are.
  std::vector<TestOutput> Generate(const std::vector<TestRequest>& requests, int32_t chunk,
                                   uint64_t block_seed = 0);

  // Logits of every position of `prompt`, [positions][vocab]: each is sampled once, token by token.
  // For a last stage of one rank.
  std::vector<std::vector<float>> Logits(const std::vector<TokenId>& prompt);

  // Logits of the last position of `prompt`, computed in chunks of `chunk` tokens as Generate does.
  std::vector<float> LastLogits(const std::vector<TokenId>& prompt, int32_t chunk);

  // Guesses of the last Generate, and those that were right.
  int64_t guessed() const { return guessed_; }
  int64_t guessed_right() const { return guessed_right_; }
  // What the draft model said in it.
  struct Drafted {
    size_t request = 0;
    std::vector<TokenId> text;  // that it goes on with
    std::vector<TokenId> tokens;
  };
  const std::vector<Drafted>& drafted() const { return drafted_; }

  // Computes `prompt` in chunks of `chunk` tokens up to the first step that reports a numeric
  // fault, or to its end; that step's result.
  v1::StepResult FirstFault(const std::vector<TokenId>& prompt, int32_t chunk);

  const model::ModelConfig& config() const { return config_; }
  const v1::ShardReady& ready(size_t stage, int rank = 0) const { return ready_[stage][rank]; }
  kernels::CollectiveTraffic exchanged(size_t stage, int rank) const;
  kernels::LaunchCounts launches(size_t stage, int rank = 0) const;
  // Whether the ranks of a stage exchange from device to device.
  bool on_device(size_t stage) const;
  // Steps whose rows a stage has sent from device to device.
  int64_t steps_on_device(size_t stage) const;
  // Units of work that the stage has shown so far.
  uint64_t progress(size_t stage) const;

 private:
  struct Stage;

  std::unique_ptr<Stage> MakeStage(const v1::AssignShard& shard);
  void LinkDevices();
  v1::StepResult RunStep(v1::StepPlan plan);

  const TestPipelineOptions options_;
  model::ModelConfig config_;
  std::shared_ptr<const DraftSource> draft_;
  SystemClock clock_;
  std::shared_ptr<kernels::cuda::Nccl> nccl_;  // of all workers; null: none
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::vector<v1::ShardReady>> ready_;  // [stage][rank]
  std::vector<float> last_logits_;
  uint64_t next_sequence_ = 1;
  uint64_t step_ = 0;
  std::vector<uint64_t> finished_;
  int64_t guessed_ = 0, guessed_right_ = 0;
  std::vector<Drafted> drafted_;
};

}  // namespace tutti::worker
