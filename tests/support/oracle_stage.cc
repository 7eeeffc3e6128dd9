#include "tests/support/oracle_stage.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/sampling/verification.h"
#include "worker/sequence_table.h"

namespace tutti::tests {
namespace {

uint64_t CountsDigest(const worker::SequenceState& sequence) {
  std::vector<OracleCount> counts;
  for (const auto& [token, count] : sequence.counts) {
    counts.push_back({token, count.in_prompt, count.in_output});
  }
  return OracleCountsDigest(counts);
}

// What the worker's mask says.
OracleAllowed AllowedBy(const worker::SequenceState& sequence, int32_t vocab_size) {
  if (sequence.grammar == nullptr) return std::nullopt;
  const auto mask = sequence.grammar->Take(nullptr);
  if (!mask.ok()) sequence.grammar->End(mask.status());
  std::vector<TokenId> allowed;
  for (TokenId id = 0; mask.ok() && id < vocab_size; ++id) {
    const auto place = static_cast<size_t>(id);
    if (((*mask)[place / 32] >> (place % 32) & 1) != 0) allowed.push_back(id);
  }
  return allowed;
}

// Some masks are late, the same ones at every rank.
bool IsLate(const worker::Batch& batch, const worker::SequenceState& sequence) {
  const uint64_t row = Digest(batch.step.value(), sequence.id.value());
  return Digest(row, sequence.tokens.size()) % 6 == 0;
}

}  // namespace

OracleStage::OracleStage(const v1::AssignShard& shard, int32_t vocab_size, OracleBugs bugs,
                         uint64_t* step_digest, bool* dies)
    : shard_(shard),
      vocab_size_(vocab_size),
      bugs_(bugs),
      step_digest_(step_digest),
      dies_(dies),
      entries_(int64_t{shard.num_layers()} * shard.num_blocks() * shard.block_size()) {}

void OracleStage::AddDraft(const OracleDraft& draft, bool* strays) {
  v1::AssignShard whole = shard_;
  whole.set_draft(false);
  whole.set_stage(0);
  whole.set_num_stages(1);
  whole.set_num_ranks(1);
  whole.set_first_layer(0);
  whole.set_num_layers(draft.num_layers);
  whole.set_has_embedding(true);
  draft_ = std::make_unique<OracleStage>(whole, vocab_size_, OracleBugs{});
  draft_->right_chance_ = draft.right_chance;
  draft_->strays_ = strays;
  draft_max_model_len_ = draft.max_model_len;
}

worker::ShardMemory OracleStage::memory() const {
  return {.weight_bytes = shard_.num_layers(),
          .kv_bytes = static_cast<int64_t>(entries_.size() * sizeof(uint64_t))};
}

uint64_t* OracleStage::Entry(int64_t layer, const int32_t* blocks, int32_t position) {
  const int64_t size = shard_.block_size();
  const int64_t slot = blocks[position / size] * size + position % size;
  return &entries_[layer * shard_.num_blocks() * size + slot];
}

absl::Status OracleStage::Run(const worker::Batch& batch, std::span<const std::byte> input,
                              std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                              const worker::ProgressCallback& progress) {
  x_.resize(batch.rows);
  if (shard_.has_embedding()) {
    for (int32_t row = 0; row < batch.rows; ++row) x_[row] = OracleEmbed(batch.tokens[row]);
  } else {
    if (input.size() != x_.size() * sizeof(uint64_t)) {
      return absl::InternalError(absl::StrCat(input.size(), " bytes for ", batch.rows, " rows"));
    }
    std::memcpy(x_.data(), input.data(), input.size());
  }
  for (int64_t layer = 0; layer < shard_.num_layers(); ++layer) {
    RunLayer(layer, batch);
    if (progress) progress();
  }
  if (shard_.has_head()) {
    SampleRows(batch, sampled);
  } else {
    std::memcpy(output.data(), x_.data(), output.size());
  }
  if (step_digest_ != nullptr) *step_digest_ = StepDigest(batch);
  return absl::OkStatus();
}

uint64_t OracleStage::StepDigest(const worker::Batch& batch) const {
  uint64_t digest = batch.step.value();
  const auto fold = [&](const auto& values) {
    for (const auto value : values) digest = Digest(digest, static_cast<uint64_t>(value));
  };
  fold(batch.tokens);
  fold(batch.positions);
  fold(batch.row_begin);
  fold(batch.blocks);
  fold(x_);
  for (const worker::SampleRow& row : batch.sample_rows) {
    digest = Digest(digest, row.sequence->id.value());
    digest = Digest(digest, row.sequence->sampling.seed());
  }
  return digest;
}

void OracleStage::RunLayer(int64_t layer, const worker::Batch& batch) {
  const auto sequences = static_cast<int32_t>(batch.first_position.size());
  for (int32_t s = 0; s < sequences; ++s) {
    const int32_t* const blocks = &batch.blocks[batch.block_begin[s]];
    // All entries of the step are written before any is read, as a transformer does.
    for (int32_t row = batch.row_begin[s]; row < batch.row_begin[s + 1]; ++row) {
      *Entry(layer, blocks, batch.positions[row]) =
          OracleEntry(shard_.first_layer() + layer, x_[row], batch.positions[row]);
    }
  }
  for (int32_t s = 0; s < sequences; ++s) {
    const int32_t* const blocks = &batch.blocks[batch.block_begin[s]];
    for (int32_t row = batch.row_begin[s]; row < batch.row_begin[s + 1]; ++row) {
      const int32_t last = batch.positions[row];
      const bool skip =
          bugs_.short_context && row == batch.row_begin[s] && last % shard_.block_size() == 0;
      for (int32_t p = skip ? last : 0; p <= last; ++p) {
        x_[row] = OracleAttend(x_[row], *Entry(layer, blocks, p));
      }
    }
  }
}

void OracleStage::SampleRows(const worker::Batch& batch, std::vector<v1::SampledToken>* sampled) {
  const std::span<const worker::SampleRow> rows = batch.sample_rows;
  std::vector<v1::SequenceSampling> sampling;
  for (const worker::SampleRow& row : rows) sampling.push_back(row.sequence->sampling);
  worker::Verification verification(rows, sampled);
  for (auto due = verification.Next(rows.size()); due.size() > 0;
       due = verification.Next(rows.size())) {
    for (size_t i = due.begin; i < due.end; ++i) {
      const bool stale = bugs_.stale_sampling && i < last_sampling_.size();
      sampled->push_back(SampleRow(batch, rows[i], stale ? last_sampling_[i] : sampling[i]));
    }
  }
  last_sampling_ = std::move(sampling);
}

v1::SampledToken OracleStage::SampleRow(const worker::Batch& batch, const worker::SampleRow& row,
                                        const v1::SequenceSampling& sampling) {
  const std::span<const TokenId> tokens(row.sequence->tokens);
  const std::span<const TokenId> output = row.sequence->output();
  v1::SampledToken token =
      OracleSample(x_[row.row], static_cast<int32_t>(tokens.size()), CountsDigest(*row.sequence),
                   output, sampling, vocab_size_, AllowedBy(*row.sequence, vocab_size_));
  token.set_sequence(row.sequence->id.value());
  if (strays_ != nullptr && x_[row.row] != OracleContext(tokens, shard_.num_layers())) {
    *strays_ = true;
  }
  if (right_chance_ < 1) {
    const uint64_t bits = Digest(row.sequence->sampling.seed() + 5, tokens.size());
    if (static_cast<double>(bits >> 11) * 0x1p-53 >= right_chance_) {
      token.set_token(static_cast<int32_t>(bits % static_cast<uint64_t>(vocab_size_)));
    }
  }
  if (row.sequence->grammar != nullptr && IsLate(batch, *row.sequence)) {
    token.set_token(worker::kLateToken);
  }
  if (dies_ != nullptr && shard_.rank() == 0 &&
      OracleKills(row.sequence->sampling, static_cast<int32_t>(output.size()))) {
    *dies_ = true;
  }
  return token;
}

}  // namespace tutti::tests
