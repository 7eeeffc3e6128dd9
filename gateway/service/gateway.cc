#include "gateway/service/gateway.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/plain_name.h"
#include "gateway/caller_rules.h"
#include "gateway/grpc/grpc_port.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "gateway/openai/event_stream.h"

namespace tutti::gateway {
namespace {

ApiError Unavailable(std::string_view why) { return MakeError(503, why); }

// The client's name for its request if it can be one, else one of ours.
std::string RequestName(const HttpRequest& request) {
  const std::string_view given = request.Field("x-request-id");
  return given.size() <= kRequestNameBytesMax && IsPlainName(given) ? std::string(given)
                                                                    : RandomName();
}

OrderedJson ModelJson(const v1::GetModelResponse& model) {
  return {{"id", model.name()},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "tutti"},
          {"root", model.name()},
          {"parent", nullptr},
          {"max_model_len", model.context_length()},
          {"permission", OrderedJson::array()}};
}

// Ids are for clients that read events by their standard. Load tools take a line for the whole of
// an event and fail over a line with an id; none of them says that it accepts events.
std::variant<EventOptions, ApiError> ReadEventOptions(const HttpRequest& http,
                                                      const GenerationRequest& request) {
  const std::string_view last = http.Field("last-event-id");
  if (last.empty()) {
    const bool asked = http.Field("accept").find("text/event-stream") != std::string_view::npos;
    return EventOptions{.ids = asked};
  }
  if (!request.stream || request.response != nullptr || !MayHaveEventIds(AnswerShape(request))) {
    return BadRequest(kLastEventId,
                      "Last-Event-ID goes on with streams of chat/completions and completions of "
                      "one prompt; send this request without it");
  }
  auto id = ParseEventId(last);
  if (auto* error = std::get_if<ApiError>(&id)) return std::move(*error);
  return EventOptions{.ids = true, .after = std::get<EventId>(std::move(id))};
}

}  // namespace

struct Gateway::Entry {
  std::string_view method;  // with GET goes HEAD
  std::string_view path;
  Route route;
  bool open;  // needs no key
};

const Gateway::Entry Gateway::kRoutes[] = {
    {"GET", "/health", &Gateway::AnswerHealth, true},
    {"GET", "/ready", &Gateway::AnswerHealth, true},
    {"GET", "/live", &Gateway::AnswerLive, true},
    {"GET", "/ping", &Gateway::AnswerHealth, true},
    {"POST", "/ping", &Gateway::AnswerHealth, true},
    {"GET", "/version", &Gateway::AnswerVersion, true},
    {"GET", "/metrics", &Gateway::AnswerMetrics, true},  // for operators; see there
    {"GET", "/load", &Gateway::AnswerLoad, false},
    {"GET", "/v1/models", &Gateway::AnswerModels, false},
    {"POST", "/v1/chat/completions", &Gateway::AnswerChat, false},
    {"POST", "/v1/completions", &Gateway::AnswerCompletion, false},
    {"POST", "/v1/responses", &Gateway::AnswerResponses, false},
    {"POST", "/tokenize", &Gateway::AnswerTokenize, false},
    {"POST", "/detokenize", &Gateway::AnswerDetokenize, false},
};

Gateway::Gateway(DoorRules rules, ParseRules parse_rules, Upstream* upstream, Console* console,
                 std::vector<metrics::CertificateFile> certificates, metrics::SpanWriter* spans)
    : rules_(std::move(rules)),
      parse_rules_(parse_rules),
      upstream_(upstream),
      console_(console),
      certificates_(std::move(certificates)),
      spans_(spans),
      metrics_(
          [] {
            std::vector<std::string> paths;
            for (const Entry& entry : kRoutes) paths.emplace_back(entry.path);
            return paths;
          }(),
          &clock_) {}

std::optional<HttpResponse> Gateway::RefuseHead(const HttpRequest& head) {
  const auto error = RefuseBody(rules_, head);
  if (!error.has_value()) return std::nullopt;
  metrics_.CountRefused(head.path, error->status);
  return MakeCaller(nullptr, head).ErrorResponse(*error);
}

Caller Gateway::MakeCaller(std::shared_ptr<Exchange> exchange, const HttpRequest& request) const {
  Caller caller{.exchange = std::move(exchange),
                .fields = CorsFields(rules_, request),
                .request_name = RequestName(request)};
  caller.fields.emplace_back("x-request-id", caller.request_name);
  return caller;
}

