// Which matrices of a model are quantised: a role in all layers, or in none.
//
// Pure, but for LoadQuantConfig.  Thread: any.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "model/checkpoint.h"
#include "model/model_config.h"

namespace tutti::model {

// Roles as checkpoints that say no more have them: the matrices of attention, MLPs and experts.
uint32_t UsualQuantisedRoles();

// Sets config->quant to what the tensors of `checkpoint` say: which roles are quantised, and the
// type of their scales. INVALID_ARGUMENT names a tensor that is quantised though config.json says
// nothing of it, or though another of its role is not. UNIMPLEMENTED: of a role, or in a way, that
// is not served.  Experts and layers that the checkpoint lacks are left to CheckCheckpoint.
absl::Status FindQuantisedRoles(const Checkpoint& checkpoint, ModelConfig* config);

// Whether quantize_config.json in `dir`, which older files have instead of quantization_config, or
// beside it, says how weights are quantised; compares both. INVALID_ARGUMENT: they differ.
absl::Status LoadQuantizeConfig(const std::string& dir, ModelConfig* config);

}  // namespace tutti::model
