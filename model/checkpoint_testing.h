// Support for tests: small checkpoints in temporary directories.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/files_testing.h"
#include "model/model_config.h"
#include "model/safetensors.h"
#include "model/weight_map.h"

namespace tutti::model {

// A length and a header text, as a file has them; the data is the caller's.
inline std::string WithLength(const std::string& header) {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i)));
  }
  return out + header;
}

// Sizes that are all different, so that a mix-up shows.
inline ModelConfig TinyConfig() {
  ModelConfig config;
  config.architecture = "Qwen3ForCausalLM";
  config.model_type = "qwen3";
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 200;
  config.max_position_embeddings = 64;
  config.rms_norm_eps = 1e-6f;
  config.rope.theta = 10000;
  config.rope.rotary_dim = 8;
  config.qk_norm = true;
  config.dtype = DType::kBF16;
  return config;
}

// The text of a config.json that reads as `config`.
inline std::string ConfigText(const ModelConfig& config) {
  std::ostringstream out;
  out << R"({"architectures": [")" << config.architecture << R"("], "model_type": "qwen3",)"
      << R"("hidden_act": "silu", "torch_dtype": ")"
      << (config.dtype == DType::kBF16  ? "bfloat16"
          : config.dtype == DType::kF16 ? "float16"
                                        : "float32")
      << R"(", "hidden_size": )" << config.hidden_size << R"(, "intermediate_size": )"
      << config.intermediate_size << R"(, "num_hidden_layers": )" << config.num_layers
      << R"(, "num_attention_heads": )" << config.num_heads << R"(, "num_key_value_heads": )"
      << config.num_kv_heads << R"(, "head_dim": )" << config.head_dim << R"(, "vocab_size": )"
      << config.vocab_size << R"(, "max_position_embeddings": )" << config.max_position_embeddings
      << R"(, "rms_norm_eps": 1e-06, "rope_theta": )" << config.rope.theta
      << R"(, "tie_word_embeddings": )" << (config.tie_word_embeddings ? "true" : "false") << "}";
  return out.str();
}

// A file of `tensors` whose bytes count up, so that every tensor's are its own.
inline std::string FileOf(const std::vector<TensorInfo>& tensors) {
  std::string out = MakeSafetensorsHeader(tensors);
  int64_t bytes = 0;
  for (const TensorInfo& tensor : tensors) bytes += tensor.bytes;
  for (int64_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(i * 7 + i / 256));
  return out;
}

inline TensorInfo TensorOf(const std::string& name, StoredType dtype, std::vector<int64_t> shape) {
  TensorInfo info;
  info.name = name;
  info.dtype = dtype;
  info.bytes = StoredTypeBytes(dtype);
  for (int64_t size : shape) info.bytes *= size;
  info.shape = std::move(shape);
  return info;
}

// The tensors of a checkpoint of `config`.
inline std::vector<TensorInfo> TensorsOf(const ModelConfig& config) {
  std::vector<TensorInfo> tensors;
  for (const CheckpointTensor& tensor : ListCheckpointTensors(config)) {
    tensors.push_back(TensorOf(tensor.name, StoredTypeOf(config.dtype), tensor.shape));
  }
  return tensors;
}

}  // namespace tutti::model