void Gateway::Handle(std::shared_ptr<Exchange> plain) {
  const std::shared_ptr<Exchange> exchange = metrics_.Count(std::move(plain));
  const HttpRequest& request = exchange->request();
  Caller caller = MakeCaller(exchange, request);
  if (console_->Handle(rules_, caller)) return;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  // One model may be asked for by name: the route is the list's.
  const bool is_model = absl::StartsWith(request.path, "/v1/models/");
  const Entry* found = nullptr;
  std::string allowed;
  for (const Entry& entry : kRoutes) {
    if (entry.path != (is_model ? "/v1/models" : request.path)) continue;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ",
                    absl::string_view(entry.method.data(), entry.method.size()));
    if (entry.method == method) found = &entry;
  }
  auto admitted = Admit(rules_, request, found != nullptr && found->open);
  if (const auto* error = std::get_if<ApiError>(&admitted)) return caller.ReplyError(*error);
  caller.tenant = std::move(std::get<std::string>(admitted));
  if (found != nullptr) return (this->*found->route)(caller);
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
  ApiError error = MakeError(404, "there is nothing at " + request.path.substr(0, 128));
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

void Gateway::AnswerLive(const Caller& caller) { caller.ReplyJson("{}"); }

void Gateway::AnswerVersion(const Caller& caller) {
  caller.ReplyJson(Dump({{"version", std::string(BuildStamp())}}));
}

// Requests for generated text that this gateway has given to the service and that have not ended.
void Gateway::AnswerLoad(const Caller& caller) {
  caller.ReplyJson(Dump({{"server_load", upstream_->calls.load()}}));
}

// The process is looked at where that delays no stream.
void Gateway::AnswerMetrics(const Caller& caller) {
  if (const auto refusal = AdmitOperator(rules_, caller.exchange->request())) {
    return caller.ReplyError(*refusal);
  }
  const auto model = upstream_->model();
  metrics::Exposition text;
  metrics_.Write({.exchanges = server_->exchanges(),
                  .calls = upstream_->calls,
                  .read_bytes = server_->read_bytes(),
                  .reachable = model->reachable,
                  .ready = model->ready(),
                  .draining = draining_,
                  .grpc_calls = grpc_ == nullptr ? 0 : grpc_->under_way(),
                  .grpc_calls_begun = grpc_ == nullptr ? 0 : grpc_->begun()},
                 &text);
  if (spans_ != nullptr) spans_->WriteMetrics(&text);
  Later(caller, Lane::kHere,
        [caller, files = certificates_, text]() mutable -> std::function<void()> {
          metrics::WriteProcess("gateway", &text);
          metrics::WriteCertificates(files, &text);
          return [caller, body = text.Release()] {
            HttpResponse response = caller.Head(200);
            response.content_type = metrics::kContentType;
            response.body = body;
            caller.exchange->Reply(std::move(response));
          };
        });
}

void Gateway::AnswerModels(const Caller& caller) {
  const auto model = upstream_->model();
  if (!model->known()) return caller.ReplyError(Unavailable(kServiceUnreachable));
  const std::string& path = caller.exchange->request().path;
  const std::string prefix = "/v1/models/";
  if (!absl::StartsWith(path, prefix)) {
    return caller.ReplyJson(
        Dump({{"object", "list"}, {"data", OrderedJson::array({ModelJson(model->model)})}}));
  }
  if (path.substr(prefix.size()) == model->model.name()) {
    return caller.ReplyJson(Dump(ModelJson(model->model)));
  }
  ApiError error = MakeError(404, "no model of that name is served here");
  error.param = "model";
  error.code = "model_not_found";
  caller.ReplyError(error);
}

// Runs `job` on a thread that may block, and what it returns on the loop.
void Gateway::Later(const Caller& caller, Lane lane, std::function<std::function<void()>()> job) {
  const bool taken =
      upstream_->Run(lane, [server = server_, job = std::move(job)] { server->Post(job()); });
  if (!taken) caller.ReplyError(Unavailable("too many requests wait to be read"));
}

struct Gateway::Prepared {
  Lane lane;  // by the size of its body
  std::variant<GenerationRequest, ApiError> request;
  std::string key;       // its Idempotency-Key; empty: none
  RequestDigest digest;  // where it has a key
};

template <typename Read>
void Gateway::ReadAndGenerate(const Caller& caller, Read read) {
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  HttpRequest& request = caller.exchange->request();
  const std::string key(request.Field("idempotency-key"));
  if (const auto error = CheckIdempotencyKey(key)) return caller.ReplyError(*error);
  const auto prepare = [read, key, path = request.path](std::string_view body) -> Prepared {
    auto json = ParseObject(body);
    const Lane lane = LaneOf(body.size());
    if (auto* error = std::get_if<ApiError>(&json)) return {lane, std::move(*error), key, {}};
    return {lane, read(std::get<Json>(json), body), key,
            key.empty() ? RequestDigest{} : DigestOf(path, body)};
  };
  std::string body = std::move(request.body);
  if (body.size() <= kInlineBodyBytesMax) return Generate(caller, prepare(body));
  Later(caller, Lane::kLong,
        [this, caller, prepare, body = std::move(body)]() -> std::function<void()> {
          // It may be large: the loop must not copy it.
          auto prepared = std::make_shared<Prepared>(prepare(body));
          return [this, caller, prepared] { Generate(caller, std::move(*prepared)); };
        });
}

