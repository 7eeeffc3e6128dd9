// The facts about the model that KServe's methods tell: its tensors, its configuration, and whether
// it is there.
//
// Pure.  Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "inference/grpc_service.pb.h"

namespace tutti::gateway {

// The version of the one model that there is.
inline constexpr char kModelVersion[] = "1";

bool IsInputTensor(std::string_view name);
bool IsOutputTensor(std::string_view name);

// NOT_FOUND: there is another version only. Empty: any.
absl::Status CheckVersion(const std::string& version);
// NOT_FOUND: `served` is the one model that there is.
absl::Status CheckModel(const std::string& name, const std::string& version,
                        const std::string& served);

inference::ServerMetadataResponse DescribeServer(std::string_view version);
inference::ModelMetadataResponse DescribeModel(const std::string& name);
inference::ModelConfigResponse ConfigOfModel(const std::string& name);
inference::RepositoryIndexResponse IndexOfModels(const std::string& name, bool is_ready);

}  // namespace tutti::gateway
