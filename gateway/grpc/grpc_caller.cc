#include "gateway/grpc/grpc_caller.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_replace.h"
#include "door/grpc/client_call.h"
#include "gateway/http/host_name.h"
#include "metrics/trace_context.h"

namespace tutti::gateway {
namespace {

// Stands for values of which two readers could take different ones; no rule lets it in.
constexpr char kSeveral[] = "several";

// "ipv4:10.0.0.7:4001", "ipv6:%5B::1%5D:4001", "unix:": the other end as HTTP's port tells it.
HttpPeer PeerOf(const std::string& name) {
  if (name.substr(0, 5) == "unix:") return {.account = "unix", .is_local = true};
  const std::string host = HostName(absl::StrReplaceAll(
      name.substr(std::min(name.size(), name.find(':') + 1)), {{"%5B", "["}, {"%5D", "]"}}));
  std::string account = AccountOfAddress(host);
  const bool is_local = IsLoopbackName(host) || IsLoopbackName(account);
  return {.account = std::move(account), .is_local = is_local};
}

// The head of a request, as the rules look at it.
HttpRequest HeadOf(const grpc::CallbackServerContext& context) {
  const grpc::string_ref authority = context.ExperimentalGetAuthority();
  HttpRequest head;
  head.peer = PeerOf(context.peer());
  head.method = "POST";
  head.fields.emplace_back("host", std::string(authority.data(), authority.size()));
  for (const char* name : {"authorization", "origin"}) {
    const auto [begin, end] = context.client_metadata().equal_range(name);
    if (begin == end) continue;
    head.fields.emplace_back(name, std::next(begin) == end
                                       ? std::string(begin->second.data(), begin->second.size())
                                       : kSeveral);
  }
  return head;
}

// The caller's only traceparent: of two nobody knows which counts: there is none.
std::string TraceparentOf(const grpc::CallbackServerContext& context) {
  const auto [begin, end] = context.client_metadata().equal_range("traceparent");
  if (begin == end || std::next(begin) != end) return "";
  const auto parsed =
      metrics::ParseTraceparent(std::string_view(begin->second.data(), begin->second.size()));
  return parsed.has_value() ? metrics::FormatTraceparent(*parsed) : "";
}

absl::Status ToStatus(const ApiError& error) {
  return error.status == 401 ? absl::UnauthenticatedError(error.message)
                             : absl::PermissionDeniedError(error.message);
}

}  // namespace

std::optional<Duration> GrpcCaller::TimeLeft() const {
  if (deadline == kInstantNever) return std::nullopt;
  return std::max<Duration>(deadline - SystemClock().Now(), Duration::zero());
}

absl::StatusOr<GrpcCaller> AdmitCall(const DoorRules& rules,
                                     const grpc::CallbackServerContext& context) {
  auto admitted = Admit(rules, HeadOf(context), /*open=*/false);
  if (const auto* error = std::get_if<ApiError>(&admitted)) return ToStatus(*error);
  const std::string peer = context.peer();
  const std::optional<Duration> left = door::TimeLeftOf(context);
  // "ipv4:10.0.0.7:4001"; those of a Unix socket are on one host.
  return GrpcCaller{.tenant = std::move(std::get<std::string>(admitted)),
                    .host = peer.substr(0, peer.rfind(':')),
                    .account = PeerOf(peer).account,
                    .tenants = door::TenantsOf(context),
                    .traceparent = TraceparentOf(context),
                    .deadline = left ? SystemClock().Now() + *left : kInstantNever};
}

}  // namespace tutti::gateway
