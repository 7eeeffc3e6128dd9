// One stage of the oracle model (oracle_model.h) over a paged K/V store, in place of a real
// transformer. It believes nothing but the batch: contexts are read back through the block table,
// on every stage.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/oracle_model.h"
#include "worker/stage_runner.h"

namespace tutti::tests {

// Bugs that a worker can be told to have, to show that the simulator finds them.
struct OracleBugs {
  // A row samples with the parameters that its place in the batch had in the step before.
  bool stale_sampling = false;
  // The first row of a step that begins a block does not look at the block before it.
  bool short_context = false;
  // A rank's frame of an old epoch is taken for one of this epoch.
  bool stale_exchange = false;
};

// A draft model beside the last stage: the same model, which now and then says something else.
struct OracleDraft {
  double right_chance = 0;  // that it says what the model itself would
  int32_t max_model_len = 0;
  int32_t num_layers = 0;
};

class OracleStage : public worker::StageRunner {
 public:
  // `step_digest`, if not null, is set to a digest of all that a step had and all that came out;
  // `dies`, when the step was of a request that brings workers down (kOracleKillerTopK).
  OracleStage(const v1::AssignShard& shard, int32_t vocab_size, OracleBugs bugs,
              uint64_t* step_digest = nullptr, bool* dies = nullptr);
  // Of a shard with a draft model. `strays` is set when that draws from another context than its
  // sequence's: the tokens that it says change nothing, so that nobody else would notice.
  void AddDraft(const OracleDraft& draft, bool* strays);

  worker::ShardMemory memory() const override;
  int64_t activation_row_bytes() const override { return sizeof(uint64_t); }
  int32_t vocab_size() const override { return vocab_size_; }
  absl::Status Run(const worker::Batch& batch, std::span<const std::byte> input,
                   std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                   const worker::ProgressCallback& progress) override;
  DraftModel draft() override { return {draft_.get(), draft_max_model_len_}; }

 private:
  uint64_t* Entry(int64_t layer, const int32_t* blocks, int32_t position);
  void RunLayer(int64_t layer, const worker::Batch& batch);
  uint64_t StepDigest(const worker::Batch& batch) const;
  void SampleRows(const worker::Batch& batch, std::vector<v1::SampledToken>* sampled);
  v1::SampledToken SampleRow(const worker::Batch& batch, const worker::SampleRow& row,
                             const v1::SequenceSampling& sampling);

  const v1::AssignShard shard_;
  const int32_t vocab_size_;
  const OracleBugs bugs_;
  double right_chance_ = 1;  // less of a draft model
  std::unique_ptr<OracleStage> draft_;
  int32_t draft_max_model_len_ = 0;
  bool* strays_ = nullptr;  // of a draft model
  uint64_t* const step_digest_;
  bool* const dies_;
  std::vector<uint64_t> entries_;                    // [layers, blocks, block_size]
  std::vector<uint64_t> x_;                          // [rows]
  std::vector<v1::SequenceSampling> last_sampling_;  // of the sampled rows of the step before
};

}  // namespace tutti::tests
