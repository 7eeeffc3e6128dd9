#include "worker/plain_checkpoint_testing.h"

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/random.h"
#include "model/config_json.h"
#include "model/weight_map.h"

namespace tutti::worker {

using nlohmann::json;

void CheckpointFile::Write(const std::string& folder, const json& config) const {
  std::filesystem::create_directories(folder);
  std::vector<model::TensorInfo> infos;
  for (const Tensor& tensor : tensors_) infos.push_back(tensor.info);
  std::ofstream file(folder + "/model.safetensors", std::ios::binary);
  file << model::MakeSafetensorsHeader(infos);
  for (const Tensor& tensor : tensors_) file << tensor.data;
  std::ofstream(folder + "/config.json") << config.dump(1);
  CHECK(file.good());
}

std::string MakePlainModel(const std::string& to, bool experts) {
  json root = {{"architectures", {experts ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM"}},
               {"model_type", experts ? "qwen3_moe" : "qwen3"},
               {"hidden_act", "silu"},
               {"hidden_size", 64},
               {"intermediate_size", 160},
               {"num_hidden_layers", 3},
               {"num_attention_heads", 8},
               {"num_key_value_heads", 2},
               {"head_dim", 16},
               {"vocab_size", 131},
               {"max_position_embeddings", 256},
               {"rms_norm_eps", 1e-6},
               {"rope_theta", 10000},
               {"tie_word_embeddings", true},
               {"eos_token_id", 2},
               {"torch_dtype", "float32"}};
  if (experts) {
    root.update({{"tie_word_embeddings", false},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", json::array()},
                 {"moe_intermediate_size", 80},
                 {"num_experts", 5},
                 {"num_experts_per_tok", 2},
                 {"norm_topk_prob", true}});
  }
  const auto config = model::ParseModelConfig(root.dump(), "config.json");
  CHECK(config.ok()) << config.status();
  CheckpointFile file;
  Random random(5);
  for (const model::CheckpointTensor& tensor : model::ListCheckpointTensors(*config)) {
    int64_t count = 1;
    for (const int64_t side : tensor.shape) count *= side;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      const auto uniform = static_cast<float>(random.Uniform() * 2 - 1);
      values.push_back(tensor.shape.size() == 1 ? 1 + uniform / 4 : uniform / 5);
    }
    file.Add(tensor.name, model::StoredType::kF32, tensor.shape, values);
  }
  const std::string folder = to + (experts ? "/made-experts" : "/made");
  file.Write(folder, root);
  return folder;
}

}  // namespace tutti::worker
