// The coordinator's brain: decides what runs where. Pure: no thread, socket, clock or random source
// inside. The same events at the same times always produce the same actions, which is what the
// simulator relies on.
//
// Thread: the engine thread only (engine_loop.h owns it).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/events.h"
#include "coordinator/kv/prefix_hash.h"
#include "model/model_config.h"
#include "placement/device_map.h"
#include "placement/max_memory.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// ---- what the engine is told at start

struct EngineOptions {
  model::ModelConfig model;
  std::string model_name;
  std::string model_fingerprint;
  std::string build;
  std::string cluster_id;
  // --pipeline-parallel-size, and --tensor-parallel-size of every stage. 0: chosen from the workers
  // that join.
  int32_t num_stages = 1;
  int32_t num_ranks = 1;
  // Of each stage; empty: num_ranks everywhere.
  std::vector<int32_t> stage_ranks;
  int32_t num_pipelines = 1;  // --pipelines; 0: as many as the workers that join allow
  placement::DeviceMap
      device_map;  // --device-map. With the stages of a file there is one pipeline.
  placement::MaxMemory
      max_memory;  // --max-memory: what of each worker may be used; empty: all of all
  // --min-workers: nothing forms before so many have joined. 0: where numbers or sizes depend on
  // who joins, when nobody has for kJoinSettle.
  int32_t min_workers = 0;
  std::string numerics_class;  // "": that of the first worker of the pipeline
  bool mix_numerics =
      false;  // the operator allows a pipeline of several classes, and is told so aloud
  int32_t block_size = 16;  // KV slots per block
  bool enable_prefix_caching = true;
  Hash128 prefix_key;         // of the KV directory's names: random, and never outside the process
  int64_t kv_tokens_max = 0;  // 0: as much as memory allows, up to max_sequences * max_model_len
  int64_t kv_tokens_min = 0;  // a placement with less room is refused
  int32_t max_batch_tokens = 512;  // rows of the largest step
  int32_t chunk_tokens = 128;      // rows of one prompt in a step at most
  int32_t max_sequences = 256;     // running at once
  int32_t max_waiting = 1024;      // queue; beyond it requests are refused
  int32_t max_model_len = 0;       // 0: the model's context
  Duration beat_interval = std::chrono::milliseconds(250);
  Duration lease = std::chrono::milliseconds(1500);
  Duration load_timeout = std::chrono::minutes(30);
};

class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes one event into account. Never plans: a burst of events must not cause a burst of plans.
  void Handle(Event event, Instant now, std::vector<Action>* actions);
  // Acts on everything handled so far: expires leases and deadlines, forms pipelines, fills them
  // with steps. Once per drained batch of events.
  void Advance(Instant now, std::vector<Action>* actions);
  // The latest time Advance must be called even if no event arrives.
  Instant next_deadline() const;

  // What an operator sees. Does not change anything.
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;
  // Which pipelines hold how much of a prompt, and which workers that is.
  void LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                    v1::LookupPrefixResponse* response) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::coordinator
