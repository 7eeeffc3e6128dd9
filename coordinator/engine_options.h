// The engine's options, constant for its life: the model, the flags of the coordinator, and names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sip_hash.h"
#include "coordinator/limits.h"
#include "model/model_config.h"
#include "placement/device_map.h"
#include "placement/max_memory.h"
#include "placement/placement.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

class GuessSource;
class StepMetrics;

struct EngineOptions {
  model::ModelConfig model;
  std::string model_name;
  std::string model_fingerprint;  // of the checkpoint
  std::string build;
  std::string cluster_id;
  // --pipeline-parallel-size, and --tensor-parallel-size of every stage. 0: chosen from the workers
  // that join.
  int32_t num_stages = 1;
  int32_t num_ranks = 1;
  // The ranks of each stage; empty: num_ranks everywhere.
  std::vector<int32_t> stage_ranks;
  int32_t num_pipelines = 1;  // --pipelines; 0: as many as the workers that join allow
  int32_t spares = 0;         // --spares: workers that are kept out of pipelines beyond the first
  // --device-map. With the stages of a file there is one pipeline.
  placement::DeviceMap device_map;
  // --max-memory: the bytes of each worker that may be used; empty: all of all.
  placement::MaxMemory max_memory;
  // --min-workers: nothing forms before so many have joined. 0: where numbers or sizes depend on
  // the workers that join, when none has joined or left for kJoinQuiet.
  int32_t min_workers = 0;
  std::string numerics_class;  // "": chosen from the workers that join (fleet_class.cc)
  // The operator allows a pipeline of several classes, and is told so aloud.
  bool mix_numerics = false;
  // No pipeline serves before what its workers read has been compared with the digests that a
  // CheckpointDigested brings (shard_check.h).
  bool compare_checkpoint = false;
  // A worker whose shard takes other bytes than planned is refused (ShardCheck::CompareMemory).
  bool compare_memory = false;
  int32_t block_size = 16;  // KV slots per block
  bool enable_prefix_caching = true;
  // --partial-recompute: what stages have kept of their K/V when another is lost is not computed
  // again.
  bool partial_recompute = true;
  // --kept-rows: bytes of the memory of each worker for the rows that it sends on; below 0: what
  // placement leaves, kKeptRowsLeft.
  int64_t kept_rows_bytes = kKeptRowsLeft;
  Hash128 prefix_key;         // of the KV directory's names: random, and never outside the process
  int64_t kv_tokens_max = 0;  // 0: as much as memory allows, up to max_sequences * max_model_len
  int64_t kv_tokens_min = 0;  // a placement with less room is refused
  int32_t max_batch_tokens = 512;  // rows of the largest step
  int32_t chunk_tokens = 0;        // rows of one prompt in a step at most; 0: all of it
  // --itl-target: while anybody generates, a step has the rows of prompts that it has time for.
  // Zero: as many as there are.
  Duration itl_target = std::chrono::milliseconds(200);
  // --speculation: tokens that are guessed of a sequence in a step at most, where its request does
  // not say; 0: none.
  int32_t guesses_max = 0;
  // --draft-model: it goes on behind the tokens of a sequence, and what it says are guesses too.
  // The first rank of the last stage holds all of it. Null: there is none.
  std::shared_ptr<const model::ModelConfig> draft;
  std::string draft_fingerprint;  // of its checkpoint; empty: there is none
  // Tokens that it is asked for of a sequence in a step at most, where its request does not say.
  int32_t drafts_max = 0;
  // By how much guesses may lengthen a step for sequences without any; more in tests only.
  double guesses_stretch = kGuessesStretch;
  // Asked in the stead of the sequence's own text, in tests; null: the text is. It outlives the
  // engine.
  GuessSource* guess_source = nullptr;
  int32_t max_sequences = 256;  // running at once
  int32_t max_waiting = 1024;   // queue; beyond it requests are refused
  // --max-wait: who would wait for longer, at the pace of late, is refused. Zero: nobody is.
  Duration max_wait{};
  int64_t plan_bytes_max = kPlanBytesMax;  // of a step; less in tests only
  int32_t max_model_len = 0;               // 0: the model's context
  Duration beat_interval = std::chrono::milliseconds(250);
  Duration lease = std::chrono::milliseconds(1500);
  // A worker of which nothing more is loaded or fetched for so long is given up.
  Duration load_timeout = std::chrono::minutes(30);
  // --recovery-timeout: what was taken waits so long for a pipeline that can hold it.
  Duration recovery_timeout = std::chrono::seconds(60);
  // --reform-after: when workers have been missing for so long, the pipeline forms of those that
  // are left, where they can hold the model.
  Duration reform_after = std::chrono::seconds(2);
  // The texts of the model's tokens, for workers that make masks of grammars; null: requests have
  // none.
  std::shared_ptr<const v1::Vocabulary> vocabulary;
  StepMetrics* step_metrics = nullptr;  // is told of steps, and decides nothing; null: nobody is
};

// The options that placement goes by; sizes that are left open are 0.
placement::PlacementOptions PlacementOptionsOf(const EngineOptions& options);
// The options' limit, or the model's context.
int32_t MaxModelLen(const EngineOptions& options);

}  // namespace tutti::coordinator
