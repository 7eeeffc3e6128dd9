// Which matrices of a model are quantised, and in which of the formats of config.json: the tensors
// tell, layer by layer. Parts of one product, and experts of a layer, have one format.
//
// Pure, but for LoadQuantConfig.  Thread: any.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "model/checkpoint.h"
#include "model/model_config.h"

namespace tutti::model {

// Sets config->quant to what the tensors of `checkpoint` say: the format of each role and layer,
// with the type of its scales. INVALID_ARGUMENT names a matrix that is quantised though config.json
// says nothing of it, or nothing that fits. UNIMPLEMENTED: of a role, or in a way, that is not
// served; or in one that tensors do not tell from another.  Experts and layers that the checkpoint
// lacks are taken to be like others, and left to CheckCheckpoint. Where a tied embedding is
// quantised, the head is no longer tied but made of the same tensors (head_of_embedding).
absl::Status FindQuantisedRoles(const Checkpoint& checkpoint, ModelConfig* config);

// Whether quantize_config.json in `dir`, which older files have instead of quantization_config, or
// beside it, says how weights are quantised; compares both. INVALID_ARGUMENT: they differ.
absl::Status LoadQuantizeConfig(const std::string& dir, ModelConfig* config);

}  // namespace tutti::model
