#include "worker/product_probe.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "kernels/host_buffer.h"

namespace tutti::worker {

using kernels::DeviceBuffer;
using kernels::TensorView;

absl::StatusOr<std::unique_ptr<ProductProbe>> ProductProbe::Create(kernels::Backend* backend,
                                                                   const Shape& shape) {
  std::unique_ptr<ProductProbe> probe(new ProductProbe(backend, shape));
  TUTTI_RETURN_IF_ERROR(probe->Prepare());
  return probe;
}

absl::Status ProductProbe::Prepare() {
  const int64_t bytes = shape_.out_features * shape_.in_features * DTypeBytes(shape_.dtype);
  TUTTI_ASSIGN_OR_RETURN(const auto source, kernels::AllocateHost(bytes));
  kernels::WeightSource weight;
  weight.parts = {{.data = source->data(),
                   .dtype = shape_.dtype,
                   .rows = shape_.out_features,
                   .cols = shape_.in_features,
                   .row_stride = shape_.in_features}};
  weight.name = "probe";
  for (int64_t packed = 0; packed < shape_.weight_bytes; packed += bytes) {
    TUTTI_ASSIGN_OR_RETURN(weights_.emplace_back(), backend_->Pack(weight));
  }
  constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
  TUTTI_ASSIGN_OR_RETURN(in_,
                         backend_->Allocate(shape_.rows_max * shape_.in_features * kFloatBytes));
  TUTTI_ASSIGN_OR_RETURN(out_,
                         backend_->Allocate(shape_.rows_max * shape_.out_features * kFloatBytes));
  TUTTI_ASSIGN_OR_RETURN(host_, kernels::AllocateHost(shape_.out_features * kFloatBytes));
  return absl::OkStatus();
}

int64_t ProductProbe::bytes() const {
  int64_t bytes = 0;
  for (const auto& weight : weights_) bytes += weight->bytes();
  return bytes;
}

TensorView ProductProbe::View(const DeviceBuffer& buffer, kernels::Device device, int64_t rows,
                              int64_t cols) const {
  return {.data = buffer.data(),
          .dtype = DType::kF32,
          .device = device,
          .rows = rows,
          .cols = cols,
          .row_stride = cols};
}

double ProductProbe::Seconds(int64_t rows, int64_t count) {
  CHECK(rows > 0 && rows <= shape_.rows_max && count > 0) << rows << " rows, " << count;
  const kernels::Device device = backend_->device();
  const TensorView in = View(*in_, device, rows, shape_.in_features);
  const TensorView out = View(*out_, device, rows, shape_.out_features);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) {
    backend_->MatMul(in, *weights_[next_], out);
    next_ = (next_ + 1) % weights_.size();
  }
  // Copying a row to the host waits for all that was asked of the device.
  backend_->Convert(View(*out_, device, 1, shape_.out_features),
                    View(*host_, {}, 1, shape_.out_features));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::max(seconds, 1e-9);
}

}  // namespace tutti::worker
