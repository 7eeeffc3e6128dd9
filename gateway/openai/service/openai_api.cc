#include "gateway/openai/service/openai_api.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gateway/caller_rules.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"
#include "gateway/model_names.h"
#include "gateway/openai/answer_kinds.h"
#include "gateway/openai/event_stream.h"
#include "gateway/openai/service/prompt_scoring.h"
#include "gateway/service/read_body.h"
#include "gateway/service_error.h"

namespace tutti::gateway {
namespace {

constexpr std::string_view kModels = "/models";
// What base URLs end with; some leave it out.
constexpr std::string_view kVersionPrefix = "/v1";
constexpr uint32_t kUint32Max = std::numeric_limits<uint32_t>::max();

OrderedJson ModelJson(const v1::GetModelResponse& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "tutti"},
          {"root", model.name()},
          {"parent", nullptr},
          {"max_model_len", model.context_length()},
          {"permission", OrderedJson::array()}};
}

std::string PercentDecoded(std::string_view path) {
  std::string plain;
  for (size_t i = 0; i < path.size(); ++i) {
    unsigned int byte = 0;
    const bool is_escape = path[i] == '%' && i + 2 < path.size() &&
                           absl::ascii_isxdigit(static_cast<unsigned char>(path[i + 1])) &&
                           absl::SimpleHexAtoi(absl::string_view(&path[i + 1], 2), &byte);
    plain += is_escape ? static_cast<char>(byte) : path[i];
    if (is_escape) i += 2;
  }
  return plain;
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

const char* PrefixOf(const GenerationRequest& request) {
  if (request.response != nullptr) return "resp_";
  return request.names.chat ? "chatcmpl-" : "cmpl-";
}

const char* KindOf(const GenerationRequest& request) {
  if (request.response != nullptr) return "response";
  return request.names.chat ? "chat" : "text";
}

// An answer that goes on has the name and the time of its beginning.
AnswerHead MakeHead(const GenerationRequest& request, const std::optional<EventId>& after,
                    const std::string& request_name, const std::string& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string& asked = request.calls.front().model();
  return {.id = PrefixOf(request) + (after ? after->name : request_name),
          .created = after ? after->created
                           : std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = asked.empty() ? model : asked};
}

// Whether the ids of the prompts, or their text, are part of what is wanted and not known.
bool NeedsPromptIds(const GenerationRequest& request) {
  if (!request.prompt_ids.empty()) return false;
  const bool echoes_ids =
      request.echoes_ids &&
      std::any_of(request.calls.begin(), request.calls.end(),
                  [](const v1::GenerateRequest& call) { return call.has_token_ids(); });
  return request.token_ids || request.prompt_top.has_value() || echoes_ids;
}

// The tokens of a prompt, by its text or by its ids.
struct PromptTokens {
  std::vector<int32_t> ids;
  std::vector<std::string> tokens;
  std::string text;  // of a prompt that is ids
};

absl::StatusOr<PromptTokens> AskTokens(const v1::GenerateRequest& call, client::Client* client,
                                       client::CancelToken* cancel) {
  const client::CallOptions options{.timeout = kTokenizeTimeout, .cancel = cancel};
  const auto asked = AskPromptIds(call);
  if (asked.has_value()) {
    TUTTI_ASSIGN_OR_RETURN(const auto found, client->Tokenize(*asked, options));
    return PromptTokens{.ids = {found.ids().begin(), found.ids().end()},
                        .tokens = {found.tokens().begin(), found.tokens().end()},
                        .text = {}};
  }
  v1::DetokenizeRequest ids;
  ids.set_model(call.model());
  *ids.mutable_ids() = call.token_ids().ids();
  ids.set_skip_special_tokens(false);
  TUTTI_ASSIGN_OR_RETURN(const auto found, client->Detokenize(ids, options));
  return PromptTokens{.ids = {ids.ids().begin(), ids.ids().end()},
                      .tokens = {found.tokens().begin(), found.tokens().end()},
                      .text = found.text()};
}

// The tokens whose log-probabilities are to be found.
void SetPromptTokens(const PromptTokens& found, size_t prompt, GenerationRequest* request) {
  request->prompt_scores.resize(request->calls.size());
  const std::vector<int32_t>& kept = request->prompt_ids[prompt];
  const size_t cut = found.ids.size() - kept.size();
  for (size_t i = 0; i < kept.size(); ++i) {
    v1::OutputToken& token = request->prompt_scores[prompt].emplace_back();
    token.set_id(kept[i]);
    if (cut + i < found.tokens.size()) token.set_token(found.tokens[cut + i]);
  }
}

GenerationPlan MakePlan(GenerationRequest request, const AnswerHead& head, Upstream* upstream) {
  const AnswerShape shape(request);
  return {.calls = std::move(request.calls),
          .stream = request.stream,
          .id = head.id,
          .kind = KindOf(request),
          .model = head.model,
          .make_writer =
              [stream = request.stream, shape, head,
               response = request.response](EventOptions options) {
                return MakeAnswerWriter(stream, shape, head, std::move(options), response);
              },
          .explain =
              [names = request.names, upstream](const absl::Status& status, size_t prompt) {
                FieldNames of_prompt = names;
                of_prompt.prompt_index = prompt;
                return FromStatus(status, of_prompt, upstream->model()->model.context_length());
              }};
}

}  // namespace

