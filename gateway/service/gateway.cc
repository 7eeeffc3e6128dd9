#include "gateway/service/gateway.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/check.h"
#include "base/plain_name.h"
#include "gateway/caller_rules.h"
#include "gateway/document/open_api.h"
#include "gateway/grpc/grpc_port.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "metrics/hand_on.h"
#include "metrics/limits.h"
#include "spdlog/spdlog.h"

namespace tutti::gateway {
namespace {

// The client's name for its request if it can be one, else one of ours.
std::string RequestName(const HttpRequest& request) {
  const std::string_view given = request.Field("x-request-id");
  return given.size() <= kRequestNameBytesMax && IsPlainName(given) ? std::string(given)
                                                                    : RandomName();
}

// Whether the route is that of the path.
bool Leads(const Route& route, std::string_view path) {
  if (path.substr(0, route.path.size()) != route.path) return false;
  return path.size() == route.path.size() || (route.below && path[route.path.size()] == '/');
}

// With what the coordinator at `of` tells, where there is one and it answers.
std::string WithOthers(const std::optional<metrics::HttpUrl>& of, metrics::Exposition text) {
  absl::StatusOr<std::string> told = std::string();
  if (of.has_value()) {
    told = metrics::GetText(*of, metrics::kHandedOnBytesMax, metrics::kHandOnTime);
  }
  text.Single("tutti_gateway_coordinator_metrics", metrics::Kind::kGauge,
              "1 where the coordinator's metrics are told here too, else 0.",
              of.has_value() && told.ok() ? 1 : 0);
  if (told.ok()) return metrics::JoinExpositions(text.Release(), *told, "coordinator");
  spdlog::warn("metrics of the coordinator at {}:{}: {}", of->host, of->port,
               std::string(told.status().message()));
  return text.Release();
}

}  // namespace

Gateway::Gateway(DoorRules rules, Upstream* upstream, Console* console, LoopJobs* jobs,
                 std::vector<HttpApi*> apis, std::vector<metrics::CertificateFile> certificates,
                 metrics::SpanWriter* spans)
    : rules_(std::move(rules)),
      upstream_(upstream),
      console_(console),
      jobs_(jobs),
      apis_(std::move(apis)),
      certificates_(std::move(certificates)),
      spans_(spans),
      routes_(Routes()),
      metrics_(
          [this] {
            std::vector<std::string> paths;
            for (const Route& route : routes_) paths.emplace_back(route.path);
            return paths;
          }(),
          &clock_) {}

std::vector<Route> Gateway::Routes() {
  const auto health = [this](const Caller& caller) { AnswerHealth(caller); };
  const auto live = [](const Caller& caller) { caller.ReplyJson("{}"); };
  const auto version = [](const Caller& caller) {
    caller.ReplyJson(Dump({{"version", std::string(BuildStamp())}}));
  };
  const auto document = [text = OpenApiDocument()](const Caller& caller) {
    caller.ReplyJson(text);
  };
  const auto metrics = [this](const Caller& caller) { AnswerMetrics(caller); };
  // Requests for generated text that this gateway has given to the service and that have not ended.
  const auto load = [this](const Caller& caller) {
    caller.ReplyJson(Dump({{"server_load", upstream_->calls.load()}}));
  };
  std::vector<Route> routes = {
      {.method = "GET", .path = "/health", .answer = health, .open = true},
      {.method = "GET", .path = "/ready", .answer = health, .open = true},
      {.method = "GET", .path = "/live", .answer = live, .open = true},
      {.method = "GET", .path = "/ping", .answer = health, .open = true},
      {.method = "POST", .path = "/ping", .answer = health, .open = true},
      {.method = "GET", .path = "/version", .answer = version, .open = true},
      {.method = "GET", .path = "/openapi.json", .answer = document, .open = true},
      {.method = "GET", .path = "/metrics", .answer = metrics, .open = true},  // see there
      {.method = "GET", .path = "/load", .answer = load},
  };
  for (HttpApi* const api : apis_) {
    for (Route& route : api->Routes()) routes.push_back(std::move(route));
  }
  for (const Route& route : routes) CHECK(IsDocumented(route.method, route.path)) << route.path;
  return routes;
}

HttpHandler::Verdict Gateway::Judge(const HttpRequest& head) {
  auto admitted = AdmitBody(rules_, head);
  if (const auto* tenant = std::get_if<std::string>(&admitted)) {
    return {.refusal = {}, .owner = OwnerName(*tenant, head.peer.account)};
  }
  const auto& error = std::get<ApiError>(admitted);
  metrics_.CountRefused(head.path, error.status);
  return {.refusal = MakeCaller(nullptr, head).ErrorResponse(error), .owner = {}};
}

Caller Gateway::MakeCaller(std::shared_ptr<Exchange> exchange, const HttpRequest& request) const {
  Caller caller{.exchange = std::move(exchange),
                .fields = CorsFields(rules_, request),
                .request_name = RequestName(request)};
  caller.fields.emplace_back("x-request-id", caller.request_name);
  for (const Route& route : routes_) {
    if (Leads(route, request.path)) caller.error_body = route.error_body;
  }
  return caller;
}

void Gateway::Handle(std::shared_ptr<Exchange> plain) {
  const std::shared_ptr<Exchange> exchange = metrics_.Count(std::move(plain));
  const HttpRequest& request = exchange->request();
  Caller caller = MakeCaller(exchange, request);
  if (console_->Handle(rules_, caller)) return;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const Route* found = nullptr;
  std::string allowed;
  for (const Route& route : routes_) {
    if (!Leads(route, request.path)) continue;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ",
                    absl::string_view(route.method.data(), route.method.size()));
    if (route.method == method) found = &route;
  }
  auto admitted = Admit(rules_, request, found != nullptr && found->open);
  if (const auto* error = std::get_if<ApiError>(&admitted)) return caller.ReplyError(*error);
  caller.tenant = std::move(std::get<std::string>(admitted));
  caller.owner = exchange->request().owner = OwnerName(caller.tenant, request.peer.account);
  if (found != nullptr) return found->answer(caller);
  if (method == "OPTIONS" && !allowed.empty()) {
    HttpResponse response = caller.Head(204);
    response.content_type.clear();
    response.fields.emplace_back("Allow", allowed + ", OPTIONS");
    return exchange->Reply(std::move(response));
  }
  if (!allowed.empty()) {
    caller.fields.emplace_back("Allow", allowed + ", OPTIONS");
    return caller.ReplyError(MakeError(405, "this path takes " + allowed));
  }
  ApiError error =
      MakeError(404, absl::StrCat("there is nothing at ", request.path.substr(0, 128),
                                  "; the paths of OpenAI's API are below /v1, so that the base URL "
                                  "of its clients ends with /v1, once"));
  error.code = "unknown_url";
  caller.ReplyError(error);
}

