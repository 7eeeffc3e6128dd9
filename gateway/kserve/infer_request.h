// Requests of KServe's ModelInfer and ModelStreamInfer as requests to the service.
//
// Tensors are those of Triton's vLLM backend (text_input, stream, sampling_parameters …) or of
// TensorRT-LLM's ensemble (text_input, max_tokens, stop_words …), of which a request may have both.
// Each is served, or refused by name if it would change the answer. Names of sampling parameters
// are those of /v1/completions (common_fields.cc), which reads them. Ranges are the service's
// business.
//
// Pure.  Thread: any.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/field_paths.h"
#include "inference/grpc_service.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

struct InferRequest {
  v1::GenerateRequest call;
  std::string model;  // as the caller wrote it, and its name of the request
  std::string id;
  bool stream = false;           // tokens as they come
  bool empty_final = false;      // a response without tensors says that it was the last
  bool prepend_input = false;    // the text begins with the prompt
  std::set<std::string> wanted;  // output tensors
  FieldPaths paths;              // what the caller calls fields of ours
  std::optional<Duration> timeout;
};

// `in_stream`: of ModelStreamInfer; else the answer is whole, whatever the request says.
// `vocabulary`: ids are below it; 0: nobody knows.
// INVALID_ARGUMENT names the tensor or parameter, NOT_FOUND the version.
absl::StatusOr<InferRequest> ReadInferRequest(const inference::ModelInferRequest& asked,
                                              bool in_stream, int64_t vocabulary);

}  // namespace tutti::gateway
