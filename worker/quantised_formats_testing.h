// quantization_configs of checkpoints, as their packers write them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::worker {

// Symmetric, of GPTQ's first version. group -1: all inputs.
nlohmann::json GptqConfig(int bits, int group, bool any_order = false);
// compressed-tensors' pack-quantized.
nlohmann::json Packed(int bits, int group, bool symmetric);
// DeepSeek's, with square blocks.
nlohmann::json Fp8(int block);
nlohmann::json Nvfp4();
// int-quantized, with activations of each token or of weights alone.
nlohmann::json Integers(bool activations);

// One of each that is served and multiplies rows as they are, by name.
std::map<std::string, nlohmann::json> QuantisedFormats();

}  // namespace tutti::worker
