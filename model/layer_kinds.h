// Which layers are of the same kind: with experts or without, and quantised in the same way. Layers
// of a kind have the same size.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_config.h"

namespace tutti::model {

// The first layer of each kind, ascending.
std::vector<int64_t> KindsOfLayers(const ModelConfig& config);

// Of each layer the place of its kind in KindsOfLayers.   [num_layers]
std::vector<int32_t> KindOfEachLayer(const ModelConfig& config, const std::vector<int64_t>& kinds);

}  // namespace tutti::model
