#include "gateway/openai/service/openai_api.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gateway/caller_rules.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "gateway/openai/event_stream.h"
#include "gateway/openai/generation_request.h"
#include "gateway/service_error.h"

namespace tutti::gateway {
namespace {

constexpr char kModels[] = "/v1/models";
constexpr uint32_t kUint32Max = std::numeric_limits<uint32_t>::max();

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

// The bytes that the calls of a request have until they end: true where they need no charge, or
// have it.
bool ChargeCalls(const GenerationRequest& request, door::ByteBudget::Charge* charge) {
  if (charge->bytes() == 0) return true;
  int64_t bytes = 0;
  for (const v1::GenerateRequest& call : request.calls) {
    bytes += static_cast<int64_t>(call.ByteSizeLong());
  }
  return charge->Resize(bytes);
}

}  // namespace

OpenAiApi::OpenAiApi(ParseRules parse_rules, Upstream* upstream, LoopJobs* jobs, Traffic* traffic,
                     metrics::SpanWriter* spans)
    : parse_rules_(parse_rules),
      upstream_(upstream),
      jobs_(jobs),
      traffic_(traffic),
      spans_(spans) {}

std::vector<Route> OpenAiApi::Routes() {
  return {
      // One model may be asked for by name.
      {.method = "GET",
       .path = kModels,
       .answer = [this](const Caller& caller) { AnswerModels(caller); },
       .below = true},
      {.method = "POST",
       .path = "/v1/chat/completions",
       .answer = [this](const Caller& caller) { ReadAndGenerate(caller, ReadChatRequest); }},
      {.method = "POST",
       .path = "/v1/completions",
       .answer = [this](const Caller& caller) { ReadAndGenerate(caller, ReadCompletionRequest); }},
      {.method = "POST",
       .path = "/v1/responses",
       .answer = [this](const Caller& caller) { ReadAndGenerate(caller, ReadResponsesRequest); }},
      {.method = "POST",
       .path = "/tokenize",
       .answer = [this](const Caller& caller) { AnswerTokenize(caller); }},
      {.method = "POST",
       .path = "/detokenize",
       .answer = [this](const Caller& caller) { AnswerDetokenize(caller); }},
  };
}

void OpenAiApi::AnswerModels(const Caller& caller) {
  const auto model = upstream_->model();
  if (!model->known()) return caller.ReplyError(Unavailable(kServiceUnreachable));
  const std::string& path = caller.exchange->request().path;
  const std::string prefix = absl::StrCat(kModels, "/");
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

namespace {

// The body of a request, with the bytes charged for it.
struct Body {
  door::ByteBudget::Charge charge;  // given back after the text
  std::string text;
};

}  // namespace

struct OpenAiApi::Prepared {
  int64_t bytes = 0;                // of its body
  door::ByteBudget::Charge charge;  // of the request, where it is large
  std::variant<GenerationRequest, ApiError> request;
  std::string key;       // its Idempotency-Key; empty: none
  RequestDigest digest;  // where it has a key
};

template <typename Read>
void OpenAiApi::ReadAndGenerate(const Caller& caller, Read read) {
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  HttpRequest& request = caller.exchange->request();
  const std::string key(request.Field("idempotency-key"));
  if (const auto error = CheckIdempotencyKey(key)) return caller.ReplyError(*error);
  const auto prepare = [read, key, path = request.path](std::string_view body) {
    Prepared prepared{.bytes = static_cast<int64_t>(body.size()),
                      .charge = {},
                      .request = {},
                      .key = key,
                      .digest = {}};
    auto json = ParseObject(body);
    if (auto* error = std::get_if<ApiError>(&json)) {
      prepared.request = std::move(*error);
      return prepared;
    }
    prepared.request = read(*std::get<ParsedJson>(json), body);
    if (!key.empty()) prepared.digest = DigestOf(path, body);
    return prepared;
  };
  if (request.body.size() <= kInlineBodyBytesMax) return Generate(caller, prepare(request.body));
  // It may be large: nobody copies it.
  auto body = std::make_shared<Body>(
      Body{.charge = std::move(request.charge), .text = std::move(request.body)});
  const auto bytes = static_cast<int64_t>(body->text.size());
  jobs_->Run(caller, Lane::kLong, bytes, [this, caller, prepare, body](auto*) -> LoopJobs::Rest {
    auto prepared = std::make_shared<Prepared>(prepare(body->text));
    prepared->charge = std::move(body->charge);
    body->text = {};
    return [this, caller, prepared] { Generate(caller, std::move(*prepared)); };
  });
}

void OpenAiApi::Generate(const Caller& caller, Prepared prepared) {
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
  const auto& after = std::get<EventOptions>(events).after;
  if (after) {
    const uint32_t asked = wanted.calls.front().sampling().max_tokens();
    const uint32_t context = model->model.context_length();
    const uint64_t most =
        std::min(asked > 0 ? asked : kUint32Max, context > 0 ? context : kUint32Max);
    if (const auto error = CheckClaims(*after, AnswerShape(wanted).choices(), most)) {
      return caller.ReplyError(*error);
    }
  }
  GenerationOptions options{.events = std::get<EventOptions>(std::move(events))};
  if (!prepared.key.empty() && ReadAgain(caller, prepared, options.events)) return;
  if (upstream_->calls + static_cast<int64_t>(wanted.calls.size()) > kCallsMax) {
    return caller.ReplyError(Unavailable("too many requests are under way"));
  }
  if (wanted.token_ids && wanted.prompt_ids.empty()) {
    return FindPromptIds(caller, std::move(prepared));
  }
  if (!ChargeCalls(wanted, &prepared.charge)) return caller.ReplyError(NoMoreBytes());
  options.charge = std::move(prepared.charge);
  std::optional<door::ByteBudget::Charge> place;
  Caller told = caller;
  if (!prepared.key.empty()) {
    place = keyed_.TakePlace(caller.owner);
    if (!place) told.fields.emplace_back(kKeyKeptField, "no");
  }
  options.kept = place.has_value();
  const auto generation = std::make_shared<Generation>(
      std::move(told), std::move(wanted), std::move(options), upstream_, server_, traffic_, spans_);
  std::erase_if(generations_, [](const auto& other) { return other.expired(); });
  generations_.push_back(generation);
  if (place) {
    keyed_.Add(caller.owner, prepared.key, prepared.digest, generation, *std::move(place));
  }
  generation->Start();
}

void OpenAiApi::FindPromptIds(const Caller& caller, Prepared prepared) {
  // It may be large: the loop must not copy it.
  auto shared = std::make_shared<Prepared>(std::move(prepared));
  jobs_->Run(
      caller, LaneToAsk(shared->bytes), shared->bytes,
      [this, caller, upstream = upstream_, shared](client::CancelToken* cancel) -> LoopJobs::Rest {
        auto& request = std::get<GenerationRequest>(shared->request);
        for (size_t i = 0; i < request.calls.size(); ++i) {
          const auto& given = request.calls[i].token_ids().ids();
          std::vector<int32_t> ids(given.begin(), given.end());
          if (const auto asked = AskPromptIds(request.calls[i])) {
            const auto tokens = upstream->client()->Tokenize(
                *asked, {.timeout = kTokenizeTimeout, .cancel = cancel});
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

bool OpenAiApi::ReadAgain(const Caller& caller, const Prepared& prepared,
                          const EventOptions& events) {
  auto found = keyed_.Find(caller.owner, prepared.key, prepared.digest);
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

void OpenAiApi::Tick() {
  const Instant now = SystemClock().Now();
  keyed_.Tick(now);
  for (const auto& weak : generations_) {
    if (const auto generation = weak.lock()) generation->Tick(now);
  }
}

void OpenAiApi::EndAll(const ApiError& why) {
  for (const auto& weak : generations_) {
    if (const auto generation = weak.lock()) generation->End(why);
  }
}

}  // namespace tutti::gateway