void Gateway::Generate(const Caller& caller, Prepared prepared) {
  if (const auto* error = std::get_if<ApiError>(&prepared.request)) {
    return caller.ReplyError(*error);
  }
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  auto& wanted = std::get<GenerationRequest>(prepared.request);
  // All calls of a request have one.
  if (const auto said = CheckPriority(wanted.calls.front().priority()); !said.ok()) {
    return caller.ReplyError(FromStatus(said, wanted.names, 0));
  }
  const auto model = upstream_->model();
  if (const auto error = ChooseParse(parse_rules_, model->form, &wanted)) {
    return caller.ReplyError(*error);
  }
  const auto& eos = model->model.eos_token_ids();
  wanted.eos_token_ids.assign(eos.begin(), eos.end());
  auto events = ReadEventOptions(caller.exchange->request(), wanted);
  if (const auto* error = std::get_if<ApiError>(&events)) return caller.ReplyError(*error);
  GenerationOptions options{.events = std::get<EventOptions>(std::move(events))};
  if (!prepared.key.empty() && ReadAgain(caller, prepared, options.events)) return;
  if (upstream_->calls + static_cast<int64_t>(wanted.calls.size()) > kCallsMax) {
    return caller.ReplyError(Unavailable("too many requests are under way"));
  }
  if (wanted.token_ids && wanted.prompt_ids.empty()) {
    return FindPromptIds(caller, std::move(prepared));
  }
  options.kept = !prepared.key.empty() && keyed_.has_room();
  const bool kept = options.kept;
  const auto generation =
      std::make_shared<Generation>(caller, std::move(wanted), std::move(options), upstream_,
                                   server_, console_->traffic(), spans_);
  std::erase_if(generations_, [](const auto& other) { return other.expired(); });
  generations_.push_back(generation);
  if (kept) keyed_.Add(caller.tenant, prepared.key, prepared.digest, generation);
  generation->Start();
}

void Gateway::FindPromptIds(const Caller& caller, Prepared prepared) {
  // It may be large: the loop must not copy it.
  auto shared = std::make_shared<Prepared>(std::move(prepared));
  Later(caller, shared->lane,
        [this, caller, upstream = upstream_, shared]() -> std::function<void()> {
          auto& request = std::get<GenerationRequest>(shared->request);
          for (size_t i = 0; i < request.calls.size(); ++i) {
            const auto& given = request.calls[i].token_ids().ids();
            std::vector<int32_t> ids(given.begin(), given.end());
            if (const auto asked = AskPromptIds(request.calls[i])) {
              const auto tokens =
                  upstream->client()->Tokenize(*asked, {.timeout = kTokenizeTimeout});
              if (!tokens.ok()) {
                request.names.prompt_index = i;
                const ApiError error = FromStatus(tokens.status(), request.names,
                                                  upstream->model()->model.context_length());
                return [caller, error] { caller.ReplyError(error); };
              }
              ids.assign(tokens->ids().begin(), tokens->ids().end());
            }
            SetPromptIds(std::move(ids), i, &request);
          }
          return [this, caller, shared] { Generate(caller, std::move(*shared)); };
        });
}

bool Gateway::ReadAgain(const Caller& caller, const Prepared& prepared,
                        const EventOptions& events) {
  auto found = keyed_.Find(caller.tenant, prepared.key, prepared.digest);
  if (const auto* error = std::get_if<ApiError>(&found)) {
    caller.ReplyError(*error);
    return true;
  }
  const auto& answer = std::get<std::shared_ptr<Generation>>(found);
  // An id of another answer: the service is to say what it makes of it.
  if (answer == nullptr || (events.after && !absl::EndsWith(answer->id(), events.after->name))) {
    return false;
  }
  answer->ReadAgain(caller, events);
  return true;
}

void Gateway::OnTick() {
  keyed_.Tick(SystemClock().Now());
  if (grpc_ != nullptr) grpc_->Tick();
}

void Gateway::AnswerChat(const Caller& caller) { ReadAndGenerate(caller, ReadChatRequest); }

void Gateway::AnswerCompletion(const Caller& caller) {
  ReadAndGenerate(caller,
                  [](const Json& body, std::string_view) { return ReadCompletionRequest(body); });
}

void Gateway::AnswerResponses(const Caller& caller) {
  ReadAndGenerate(caller,
                  [](const Json& body, std::string_view) { return ReadResponsesRequest(body); });
}

void Gateway::Drain() {
  draining_ = true;
  console_->EndAll();
  server_->Drain();
  if (grpc_ != nullptr) grpc_->Drain();
}

void Gateway::EndAll() {
  constexpr char kWhy[] = "this gateway is ending; send the request again";
  if (grpc_ != nullptr) grpc_->EndAll(absl::UnavailableError(kWhy));
  for (const auto& weak : generations_) {
    if (const auto generation = weak.lock()) {
      generation->End(Unavailable(kWhy));
    }
  }
}

}  // namespace tutti::gateway
