// The KV cache of one shard: memory for every layer's blocks, allocated once.
//
// The owners of blocks are the coordinator's business; here a block is a number.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"

namespace tutti::worker {

class KvStore {
 public:
  // Builds with TUTTI_PARANOID fill it with NaN, so that reading a slot that was never written
  // shows. RESOURCE_EXHAUSTED names the layer and the bytes.
  static absl::StatusOr<KvStore> Create(kernels::Backend* backend, const kernels::KvShape& shape,
                                        int64_t num_layers);

  const kernels::KvLayer& layer(int64_t index) const { return layers_[index]; }
  int64_t bytes() const;

 private:
  std::vector<std::unique_ptr<kernels::DeviceBuffer>> buffers_;
  std::vector<kernels::KvLayer> layers_;
};

}  // namespace tutti::worker
