// Checkpoints whose matrices are quantised as the formats have them, made of plain ones, and beside
// each the plain checkpoint of the numbers that its codes stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "model/model_config.h"

namespace tutti::worker {

struct QuantisedCopy {
  std::string codes;  // the folder with codes
  std::string plain;  // f32, of the same numbers
};

// `from`: a folder with a checkpoint in f32, f16 or bf16. `quantization`: its quantization_config,
// in which "group_size" and the like must divide what the model has. Both folders lie below `to`.
// The copies compute in `dtype`, a name as config.json has them. `left_plain`: roles of which no
// codes are made.
QuantisedCopy MakeQuantisedCopy(const std::string& from, const nlohmann::json& quantization,
                                const std::string& to, const std::string& dtype = "float32",
                                std::initializer_list<model::Role> left_plain = {});

// The format of a matrix, a number of those of model::ParseQuantConfigs; below 0: it is left plain.
// `layer`: -1 for the head and the embedding.
using FormatChoice = std::function<int(model::Role role, int64_t layer)>;
QuantisedCopy MakeMixedCopy(const std::string& from, const nlohmann::json& quantization,
                            const std::string& to, const std::string& dtype,
                            const FormatChoice& choice);

}  // namespace tutti::worker
