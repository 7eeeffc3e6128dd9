#include "gateway/service/generation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

AnswerHead MakeHead(const GenerationRequest& request, const std::string& id,
                    const std::string& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string& asked = request.calls.front().model();
  return {.id = id,
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = asked.empty() ? model : asked};
}

}  // namespace

// Hears of one call on gRPC's threads, and tells the loop.
class Generation::Observer : public client::GenerateObserver {
 public:
  Observer(std::shared_ptr<Generation> generation, size_t prompt)
      : server_(generation->server_), generation_(std::move(generation)), prompt_(prompt) {}

  void OnMessage(const v1::GenerateResponse& message) override {
    server_->Post([generation = generation_, prompt = prompt_, message] {
      generation->OnMessage(prompt, message);
    });
  }
  // Lets go of the generation, which owns this.
  void OnEnd(absl::Status status) override {
    server_->Post([generation = std::move(generation_), prompt = prompt_,
                   status = std::move(status)] { generation->OnCallEnd(prompt, status); });
  }

 private:
  HttpServer* const server_;
  std::shared_ptr<Generation> generation_;
  const size_t prompt_;
};

Generation::Generation(Caller caller, GenerationRequest request, Upstream* upstream,
                       HttpServer* server, Traffic* traffic)
    : caller_(std::move(caller)),
      request_(std::move(request)),
      upstream_(upstream),
      server_(server),
      traffic_(traffic),
      id_(absl::StrCat(request_.names.chat ? "chatcmpl-" : "cmpl-", caller_.request_name)),
      stream_(request_.stream),
      prompts_(request_.calls.size()),
      streamed_(AnswerShape(request_), MakeHead(request_, id_, upstream->model()->model.name())),
      whole_(AnswerShape(request_), MakeHead(request_, id_, upstream->model()->model.name())) {}

Generation::~Generation() = default;

void Generation::Start() {
  const std::weak_ptr<Generation> weak = weak_from_this();
  caller_.exchange->OnGone([weak] {
    if (const auto generation = weak.lock()) {
      generation->ended_ = true;
      generation->traffic_->OnEnd(generation->traffic_number_, Traffic::End::kCancelled);
      generation->CancelCalls();
    }
  });
  traffic_number_ =
      traffic_->Begin({.name = caller_.request_name,
                       .kind = request_.names.chat ? "chat" : "text",
                       .tenant = caller_.tenant,
                       .stream = stream_,
                       .outputs = prompts_ * std::max(request_.calls.front().n(), 1u)});
  upstream_->calls += static_cast<int64_t>(prompts_);
  for (size_t i = 0; i < prompts_; ++i) {
    v1::GenerateRequest& call = request_.calls[i];
    // A name of its own: another request under the same would take the stream over.
    call.set_request_id(absl::StrCat(id_, "-", RandomName().substr(0, 8)));
    if (!caller_.tenant.empty()) call.set_tenant(caller_.tenant);
    observers_.push_back(std::make_unique<Observer>(shared_from_this(), i));
    calls_.push_back(
        upstream_->client()->Start(std::move(call), std::nullopt, observers_.back().get()));
  }
  request_.calls.clear();
}

void Generation::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (ended_) return;
  if (message.has_started()) {
    traffic_->OnPrompt(traffic_number_, message.started().prompt_tokens());
  }
  traffic_->OnTokens(traffic_number_, prompt, message.output(), message.tokens_size());
  if (!stream_) return whole_.OnMessage(prompt, message);
  std::string events = streamed_.OnMessage(prompt, message);
  if (events.empty()) return;
  if (std::exchange(begun_, true)) return caller_.exchange->Write(std::move(events));
  HttpResponse head = caller_.Head(200);
  head.content_type = "text/event-stream; charset=utf-8";
  head.fields.emplace_back("Cache-Control", "no-cache");
  // nginx would collect what we send at once.
  head.fields.emplace_back("X-Accel-Buffering", "no");
  head.body = std::move(events);
  caller_.exchange->Begin(std::move(head));
}

void Generation::OnCallEnd(size_t prompt, const absl::Status& status) {
  --upstream_->calls;
  ++calls_ended_;
  if (ended_) return;
  if (!status.ok()) {
    FieldNames names = request_.names;
    names.prompt_index = prompt;
    return End(FromStatus(status, names, upstream_->model()->model.context_length()));
  }
  if (calls_ended_ < prompts_) return;
  ended_ = true;
  traffic_->OnEnd(traffic_number_, Traffic::End::kFinished);
  if (!stream_) return caller_.ReplyJson(whole_.Body());
  caller_.exchange->Write(streamed_.OnEnd());
  caller_.exchange->End();
}

void Generation::End(const ApiError& error) {
  if (std::exchange(ended_, true)) return;
  traffic_->OnEnd(traffic_number_, Traffic::End::kFailed);
  CancelCalls();
  if (!begun_) return caller_.ReplyError(error);
  caller_.exchange->Write(StreamAnswer::OnError(error));
  caller_.exchange->End();
}

void Generation::CancelCalls() {
  for (const auto& call : calls_) call->Cancel();
}

}  // namespace tutti::gateway
