#include "worker/kv_store.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::worker {

absl::StatusOr<KvStore> KvStore::Create(kernels::Backend* backend, const kernels::KvShape& shape,
                                        int64_t num_layers) {
  KvStore store;
  const int64_t layer_bytes = backend->KvLayerBytes(shape);
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    auto buffer = backend->Allocate(layer_bytes);
    if (!buffer.ok()) {
      return Annotate(buffer.status(), absl::StrCat("KV cache of layer ", layer + 1, " of ",
                                                    num_layers, ", ", shape.num_blocks, " blocks"));
    }
#ifdef TUTTI_PARANOID
    // All bits set is NaN in every type we have.
    if (backend->device().kind == kernels::DeviceKind::kCpu) {
      std::memset((*buffer)->data(), 0xff, layer_bytes);
    }
#endif
    store.layers_.push_back({(*buffer)->data(), backend->device(), shape});
    store.buffers_.push_back(*std::move(buffer));
  }
  return store;
}

int64_t KvStore::bytes() const {
  int64_t total = 0;
  for (const auto& buffer : buffers_) total += buffer->bytes();
  return total;
}

}  // namespace tutti::worker
