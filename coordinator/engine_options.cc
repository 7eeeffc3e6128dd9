#include "coordinator/engine_options.h"

#include <algorithm>

namespace tutti::coordinator {

int32_t MaxModelLen(const EngineOptions& options) {
  const int64_t context = options.model.max_position_embeddings;
  return static_cast<int32_t>(
      options.max_model_len > 0 ? std::min<int64_t>(options.max_model_len, context) : context);
}

placement::PlacementOptions PlacementOptionsOf(const EngineOptions& options) {
  placement::PlacementOptions placement{.num_stages = options.num_stages,
                                        .num_ranks = options.num_ranks,
                                        .stage_ranks = options.stage_ranks,
                                        .mode = options.device_map.mode,
                                        .block_size = options.block_size,
                                        .max_batch_tokens = options.max_batch_tokens,
                                        .max_sequences = options.max_sequences,
                                        .max_model_len = MaxModelLen(options),
                                        .kv_tokens_max = options.kv_tokens_max,
                                        .kv_tokens_min = options.kv_tokens_min,
                                        .draft = options.draft};
  const std::vector<placement::MappedStage>& stages = options.device_map.stages;
  if (stages.empty()) return placement;
  placement.num_stages = static_cast<int32_t>(stages.size());
  placement.stage_ranks.clear();
  for (const placement::MappedStage& stage : stages) {
    placement.layers.push_back(stage.num_layers);
    placement.stage_ranks.push_back(stage.ranks());
  }
  return placement;
}

}  // namespace tutti::coordinator
