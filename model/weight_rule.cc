#include "model/weight_rule.h"

namespace tutti::model {

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kEmbedding:
      return "embedding";
    case Role::kInputNorm:
      return "input_norm";
    case Role::kQuery:
      return "query";
    case Role::kKey:
      return "key";
    case Role::kValue:
      return "value";
    case Role::kQueryBias:
      return "query_bias";
    case Role::kKeyBias:
      return "key_bias";
    case Role::kValueBias:
      return "value_bias";
    case Role::kQueryNorm:
      return "query_norm";
    case Role::kKeyNorm:
      return "key_norm";
    case Role::kAttentionOutput:
      return "attention_output";
    case Role::kOutputBias:
      return "output_bias";
    case Role::kPostAttentionNorm:
      return "post_attention_norm";
    case Role::kGate:
      return "gate";
    case Role::kUp:
      return "up";
    case Role::kGateBias:
      return "gate_bias";
    case Role::kUpBias:
      return "up_bias";
    case Role::kDown:
      return "down";
    case Role::kDownBias:
      return "down_bias";
    case Role::kRouter:
      return "router";
    case Role::kExpertGate:
      return "expert_gate";
    case Role::kExpertUp:
      return "expert_up";
    case Role::kExpertDown:
      return "expert_down";
    case Role::kFinalNorm:
      return "final_norm";
    case Role::kHead:
      return "head";
  }
  return "unknown";
}

}  // namespace tutti::model
