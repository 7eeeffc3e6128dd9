#include "model/layer_kinds.h"

#include <algorithm>

namespace tutti::model {
namespace {

size_t KindOf(const ModelConfig& config, const std::vector<int64_t>& kinds, int64_t layer) {
  const auto alike = std::find_if(kinds.begin(), kinds.end(), [&](int64_t first) {
    return config.has_experts(first) == config.has_experts(layer) &&
           config.quant.Alike(first, layer);
  });
  return static_cast<size_t>(alike - kinds.begin());
}

}  // namespace

std::vector<int64_t> KindsOfLayers(const ModelConfig& config) {
  std::vector<int64_t> kinds;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (KindOf(config, kinds, layer) == kinds.size()) kinds.push_back(layer);
  }
  return kinds;
}

std::vector<int32_t> KindOfEachLayer(const ModelConfig& config, const std::vector<int64_t>& kinds) {
  std::vector<int32_t> each;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    each.push_back(static_cast<int32_t>(KindOf(config, kinds, layer)));
  }
  return each;
}

}  // namespace tutti::model
