#include "transport/roles.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/plain_name.h"
#include "proto/peer_messages.h"
#include "tutti/v1/cluster.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::transport {
namespace {

constexpr std::string_view kScheme = "tutti://";

// Health is asked by all sorts of probes and tells one bit; what reflection tells is in proto/.
constexpr MethodRoles kTable[] = {
    {"/tutti.v1.Inference/Generate", {Role::kClient, Role::kGateway}},
    {"/tutti.v1.Inference/Tokenize", {Role::kClient, Role::kGateway}},
    {"/tutti.v1.Inference/Detokenize", {Role::kClient, Role::kGateway}},
    {"/tutti.v1.Inference/GetModel", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ServerLive", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ServerReady", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ModelReady", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ServerMetadata", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ModelMetadata", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ModelConfig", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ModelStatistics", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/RepositoryIndex", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ModelInfer", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/ModelStreamInfer", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
     {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/CudaSharedMemoryRegister", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/TraceSetting", {Role::kClient, Role::kGateway}},
    {"/inference.GRPCInferenceService/LogSettings", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/Generate", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/Abort", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/HealthCheck", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/GetModelInfo", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/GetServerInfo", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/Embed", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/GetLoads", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/FlushCache", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/GetTokenizer", {Role::kClient, Role::kGateway}},
    {"/vllm.grpc.engine.VllmEngine/SubscribeKvEvents", {Role::kClient, Role::kGateway}},
    {"/tutti.v1.Admin/GetStatus", {Role::kOperator}},
    {"/tutti.v1.Admin/LookupPrefix", {Role::kOperator}},
    {"/tutti.v1.Admin/DrainWorker", {Role::kOperator}},
    {"/tutti.peer.v1.Peer/Connect", {Role::kWorker}},
    {"/grpc.health.v1.Health/Check",
     {Role::kClient, Role::kGateway, Role::kWorker, Role::kCoordinator, Role::kOperator}},
    {"/grpc.health.v1.Health/Watch",
     {Role::kClient, Role::kGateway, Role::kWorker, Role::kCoordinator, Role::kOperator}},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
     {Role::kClient, Role::kGateway, Role::kOperator}},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     {Role::kClient, Role::kGateway, Role::kOperator}},
};

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kGateway:
      return "gateway";
    case Role::kWorker:
      return "worker";
    case Role::kCoordinator:
      return "coordinator";
    case Role::kOperator:
      return "operator";
  }
  return "";
}

std::optional<Identity> ParseIdentity(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  if (uri == RoleName(Role::kCoordinator)) return Identity{Role::kCoordinator, ""};
  const size_t slash = uri.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view name = uri.substr(slash + 1);
  if (!IsPlainName(name)) return std::nullopt;
  for (const Role role : kAllRoles) {
    if (role == Role::kCoordinator || uri.substr(0, slash) != RoleName(role)) continue;
    return Identity{role, std::string(name)};
  }
  return std::nullopt;
}

std::string IdentityUri(const Identity& identity) {
  std::string uri(kScheme);
  uri += RoleName(identity.role);
  if (identity.role != Role::kCoordinator) uri += "/" + identity.name;
  return uri;
}

const std::string* Caller::NameAs(Role role) const {
  for (const Identity& identity : identities) {
    if (identity.role == role) return &identity.name;
  }
  return nullptr;
}

std::span<const MethodRoles> MethodTable() { return kTable; }

const RoleSet* RolesOfMethod(std::string_view path) {
  const auto* const found =
      std::find_if(std::begin(kTable), std::end(kTable),
                   [path](const MethodRoles& row) { return row.path == path; });
  return found == std::end(kTable) ? nullptr : &found->roles;
}

absl::Status CheckCall(std::string_view path, RoleSet roles) {
  const RoleSet* const allowed = RolesOfMethod(path);
  if (allowed == nullptr) return absl::UnimplementedError("no such method");
  if (allowed->Meets(roles)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "this caller has no role that may call this method: the port that it came to, or the roles "
      "of its certificate, are for other callers");
}

absl::Status CheckMethodTable(std::span<const google::protobuf::FileDescriptor* const> files) {
  for (const auto* const file : files) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* const service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        const std::string path =
            absl::StrCat("/", service->full_name(), "/", service->method(m)->name());
        const RoleSet* const roles = RolesOfMethod(path);
        if (roles != nullptr && !roles->empty()) continue;
        return absl::FailedPreconditionError(
            absl::StrCat(path, " has no roles that may call it; add it to transport/roles.cc"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMethodTable() {
  const google::protobuf::FileDescriptor* const files[] = {
      v1::GenerateRequest::descriptor()->file(), v1::GetStatusRequest::descriptor()->file(),
      v1::Frame::descriptor()->file()};
  return CheckMethodTable(files);
}

}  // namespace tutti::transport
