// The comparison of a tied head with the head that the checkpoint holds.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/checkpoint_file.h"
#include "model/limits.h"
#include "model/weight_map.h"

namespace tutti::model {
namespace {

absl::StatusOr<bool> SameBytes(const Checkpoint& checkpoint, const TensorInfo& a,
                               const TensorInfo& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const auto open = [&](const TensorInfo& tensor) {
    const Checkpoint::File& file = checkpoint.files()[static_cast<size_t>(tensor.file)];
    return CheckpointFile::OpenUnchanged(checkpoint.PathOf(tensor.file), file.identity);
  };
  TUTTI_ASSIGN_OR_RETURN(const CheckpointFile file_a, open(a));
  TUTTI_ASSIGN_OR_RETURN(const CheckpointFile file_b, open(b));
  std::vector<std::byte> bytes_a(kCompareChunkBytes), bytes_b(kCompareChunkBytes);
  for (int64_t at = 0; at < a.bytes; at += kCompareChunkBytes) {
    const auto size = static_cast<size_t>(std::min(kCompareChunkBytes, a.bytes - at));
    bytes_a.resize(size);
    bytes_b.resize(size);
    TUTTI_RETURN_IF_ERROR(file_a.Read(a.offset + at, bytes_a));
    TUTTI_RETURN_IF_ERROR(file_b.Read(b.offset + at, bytes_b));
    if (bytes_a != bytes_b) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckTiedHead(const ModelConfig& config, const Checkpoint& checkpoint) {
  if (!config.tie_word_embeddings) return absl::OkStatus();
  ModelConfig untied = config;
  untied.tie_word_embeddings = false;
  const WeightSpec head_spec = WeightOf(untied, Role::kHead, -1);
  const TensorInfo* head = checkpoint.Find(head_spec.name);
  const TensorInfo* embedding = checkpoint.Find(WeightOf(config, Role::kEmbedding, -1).name);
  if (head == nullptr || embedding == nullptr) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const bool same, SameBytes(checkpoint, *embedding, *head));
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      checkpoint.dir(), ": config.json says tie_word_embeddings true, but the tensor \"",
      head->name, "\" differs from \"", embedding->name,
      "\"; to use it, as transformers does, set tie_word_embeddings to false, else remove it"));
}

}  // namespace tutti::model
