// The computation of one shard, behind an interface: the transformer in production, an oracle in
// simulation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/collective.h"
#include "kernels/work_meter.h"
#include "model/chunk_digest.h"
#include "proto/peer_messages.h"
#include "worker/batch.h"

namespace tutti::worker {

// Bytes of weights, KV cache and activations a shard holds.
struct ShardMemory {
  int64_t weight_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t activation_bytes = 0;

  ShardMemory& operator+=(const ShardMemory& other) {
    weight_bytes += other.weight_bytes;
    kv_bytes += other.kv_bytes;
    activation_bytes += other.activation_bytes;
    return *this;
  }
};

// Called between units of work (a layer, a tensor packed) by the thread that does the work.
using ProgressCallback = std::function<void()>;
// Called after every large operator: a layer of a large model can take longer than a lease on a
// busy machine, and its worker is not lost.
inline void Tell(const ProgressCallback& progress) {
  if (progress) progress();
}

// Thread: the executor's, for every method.
class StageRunner {
 public:
  virtual ~StageRunner() = default;

  virtual ShardMemory memory() const = 0;
  // The digests of what it was loaded from. Empty: it was not loaded from a checkpoint.
  virtual std::span<const model::ChunkRun> read() const { return {}; }
  // Bytes of one row on the activation link; the same on every stage of a pipeline.
  virtual int64_t activation_row_bytes() const = 0;
  // Token ids of this model are in [0, vocab_size); the stage worker refuses plans with others.
  virtual int32_t vocab_size() const = 0;

  // The layers of this shard that produced NaN or Inf since the last call (numeric_faults.h). All
  // ranks of a stage find the same.
  virtual std::vector<v1::NumericFault> PopFaults() { return {}; }

  // Slots of [max_batch_tokens, activation_row_bytes] on the device, through which rows of steps
  // may come from the stage before and go to the next without the host. Empty: none can. They live
  // as long as the runner.
  struct LinkMemory {
    std::vector<std::span<std::byte>> in, out;
  };
  virtual LinkMemory link_memory() const { return {}; }

  // Its exchanges with the other ranks of its stage since the epoch began.
  virtual kernels::CollectiveTraffic rank_traffic() const { return {}; }

  // Time that rows have waited for masks of grammars since the shard was loaded: no work of the
  // device. A device that computes on meanwhile has that time counted as waiting, too.
  virtual Duration mask_wait() const { return {}; }

  // A smaller model that goes on behind what the shard samples (drafter.h). Shards with
  // AssignShard.draft have one, others none.
  struct DraftModel {
    // A stage of all its layers, with K/V of its own in as many blocks as the shard's and a
    // vocabulary of its own. It takes batches of up to max_batch_tokens rows and max_sequences
    // sequences. Null: there is none. It lives as long as the shard's runner, whose memory() is
    // without it.
    StageRunner* runner = nullptr;
    // Tokens of a sequence that it computes at most.
    int32_t max_model_len = 0;
  };
  virtual DraftModel draft() { return {}; }

  // The work of a step: all of it, and the most of it between two calls of `progress`, or two
  // slices that the backend counts. Zeros: not known.
  struct StepWork {
    kernels::Work all;
    kernels::Work largest_slice;
  };
  virtual StepWork WorkOf(const Batch& batch) const { return {}; }

  // Computes one step.
  //
  //   input    [rows, activation_row_bytes], from the previous stage; empty on stage 0
  //   output   [rows, activation_row_bytes], for the next stage; empty on the last stage
  //            Both in the host's memory, or at the beginning of a slot of link_memory; the device
  //            is through with them when Run returns.
  //   sampled  one entry per batch.sample_rows on the last stage (the same on each of its ranks),
  //            in that order; kTokenOfNoNumbers for a row whose logits are not numbers,
  //            kTokenNotDrawn for one that follows from a wrong guess (verification.h)
  //
  // Writes K/V of every row into the blocks named by the batch. An error means this shard cannot go
  // on; ABORTED that the epoch is over anyhow and no report is due.
  virtual absl::Status Run(const Batch& batch, std::span<const std::byte> input,
                           std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                           const ProgressCallback& progress) = 0;
  // Waits until the device is through with all that Run has begun: where nothing is sampled, Run
  // does not wait. For whoever measures a time.
  virtual void Await() {}
};

// Called while a shard loads, with bytes of weights loaded so far and in all.
using ShardProgressCallback = std::function<void(int64_t loaded, int64_t total)>;
// Loads a shard. ABORTED: its epoch is over anyhow and no report is due.
using StageRunnerFactory = std::function<absl::StatusOr<std::unique_ptr<StageRunner>>(
    const v1::AssignShard& shard, const ShardProgressCallback& progress)>;

}  // namespace tutti::worker