OpenAiApi::OpenAiApi(ParseRules parse_rules, LoopJobs* jobs, const GenerationContext* context)
    : parse_rules_(parse_rules), jobs_(jobs), context_(*context), upstream_(context->upstream) {}

std::vector<Route> OpenAiApi::Routes() {
  const auto models = [this](const Caller& caller) { AnswerModels(caller); };
  const auto chat = [this](const Caller& caller) { ReadAndGenerate(caller, ReadChatRequest); };
  const auto text = [this](const Caller& caller) {
    ReadAndGenerate(caller, ReadCompletionRequest);
  };
  const auto responses = [this](const Caller& caller) {
    ReadAndGenerate(caller, ReadResponsesRequest);
  };
  return {
      // One model may be asked for by name.
      {.method = "GET", .path = "/v1/models", .answer = models, .below = true},
      {.method = "POST", .path = "/v1/chat/completions", .answer = chat},
      {.method = "POST", .path = "/v1/completions", .answer = text},
      {.method = "POST", .path = "/v1/responses", .answer = responses},
      // For clients whose base URL leaves the version out.
      {.method = "GET", .path = "/models", .answer = models, .below = true},
      {.method = "POST", .path = "/chat/completions", .answer = chat},
      {.method = "POST", .path = "/completions", .answer = text},
      {.method = "POST", .path = "/responses", .answer = responses},
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
  const v1::GetModelResponse& served = model->model;
  std::string_view path = caller.exchange->request().path;
  if (path.starts_with(kVersionPrefix)) path.remove_prefix(kVersionPrefix.size());
  path.remove_prefix(kModels.size());
  if (path.empty()) {
    OrderedJson models = OrderedJson::array({ModelJson(served, served.name())});
    for (const std::string& other : served.other_names())
      models.push_back(ModelJson(served, other));
    return caller.ReplyJson(Dump({{"object", "list"}, {"data", std::move(models)}}));
  }
  // SDKs write the slash within a name as %2F.
  const std::string name = PercentDecoded(path.substr(1));
  if (IsServedUnder(served, name)) return caller.ReplyJson(Dump(ModelJson(served, name)));
  ApiError error = MakeError(404, "no model of that name is served here");
  error.param = "model";
  error.code = "model_not_found";
  caller.ReplyError(error);
}

struct OpenAiApi::Prepared {
  int64_t bytes = 0;                // of its body
  door::ByteBudget::Charge charge;  // of the request, where it is large
  std::variant<GenerationRequest, ApiError> request;
  bool is_scored = false;
  std::string key;       // its Idempotency-Key; empty: none
  RequestDigest digest;  // where it has a key
};

template <typename Read>
void OpenAiApi::ReadAndGenerate(const Caller& caller, Read read) {
  if (draining_) return caller.ReplyError(Unavailable("this gateway is about to end"));
  const HttpRequest& request = caller.exchange->request();
  const std::string key(request.Field("idempotency-key"));
  if (const auto error = CheckIdempotencyKey(key)) return caller.ReplyError(*error);
  const auto prepare = [read, key, path = request.path](std::string_view body) {
    Prepared prepared{.key = key};
    auto json = ParseObject(body);
    if (auto* error = std::get_if<ApiError>(&json)) {
      prepared.request = std::move(*error);
      return prepared;
    }
    prepared.request = read(*std::get<ParsedJson>(json), body);
    if (!key.empty()) prepared.digest = DigestOf(path, body);
    return prepared;
  };
  ReadBody(caller, jobs_, prepare, [this](const Caller& asker, ReadRequest<Prepared> done) {
    done.made.bytes = done.bytes;
    done.made.charge = std::move(done.charge);
    Generate(asker, std::move(done.made));
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
  if (const auto error = SetParse(parse_rules_, model->form, &wanted)) {
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
  if (NeedsPromptIds(wanted)) return FindPromptIds(caller, std::move(prepared));
  if (wanted.prompt_top && wanted.prompt_scores.front().size() > 1 && !prepared.is_scored) {
    return ScorePrompts(caller, std::move(prepared));
  }
  if (!ChargeCalls(wanted.calls, &prepared.charge)) return caller.ReplyError(NoMoreBytes());
  options.charge = std::move(prepared.charge);
  std::optional<door::ByteBudget::Charge> place;
  Caller told = caller;
  if (!prepared.key.empty()) {
    place = keyed_.TakePlace(caller.owner);
    if (!place) told.fields.emplace_back(kKeyKeptField, "no");
  }
  options.kept = place.has_value();
  const AnswerHead head =
      MakeHead(wanted, options.events.after, told.request_name, model->model.name());
  const auto generation = std::make_shared<Generation>(
      std::move(told), MakePlan(std::move(wanted), head, upstream_), std::move(options), &context_);
  generations_.Add(generation);
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
          const auto found = AskTokens(request.calls[i], upstream->client(), cancel);
          if (!found.ok()) {
            request.names.prompt_index = i;
            const ApiError error = FromStatus(found.status(), request.names,
                                              upstream->model()->model.context_length());
            return [caller, error] { caller.ReplyError(error); };
          }
          if (request.echoes_ids && request.calls[i].has_token_ids()) {
            request.echoes[i] = found->text;
          }
          SetPromptIds({found->ids.begin(), found->ids.end()}, i, &request);
          if (request.prompt_top) SetPromptTokens(*found, i, &request);
        }
        return [this, caller, shared] { Generate(caller, std::move(*shared)); };
      });
}

void OpenAiApi::ScorePrompts(const Caller& caller, Prepared prepared) {
  auto& request = std::get<GenerationRequest>(prepared.request);
  size_t tokens = 0;
  for (const auto& scores : request.prompt_scores) tokens += scores.size();
  if (tokens > kScoredTokensMax) {
    return caller.ReplyError(BadRequest(
        request.names.chat ? "messages" : "prompt",
        absl::StrCat(request.names.chat ? "messages" : "prompt", " has ", tokens,
                     " tokens, of which log-probabilities are wanted; the limit of one request is ",
                     kScoredTokensMax)));
  }
  const uint32_t top = *request.prompt_top;
  std::vector<PromptScores> scores = request.prompt_scores;
  std::vector<v1::GenerateRequest> prompts = request.calls;
  // It may be large: the loop must not copy it again.
  auto shared = std::make_shared<Prepared>(std::move(prepared));
  const auto done = [this, caller, shared](std::vector<PromptScores> found) {
    shared->is_scored = true;
    std::get<GenerationRequest>(shared->request).prompt_scores = std::move(found);
    Generate(caller, std::move(*shared));
  };
  const auto failed = [this, caller, shared](const absl::Status& status, size_t prompt) {
    FieldNames names = std::get<GenerationRequest>(shared->request).names;
    names.prompt_index = prompt;
    caller.ReplyError(FromStatus(status, names, upstream_->model()->model.context_length()));
  };
  std::make_shared<PromptScoring>(caller, &context_, std::move(prompts), top, std::move(scores),
                                  done, failed)
      ->Start();
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

void OpenAiApi::Tick(Instant now) {
  keyed_.Tick(now);
  generations_.Tick(now);
}

}  // namespace tutti::gateway