void Gateway::AnswerHealth(const Caller& caller) {
  const auto model = upstream_->model();
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  if (!model->reachable) return caller.ReplyError(Unavailable(kServiceUnreachable));
  if (!model->ready()) return caller.ReplyError(Unavailable("no pipeline is complete yet"));
  caller.ReplyJson("{}");
}

// The process is looked at where that delays no stream.
void Gateway::AnswerMetrics(const Caller& caller) {
  if (const auto refusal = AdmitOperator(rules_, caller.exchange->request())) {
    return caller.ReplyError(*refusal);
  }
  const auto model = upstream_->model();
  int64_t keys_not_kept = 0;
  for (const HttpApi* const api : apis_) keys_not_kept += api->keys_not_kept();
  metrics::Exposition text;
  metrics_.Write({.exchanges = server_->exchanges(),
                  .calls = upstream_->calls,
                  .read_bytes = server_->read_bytes(),
                  .evicted = server_->evicted(),
                  .keys_not_kept = keys_not_kept,
                  .held_bytes = server_->held_bytes(),
                  .reachable = model->reachable,
                  .ready = model->ready(),
                  .draining = draining_,
                  .grpc_calls = grpc_ == nullptr ? 0 : grpc_->under_way(),
                  .grpc_calls_begun = grpc_ == nullptr ? 0 : grpc_->begun()},
                 &text);
  if (spans_ != nullptr) spans_->WriteMetrics(&text);
  // The coordinator is asked where its own are told too, and may keep its caller waiting.
  jobs_->Run(
      caller, metrics_of_.has_value() ? Lane::kShort : Lane::kHere, /*bytes=*/0,
      [caller, files = certificates_, of = metrics_of_, text](auto*) mutable -> LoopJobs::Rest {
        metrics::WriteProcess("gateway", &text);
        metrics::WriteCertificates(files, &text);
        return [caller, body = WithOthers(of, std::move(text))] {
          HttpResponse response = caller.Head(200);
          response.content_type = metrics::kContentType;
          response.body = body;
          caller.exchange->Reply(std::move(response));
        };
      });
}

void Gateway::OnTick() {
  const Instant now = clock_.Now();
  for (HttpApi* const api : apis_) api->Tick(now);
  if (grpc_ != nullptr) grpc_->Tick();
}

void Gateway::Drain() {
  draining_ = true;
  for (HttpApi* const api : apis_) api->Drain();
  console_->EndAll();
  server_->Drain();
  if (grpc_ != nullptr) grpc_->Drain();
}

void Gateway::EndAll() {
  constexpr char kWhy[] = "this gateway is ending; send the request again";
  if (grpc_ != nullptr) grpc_->EndAll(absl::UnavailableError(kWhy));
  for (HttpApi* const api : apis_) api->EndAll(Unavailable(kWhy));
}

}  // namespace tutti::gateway
