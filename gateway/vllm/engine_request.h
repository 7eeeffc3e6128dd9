// Requests of vllm.grpc.engine.VllmEngine as requests to the service, and what it says of itself.
//
// A field is served, or refused by name if it would change the answer. What is 0 is not set, as
// that protocol has it: then nothing is filtered or penalised, whatever the model's own defaults
// are, because routers read these and send them.
//
// Pure.  Thread: any.
#pragma once

#include "base/status.h"
#include "gateway/field_paths.h"
#include "tutti/v1/generation.pb.h"
#include "vllm/vllm_engine.pb.h"

namespace tutti::gateway {

// INVALID_ARGUMENT names the field. Ranges are the service's business.
absl::StatusOr<v1::GenerateRequest> ReadEngineRequest(
    const vllm::grpc::engine::GenerateRequest& asked);

// The names that this protocol has for fields of ours.
const FieldPaths& EnginePaths();

vllm::grpc::engine::GetModelInfoResponse DescribeForEngine(const v1::GetModelResponse& model);

}  // namespace tutti::gateway
