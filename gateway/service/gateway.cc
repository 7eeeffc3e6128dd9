#include "gateway/service/gateway.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/plain_name.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// A time to come back that nobody told us.
constexpr Duration kComeBack = std::chrono::seconds(1);

// Where it is and why is the log's matter, not the world's.
constexpr std::string_view kUnreachable = "the service behind this gateway cannot be reached";

ApiError Unavailable(std::string_view why) {
  ApiError error = MakeError(503, why);
  error.retry_after = kComeBack;
  return error;
}

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

std::string TokenizeBody(const v1::TokenizeResponse& response, bool with_texts, uint32_t context) {
  OrderedJson body;
  body["count"] = response.ids_size();
  body["max_model_len"] = context;
  body["tokens"] = std::vector<int32_t>(response.ids().begin(), response.ids().end());
  if (with_texts) {
    body["token_strs"] =
        std::vector<std::string>(response.tokens().begin(), response.tokens().end());
  }
  return Dump(body);
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
    {"GET", "/v1/models", &Gateway::AnswerModels, false},
    {"POST", "/v1/chat/completions", &Gateway::AnswerChat, false},
    {"POST", "/v1/completions", &Gateway::AnswerCompletion, false},
    {"POST", "/tokenize", &Gateway::AnswerTokenize, false},
    {"POST", "/detokenize", &Gateway::AnswerDetokenize, false},
};

void Gateway::Handle(std::shared_ptr<Exchange> exchange) {
  const HttpRequest& request = exchange->request();
  Caller caller{.exchange = exchange,
                .fields = CorsFields(rules_, request),
                .request_name = RequestName(request)};
  caller.fields.emplace_back("x-request-id", caller.request_name);
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
  if (!model->reachable) return caller.ReplyError(Unavailable(kUnreachable));
  if (!model->ready()) return caller.ReplyError(Unavailable("no pipeline is complete yet"));
  caller.ReplyJson("{}");
}

void Gateway::AnswerLive(const Caller& caller) { caller.ReplyJson("{}"); }

void Gateway::AnswerVersion(const Caller& caller) {
  caller.ReplyJson(Dump({{"version", std::string(BuildStamp())}}));
}

void Gateway::AnswerModels(const Caller& caller) {
  const auto model = upstream_->model();
  if (!model->known()) return caller.ReplyError(Unavailable(kUnreachable));
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
void Gateway::Later(const Caller& caller, std::function<std::function<void()>()> job) {
  const bool taken =
      upstream_->Run([server = server_, job = std::move(job)] { server->Post(job()); });
  if (!taken) caller.ReplyError(Unavailable("too many requests wait to be read"));
}

template <typename Read>
void Gateway::ReadAndGenerate(const Caller& caller, Read read) {
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  const auto prepare = [read](std::string_view body) -> std::variant<GenerationRequest, ApiError> {
    auto json = ParseObject(body);
    if (auto* error = std::get_if<ApiError>(&json)) return std::move(*error);
    return read(std::get<Json>(json));
  };
  std::string body = std::move(caller.exchange->request().body);
  if (body.size() <= kInlineBodyBytesMax) return Generate(caller, prepare(body));
  Later(caller, [this, caller, prepare, body = std::move(body)]() -> std::function<void()> {
    return [this, caller, request = prepare(body)] { Generate(caller, request); };
  });
}

void Gateway::Generate(const Caller& caller, std::variant<GenerationRequest, ApiError> request) {
  if (const auto* error = std::get_if<ApiError>(&request)) return caller.ReplyError(*error);
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  auto& wanted = std::get<GenerationRequest>(request);
  if (upstream_->calls + static_cast<int64_t>(wanted.calls.size()) > kCallsMax) {
    return caller.ReplyError(Unavailable("too many requests are under way"));
  }
  const auto generation = std::make_shared<Generation>(caller, std::move(wanted), upstream_,
                                                       server_, console_->traffic());
  std::erase_if(generations_, [](const auto& other) { return other.expired(); });
  generations_.push_back(generation);
  generation->Start();
}

void Gateway::AnswerChat(const Caller& caller) { ReadAndGenerate(caller, ReadChatRequest); }

void Gateway::AnswerCompletion(const Caller& caller) {
  ReadAndGenerate(caller, ReadCompletionRequest);
}

void Gateway::AnswerTokenize(const Caller& caller) {
  Later(caller,
        [upstream = upstream_, caller,
         body = std::move(caller.exchange->request().body)]() -> std::function<void()> {
          const auto fail = [caller](const ApiError& error) {
            return [caller, error] { caller.ReplyError(error); };
          };
          auto json = ParseObject(body);
          if (const auto* error = std::get_if<ApiError>(&json)) return fail(*error);
          auto read = ReadTokenizeRequest(std::get<Json>(json));
          if (const auto* error = std::get_if<ApiError>(&read)) return fail(*error);
          const auto& job = std::get<TokenizeJob>(read);
          const auto tokens =
              upstream->client()->Tokenize(job.request, {.timeout = kTokenizeTimeout});
          const uint32_t context = upstream->model()->model.context_length();
          if (!tokens.ok()) return fail(FromStatus(tokens.status(), job.names, context));
          return [caller, text = TokenizeBody(*tokens, job.with_texts, context)] {
            caller.ReplyJson(text);
          };
        });
}

void Gateway::AnswerDetokenize(const Caller& caller) {
  Later(caller,
        [upstream = upstream_, caller,
         body = std::move(caller.exchange->request().body)]() -> std::function<void()> {
          const auto fail = [caller](const ApiError& error) {
            return [caller, error] { caller.ReplyError(error); };
          };
          auto json = ParseObject(body);
          if (const auto* error = std::get_if<ApiError>(&json)) return fail(*error);
          auto read = ReadDetokenizeRequest(std::get<Json>(json));
          if (const auto* error = std::get_if<ApiError>(&read)) return fail(*error);
          const auto text = upstream->client()->Detokenize(std::get<v1::DetokenizeRequest>(read),
                                                           {.timeout = kTokenizeTimeout});
          if (!text.ok()) return fail(FromStatus(text.status(), {}, 0));
          return [caller, body = Dump({{"prompt", text->text()}})] { caller.ReplyJson(body); };
        });
}

void Gateway::Drain() {
  draining_ = true;
  console_->EndAll();
  server_->Drain();
}

void Gateway::EndAll() {
  for (const auto& weak : generations_) {
    if (const auto generation = weak.lock()) {
      generation->End(Unavailable("this gateway is ending; send the request again"));
    }
  }
}

}  // namespace tutti::gateway
