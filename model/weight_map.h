// Which tensors a model consists of, by role: our name for each, the checkpoint's name, its shape,
// how tensor parallelism splits it, and which stage owns it. One table per family (model/family.h).
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/checkpoint.h"
#include "model/model_config.h"

namespace tutti::model {

// What a tensor does. All matrices are [out, in], row-major, as torch.nn.Linear stores them.
enum class Role : uint8_t {
  kEmbedding,          // [vocab, hidden]
  kInputNorm,          // [hidden]
  kQuery,              // [q_width, hidden]
  kKey,                // [kv_width, hidden]
  kValue,              // [kv_width, hidden]
  kQueryBias,          // [q_width]    in families with attention_bias
  kKeyBias,            // [kv_width]
  kValueBias,          // [kv_width]
  kQueryNorm,          // [head_dim]   in families with qk_norm
  kKeyNorm,            // [head_dim]
  kAttentionOutput,    // [hidden, q_width]
  kPostAttentionNorm,  // [hidden]
  kGate,               // [intermediate, hidden]
  kUp,                 // [intermediate, hidden]
  kDown,               // [hidden, intermediate]
  kRouter,             // [experts, hidden]          in families with experts, in place of the MLP
  kExpertGate,         // [expert_intermediate, hidden], of each expert
  kExpertUp,           // [expert_intermediate, hidden]
  kExpertDown,         // [hidden, expert_intermediate]
  kFinalNorm,          // [hidden]
  kHead,               // [vocab, hidden]; the embedding's tensor when tied
};
std::string_view RoleName(Role role);  // "attention_output"

// How the ranks of a stage share a tensor.
enum class SplitAxis : uint8_t {
  kNone,  // every rank holds all of it
  kOut,   // each rank holds a range of rows (of elements, for a bias)
  kIn,    // each rank holds a range of columns; the products are summed over ranks
};

enum class Owner : uint8_t {
  kFirstStage,
  kLayer,
  kLastStage,
};

// One size that a shape can have, read from the configuration.
enum class Width : uint8_t {
  kNone,
  kHidden,
  kQuery,
  kKeyValue,
  kHeadDim,
  kIntermediate,
  kExperts,
  kExpert,  // the intermediate size of one expert
  kVocab,
};
int64_t WidthOf(Width width, const ModelConfig& config);

// One row of a family's table. "{}" in the name stands for the layer, "{e}" for the expert; rows of
// expert roles stand together.
//
// Rows with the same name are parts of one tensor, stacked over its rows in the table's order: a
// fused matrix is several roles.
struct WeightRule {
  Role role;
  std::string_view name;
  Width rows;
  Width cols = Width::kNone;  // kNone: a vector
  SplitAxis split = SplitAxis::kNone;
  Owner owner = Owner::kLayer;
};

// One role of one model: a tensor, or some rows of a fused one.
struct WeightSpec {
  Role role;
  int64_t layer = -1;          // -1: not of a layer
  int64_t expert = -1;         // -1: not of an expert
  std::string name;            // in the checkpoint
  std::vector<int64_t> shape;  // [out, in], or [n]: of these rows
  int64_t first_row = 0;       // where they begin in the tensor
  int64_t tensor_rows = 0;     // of the whole tensor
  SplitAxis split = SplitAxis::kNone;
  Owner owner = Owner::kLayer;
};

// A contiguous range of the model: what one stage serves.
struct StageShare {
  int64_t first_layer = 0;
  int64_t num_layers = 0;
  bool has_embedding = false;
  bool has_head = false;  // final norm and head
  bool operator==(const StageShare&) const = default;
};

// The whole model on one stage.
StageShare WholeModel(const ModelConfig& config);

// INVALID_ARGUMENT when `share` names layers the model does not have.
absl::Status CheckStageShare(const ModelConfig& config, const StageShare& share);

// The roles of `share`, in the order of the forward pass, expert by expert. A tied head is listed
// with the embedding's name, also when the embedding is in the share.  REQUIRES: `config` from
// ParseModelConfig, CheckStageShare is OK
std::vector<WeightSpec> ListWeights(const ModelConfig& config, const StageShare& share);

// The specification of one role. `layer` is ignored for roles that are not of a layer, `expert` for
// those that are not of an expert.  REQUIRES: the model has the role (biases only with
// attention_bias, norms of heads only with qk_norm, experts or an MLP)
WeightSpec WeightOf(const ModelConfig& config, Role role, int64_t layer, int64_t expert = 0);

// One tensor of a checkpoint.
struct CheckpointTensor {
  std::string name;
  std::vector<int64_t> shape;
  Role role;  // of its first rows
};

// The tensors a checkpoint of the whole model has, in the order of the forward pass: fused ones
// once, no head when it is tied.
std::vector<CheckpointTensor> ListCheckpointTensors(const ModelConfig& config);

// Whether the checkpoint holds every tensor of `share`, in the configuration's dtype and shapes.
// INVALID_ARGUMENT names the first tensor that is missing or differs, with what was expected and
// what was found. Tensors that the model does not need (an lm_head.weight beside a tied embedding)
// are left alone.
absl::Status CheckCheckpoint(const ModelConfig& config, const Checkpoint& checkpoint,
                             const StageShare& share);
absl::Status CheckCheckpoint(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace tutti::model
