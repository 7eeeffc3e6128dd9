// The tensors of a model: the rules of its family (model/weight_rule.h, model/family.h)
// with the sizes of its configuration.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/checkpoint.h"
#include "model/model_config.h"
#include "model/weight_rule.h"

namespace tutti::model {

// The size in elements.
int64_t WidthOf(Width width, const ModelConfig& config);

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

// A contiguous range of the model, which one stage serves.
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

// Whether the model has the role, in this layer where it is of one: biases and norms of heads can
// be switched off, a layer has experts or an MLP.
bool HasRole(const ModelConfig& config, Role role, int64_t layer);

// The specification of one role. `layer` is ignored for roles that are not of a layer, `expert` for
// those that are not of an expert.  REQUIRES: HasRole
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

// Whether the checkpoint holds every tensor of `share`, in the configuration's shapes and in a type
// that we read. INVALID_ARGUMENT names the first tensor that is missing or differs, with what was
// expected and what was found. Tensors that the model does not need (an lm_head.weight beside a
// tied embedding) are left alone.
absl::Status CheckCheckpoint(const ModelConfig& config, const Checkpoint& checkpoint,
                             const StageShare& share);
absl::Status CheckCheckpoint(const ModelConfig& config, const Checkpoint& checkpoint);

// The conversion of weights, and its cost, where matrices are stored in another type than
// config.dtype; empty where none is. transformers converts so too.
std::string DescribeConversion(const ModelConfig& config, const Checkpoint& checkpoint);

// Whether a tied head is the embedding: a checkpoint that holds a head of its own all the same is
// read and compared. INVALID_ARGUMENT where it differs: transformers uses it then, in spite of the
// configuration, and the embedding in its place would give nonsense.
absl::Status CheckTiedHead(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace tutti::model
