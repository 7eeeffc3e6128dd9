// The input tensors of a KServe request, as JSON: a text, a number or a boolean for a tensor with
// one element, a list of them for others.
//
// Pure.  Thread: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gateway/json_text.h"
#include "inference/grpc_service.pb.h"

namespace tutti::gateway {

// A tensor that answers have.
struct OutputTensor {
  std::string name;
  std::string datatype;
  std::vector<int64_t> shape;
  std::string raw;  // its elements, as in raw_output_contents
};

// Inputs by name, in the order of the request. INVALID_ARGUMENT names the tensor: contents that do
// not fit its type and shape, text that is not UTF-8, a name twice, shared memory, more than
// kTensorsMax.
absl::StatusOr<std::vector<std::pair<std::string, ParsedJson>>> ReadTensors(
    const inference::ModelInferRequest& request);

// Elements of shape [number of values].
OutputTensor TextTensor(std::string name, const std::vector<std::string>& values);
OutputTensor FloatTensor(std::string name, const std::vector<float>& values);
OutputTensor CountTensor(std::string name, const std::vector<uint32_t>& values);

}  // namespace tutti::gateway
