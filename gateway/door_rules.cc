#include "gateway/door_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gateway/http/head_text.h"
#include "gateway/http/host_name.h"

namespace tutti::gateway {
namespace {

bool Has(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// A name that is an address cannot be made another's.
bool IsOurName(const DoorRules& rules, std::string_view host) {
  const std::string name = HostName(host);
  return IsLoopbackName(name) || (!name.empty() && Has(rules.allowed_hosts, name)) ||
         (rules.without_keys && IsAddress(name));
}

bool IsAllowedOrigin(const DoorRules& rules, std::string_view origin) {
  return Has(rules.cors_origins, "*") || Has(rules.cors_origins, origin);
}

// "http://localhost:3000" → "localhost:3000"
std::string_view HostOf(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

// Clients of Anthropic's API have a field of their own for it.
std::string_view KeyOf(const HttpRequest& request) {
  const std::string_view bearer = BearerKey(request.Field("authorization"));
  return bearer.empty() ? request.Field("x-api-key") : bearer;
}

std::variant<std::string, ApiError> AdmitByKey(const ApiKeys& keys, const HttpRequest& request) {
  auto tenant = keys.TenantOf(KeyOf(request));
  if (tenant.has_value()) return *std::move(tenant);
  return MakeError(401, "the request has no key that is known here: Authorization: Bearer KEY");
}

std::variant<std::string, ApiError> AdmitByPlace(const DoorRules& rules,
                                                 const HttpRequest& request) {
  if (!request.peer.is_local && !rules.without_keys) {
    return MakeError(403,
                     "this gateway has no keys and serves callers on its own machine; start it "
                     "with --api-key or --api-keys, or say --without-keys");
  }
  const std::string_view host = request.Field("host");
  // HTTP/1.0 needs none.
  if (!host.empty() && !IsOurName(rules, host)) {
    return MakeError(
        403, absl::StrCat("the Host \"", std::string(host.substr(0, 64)),
                          "\" is no name of this server; start the gateway with --api-key, or "
                          "name it with --allow-host"));
  }
  const std::string_view origin = request.Field("origin");
  if (!origin.empty() && !IsAllowedOrigin(rules, origin) && !IsOurName(rules, HostOf(origin))) {
    return MakeError(403, "pages of this origin may not call; allow it with --cors-origin");
  }
  return std::string();
}

}  // namespace

std::variant<std::string, ApiError> Admit(const DoorRules& rules, const HttpRequest& request,
                                          bool open) {
  if (open) return std::string();
  if (!rules.keys.has_value()) return AdmitByPlace(rules, request);
  if (request.method == "OPTIONS") return std::string();
  return AdmitByKey(*rules.keys, request);
}

std::variant<std::string, ApiError> AdmitBody(const DoorRules& rules, const HttpRequest& head) {
  return rules.keys.has_value() ? AdmitByKey(*rules.keys, head) : AdmitByPlace(rules, head);
}

std::optional<ApiError> AdmitOperator(const DoorRules& rules, const HttpRequest& request) {
  auto admitted = Admit(rules, request, /*open=*/false);
  if (auto* error = std::get_if<ApiError>(&admitted)) return std::move(*error);
  if (rules.keys.has_value()) {
    if (rules.keys->IsOperator(KeyOf(request))) return std::nullopt;
    return MakeError(403,
                     "this key is a tenant's: the state of the service is shown for an operator's, "
                     "whose line in the file of keys ends with \"operator\"");
  }
  if (!request.peer.is_local) {
    return MakeError(403,
                     "the state of the service is shown to this machine, or to who has an "
                     "operator's key (--api-keys)");
  }
  const std::string_view site = request.Field("sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return MakeError(403, "only this server's own page may ask for its state");
  }
  return std::nullopt;
}

HttpFields CorsFields(const DoorRules& rules, const HttpRequest& request) {
  const std::string_view origin = request.Field("origin");
  if (origin.empty() || !IsAllowedOrigin(rules, origin) || !IsFieldText(origin)) return {};
  HttpFields fields = {{"Access-Control-Allow-Origin", std::string(origin)},
                       {"Access-Control-Expose-Headers",
                        "x-request-id, retry-after, retry-after-ms, idempotency-key-kept"},
                       {"Vary", "Origin"}};
  if (request.method == "OPTIONS") {
    fields.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    // SDKs in browsers send fields of their own, which change nothing here.
    const std::string_view wanted = request.Field("access-control-request-headers");
    fields.emplace_back("Access-Control-Allow-Headers",
                        !wanted.empty() && IsFieldText(wanted)
                            ? std::string(wanted)
                            : "authorization, content-type, x-request-id, last-event-id");
    fields.emplace_back("Access-Control-Max-Age", "600");
  }
  return fields;
}

}  // namespace tutti::gateway
