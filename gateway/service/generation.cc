#include "gateway/service/generation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/door.h"
#include "gateway/caller_rules.h"
#include "gateway/limits.h"

namespace tutti::gateway {

bool ChargeCalls(const std::vector<v1::GenerateRequest>& calls, door::ByteBudget::Charge* charge) {
  if (charge->bytes() == 0) return true;
  int64_t bytes = 0;
  for (const v1::GenerateRequest& call : calls) {
    bytes += static_cast<int64_t>(call.ByteSizeLong());
  }
  return charge->Resize(bytes);
}

// Hears of one call on gRPC's threads, and tells the loop.
class Generation::Observer : public client::GenerateObserver {
 public:
  Observer(std::shared_ptr<Generation> generation, size_t prompt)
      : server_(generation->context_.server), generation_(std::move(generation)), prompt_(prompt) {}

  void OnMessage(const v1::GenerateResponse& message) override {
    server_->Post([generation = generation_, prompt = prompt_, message] {
      const absl::Status done = door::WithinMemory([&] {
        generation->OnMessage(prompt, message);
        return absl::OkStatus();
      });
      if (!done.ok()) generation->EndForMemory();
    });
  }
  // Lets go of the generation, which owns this.
  void OnEnd(absl::Status status) override {
    // An answer that is no stream is written here, whole.
    server_->Post([generation = std::move(generation_), prompt = prompt_,
                   status = std::move(status)] {
      const absl::Status done = door::WithinMemory([&] {
        generation->OnCallEnd(prompt, status);
        return absl::OkStatus();
      });
      if (!done.ok()) generation->EndForMemory();
    });
  }

