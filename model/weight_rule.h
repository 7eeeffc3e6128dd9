// A family's tensors as rows of a table, by role: our name for each, the checkpoint's name, its
// shape, how tensor parallelism splits it, and which stage owns it.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::model {

// The function of a tensor in the model. All matrices are [out, in], row-major, as torch.nn.Linear
// stores them.
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
  kOutputBias,         // [hidden]     of the attention's output, with attention_output_bias
  kPostAttentionNorm,  // [hidden]
  kGate,               // [intermediate, hidden]
  kUp,                 // [intermediate, hidden]
  kGateBias,           // [intermediate]             with mlp_bias
  kUpBias,             // [intermediate]
  kDown,               // [hidden, intermediate]
  kDownBias,           // [hidden]
  kRouter,             // [experts, hidden]          in layers with experts, in place of the MLP
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

// One row of a family's table. "{}" in the name stands for the layer, "{e}" for the expert; rows of
// expert roles stand together.
//
// Rows with the same name are parts of one tensor, stacked over its rows in the table's order: a
// fused matrix is several roles. A model lacks the rows that its configuration switches off
// (model/weight_map.h's HasRole).
struct WeightRule {
  Role role;
  std::string_view name;
  Width rows;
  Width cols = Width::kNone;  // kNone: a vector
  SplitAxis split = SplitAxis::kNone;
  Owner owner = Owner::kLayer;
};

}  // namespace tutti::model
