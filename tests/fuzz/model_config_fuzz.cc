// A config.json and generation_config.json from outside: refused, or sizes that all arithmetic
// behind them can bear.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/config_json.h"
#include "model/generation_config.h"
#include "model/limits.h"
#include "model/partition.h"

namespace {

void CheckSizes(const tutti::model::ModelConfig& config) {
  CHECK(config.num_heads % config.num_kv_heads == 0 && config.head_dim % 2 == 0);
  CHECK(config.rms_norm_eps > 0 && config.rope.theta >= 1);
  const tutti::model::StageShare whole = tutti::model::WholeModel(config);
  CHECK(tutti::model::CheckStageShare(config, whole).ok());
  for (int ranks : {1, 2, 4, 8}) {
    if (!tutti::model::CheckRanks(config, ranks).ok()) continue;
    const tutti::model::ShardBytes bytes =
        tutti::model::ComputeShardBytes(config, whole, ranks, ranks - 1);
    CHECK(bytes.layers > 0 && bytes.vectors > 0 && bytes.embedding >= 0 && bytes.head >= 0);
    CHECK(bytes.total() >= bytes.layers);
    CHECK(tutti::model::KvBytesPerToken(config, whole, ranks) > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = tutti::model::ParseModelConfig(text, "config.json");
  if (config.ok()) CheckSizes(*config);

  tutti::model::ModelConfig reference;
  reference.vocab_size = 1000;
  const auto generation =
      tutti::model::ParseGenerationConfig(text, "generation_config.json", reference);
  if (!generation.ok()) return 0;
  CHECK(generation->eos_token_ids.size() <= tutti::model::kEosTokensMax);
  for (int32_t id : generation->eos_token_ids) CHECK(id >= 0 && id < reference.vocab_size);
  CHECK(generation->top_p.value_or(1) <= 1 && generation->temperature.value_or(0) >= 0);
  return 0;
}