 private:
  HttpServer* const server_;
  std::shared_ptr<Generation> generation_;
  const size_t prompt_;
};

Generation::Generation(Caller caller, GenerationPlan plan, GenerationOptions options,
                       const GenerationContext* context)
    : caller_(std::move(caller)),
      plan_(std::move(plan)),
      context_(*context),
      trace_(context->spans, caller_.exchange->request(), plan_.calls.size()),
      prompts_(plan_.calls.size()),
      outputs_(std::max(plan_.calls.front().n(), 1u)),
      charge_(std::move(options.charge)),
      kept_(options.kept),
      messages_(plan_.stream ? kKeptStreamBytesMax : kKeptAnswerBytesMax) {
  if (options.events.after) {
    // Nothing is said of what the client has: its events are written again, and dropped.
    resume_.set_token(options.events.after->token);
    for (size_t i = 0; i < outputs_; ++i) resume_.add_outputs();
  }
  writer_ = plan_.make_writer(std::move(options.events));
}

Generation::~Generation() = default;

void Generation::Start() {
  traffic_number_ = context_.traffic->Begin({.name = caller_.request_name,
                                             .kind = plan_.kind,
                                             .tenant = caller_.tenant,
                                             .stream = plan_.stream,
                                             .outputs = prompts_ * outputs_});
  Listen();
  // The client went while its request was read.
  if (stopped_) return;
  Upstream& upstream = *context_.upstream;
  upstream.calls += static_cast<int64_t>(prompts_);
  for (size_t i = 0; i < prompts_; ++i) {
    v1::GenerateRequest& call = plan_.calls[i];
    // A name of its own: another request under the same would take the stream over.
    call.set_request_id(absl::StrCat(plan_.id, "-", RandomName().substr(0, 8)));
    const bool named = upstream.model()->may_name_tenants;
    SetTenant(caller_.tenant, named, &call);
    if (!resume_.token().empty()) *call.mutable_resume() = resume_;
    client::CallMetadata metadata = {
        .traceparent = trace_.BeginCall(call, plan_.kind, plan_.model),
        .account = AccountForService(caller_.tenant, caller_.owner, named)};
    observers_.push_back(std::make_unique<Observer>(shared_from_this(), i));
    calls_.push_back(upstream.client()->Start(std::move(call), std::nullopt,
                                              observers_.back().get(), std::move(metadata)));
  }
  plan_.calls.clear();
}

void Generation::Listen() {
  said_at_ = SystemClock().Now();
  const std::weak_ptr<Generation> weak = weak_from_this();
  caller_.exchange->OnGone([weak, exchange = caller_.exchange.get()] {
    if (const auto generation = weak.lock()) generation->OnGone(exchange);
  });
}

void Generation::OnGone(const Exchange* exchange) {
  // Another may read it already.
  if (exchange != caller_.exchange.get() || reader_ != Reader::kReads) return;
  reader_ = Reader::kGone;
  if (!kept_) CancelCalls();
}

void Generation::ReadAgain(Caller caller, EventOptions events) {
  if (reader_ == Reader::kReads) {
    WriteError(MakeError(409,
                         "the same request has come again under its Idempotency-Key and has "
                         "taken the answer over"));
  }
  caller_ = std::move(caller);
  reader_ = Reader::kReads;
  begun_ = false;
  writer_ = plan_.make_writer(std::move(events));
  Listen();
  messages_.ForEach([this](size_t prompt, const v1::GenerateResponse& message) {
    if (reader_ == Reader::kReads) Write(prompt, message);
  });
  if (reader_ == Reader::kReads && calls_ended_ == prompts_) WriteEnd();
}

void Generation::OnMessage(size_t prompt, const v1::GenerateResponse& message) {
  if (stopped_) return;
  if (message.has_started()) {
    context_.traffic->OnPrompt(traffic_number_, message.started().prompt_tokens());
  }
  context_.traffic->OnTokens(traffic_number_, prompt, message.output(), message.tokens_size());
  trace_.OnMessage(prompt, message);
  if (kept_ && !messages_.Add(prompt, message)) {
    // Too long an answer: from here on it is as one without a key.
    outgrew_ = true;
    StopKeeping();
    if (reader_ != Reader::kReads) return;
  }
  if (reader_ == Reader::kReads) Write(prompt, message);
}

void Generation::Write(size_t prompt, const v1::GenerateResponse& message) {
  std::string piece = writer_->OnMessage(prompt, message);
  if (writer_->error().has_value()) return End(*writer_->error());
  if (!piece.empty()) Send(std::move(piece));
}

void Generation::Tick(Instant now) {
  if (!plan_.stream || stopped_ || reader_ != Reader::kReads) return;
  const bool beats = context_.heartbeat > Duration::zero();
  if (begun_ && !beats) return;
  if (now - said_at_ < (begun_ ? context_.heartbeat : kHeadPatience)) return;
  Send(beats ? writer_->OnSilence() : "");
}

void Generation::Send(std::string piece) {
  said_at_ = SystemClock().Now();
  if (std::exchange(begun_, true)) return caller_.exchange->Write(std::move(piece));
  HttpResponse head = caller_.Head(200);
  head.content_type = "text/event-stream; charset=utf-8";
  head.fields.emplace_back("Cache-Control", "no-cache");
  // nginx would collect what we send at once.
  head.fields.emplace_back("X-Accel-Buffering", "no");
  head.body = std::move(piece);
  caller_.exchange->Begin(std::move(head));
}

void Generation::OnCallEnd(size_t prompt, const absl::Status& status) {
  --context_.upstream->calls;
  if (++calls_ended_ == prompts_) {
    calls_.clear();  // with the requests that they would have sent again
    charge_ = {};
  }
  trace_.EndCall(prompt, status);
  if (stopped_) return;
  if (!status.ok()) return End(plan_.explain(status, prompt));
  if (calls_ended_ < prompts_) return;
  context_.traffic->OnEnd(traffic_number_, Traffic::End::kFinished);
  if (reader_ == Reader::kReads) WriteEnd();
}

void Generation::WriteEnd() {
  std::string rest = writer_->OnEnd();
  if (writer_->error().has_value()) return End(*writer_->error());
  reader_ = Reader::kHasAll;
  if (!plan_.stream) return caller_.ReplyJson(std::move(rest));
  if (!rest.empty()) Send(std::move(rest));
  caller_.exchange->End();
}

void Generation::End(const ApiError& error) {
  context_.traffic->OnEnd(traffic_number_, Traffic::End::kFailed);
  // An answer with an error is not read again: the next try computes it anew.
  kept_ = false;
  CancelCalls();
  if (reader_ == Reader::kReads) WriteError(error);
}

// An answer with a gap would be another answer.
void Generation::EndForMemory() {
  if (stopped_) return;
  const absl::Status told = door::WithinMemory([this] {
    End(Unavailable("there is no memory left for this answer; try again"));
    return absl::OkStatus();
  });
  if (!told.ok() && !stopped_) CancelCalls();
}

void Generation::WriteError(const ApiError& error) {
  reader_ = Reader::kHasAll;
  if (!begun_) return caller_.ReplyError(error);
  caller_.exchange->Write(writer_->OnError(error));
  caller_.exchange->End();
}

void Generation::StopKeeping() {
  kept_ = false;
  messages_ = KeptMessages(0);
  if (reader_ != Reader::kReads && calls_ended_ < prompts_) CancelCalls();
}

void Generation::CancelCalls() {
  stopped_ = true;
  context_.traffic->OnEnd(traffic_number_, Traffic::End::kCancelled);
  for (const auto& call : calls_) call->Cancel();
}

}  // namespace tutti::gateway
