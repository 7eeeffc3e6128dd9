// The tensors that a quantised matrix is read from: a checkpoint's, or those of one file.
//
// Thread: constant; any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/safetensors.h"

namespace tutti::quant {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Null: there is none of that name.
  virtual const model::TensorInfo* Find(std::string_view name) const = 0;
  // All bytes of the tensor. REQUIRES: Find has found it.  Errors: as Checkpoint::Read.
  virtual absl::StatusOr<std::vector<std::byte>> Read(std::string_view name) const = 0;
};

// `path`: a folder with a checkpoint, or one safetensors file.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenTensors(const std::string& path);

}  // namespace tutti::quant
