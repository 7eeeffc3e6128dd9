// Checkpoints that tests write.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/safetensors.h"

namespace tutti::worker {

// The tensors of a folder with one file.
class CheckpointFile {
 public:
  template <typename Value>
  void Add(const std::string& name, model::StoredType type, std::vector<int64_t> shape,
           const std::vector<Value>& values) {
    Tensor& tensor = tensors_.emplace_back();
    tensor.info.name = name;
    tensor.info.dtype = type;
    tensor.info.shape = std::move(shape);
    tensor.data.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
    tensor.info.bytes = static_cast<int64_t>(tensor.data.size());
  }
  // Makes the folder where there is none.
  void Write(const std::string& folder, const nlohmann::json& config) const;

 private:
  struct Tensor {
    model::TensorInfo info;
    std::string data;
  };
  std::vector<Tensor> tensors_;
};

// A folder with a Qwen3 of three layers below `to`, whose sizes every format can divide; with
// experts where they are asked for.
std::string MakePlainModel(const std::string& to, bool experts = false);

}  // namespace tutti::worker
