#include "coordinator/service/output_hub.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "base/id_digest.h"
#include "base/thread.h"
#include "coordinator/limits.h"
#include "coordinator/service/output_text.h"
#include "door/door.h"
#include "text/tokenizer.h"

namespace tutti::coordinator {

// The outputs of one request.
struct OutputHub::Group {
  RequestId first;
  int32_t n = 1;
  int32_t open = 1;  // not ended yet
  std::shared_ptr<door::OutputStream> stream;
  std::shared_ptr<const StreamBeginning> beginning;  // null: it has been told
  // The facts about it that only the engine knows, since the first token of any output.
  std::shared_ptr<const OutputBegun> begun;
  RequestMetrics* metrics = nullptr;
  int64_t longest = 0;  // tokens, of the outputs that have ended

  // The first message tells how the stream goes on elsewhere.
  void Write(v1::GenerateResponse response) {
    if (beginning != nullptr) {
      ResumeClaims claims = beginning->claims;
      if (begun != nullptr) {
        claims.max_tokens = begun->max_tokens;
        claims.numerics = begun->numerics;
      }
      v1::Started& started = *response.mutable_started();
      started.set_resume_token(beginning->tokens->Issue(claims));
      started.set_seed(claims.seed);
      started.set_prompt_tokens(static_cast<uint32_t>(beginning->prompt_tokens));
      started.set_model_fingerprint(beginning->fingerprint);
      started.set_numerics_class(claims.numerics);
      started.set_in_reasoning(beginning->in_reasoning);
      told = std::exchange(beginning, nullptr);
    }
    stream->Write(std::move(response));
  }
  std::shared_ptr<const StreamBeginning> told;  // kept for the name
};

// One output's way from ids to text.
class OutputHub::Output {
 public:
  Output(const text::Tokenizer* tokenizer, const Clock* clock, OutputOptions options,
         std::shared_ptr<Group> group, int32_t output)
      : tokenizer_(tokenizer),
        clock_(clock),
        options_(std::move(options)),
        group_(std::move(group)),
        output_(output),
        text_(resumed().text != nullptr ? *resumed().text : OutputText(tokenizer, options_)),
        absorbed_(resumed().text != nullptr ? 0 : resumed().tokens),
        expected_digest_(resumed().digest),
        completion_tokens_(resumed().text != nullptr ? resumed().tokens : 0) {}

  const std::shared_ptr<Group>& group() const { return group_; }

  // The text may be complete afterwards. DATA_LOSS: tokens computed again are not those that the
  // client has.
  absl::Status Append(const DeliverTokens& delivery) {
    if (delivery.begun != nullptr && group_->begun == nullptr) group_->begun = delivery.begun;
    v1::GenerateResponse response = Response(delivery.index);
    for (const v1::SampledToken& sampled : delivery.tokens) {
      ++completion_tokens_;
      std::string text = text_.Push(sampled.token());
      if (completion_tokens_ <= absorbed_) {
        digest_.Add(sampled.token());
        TUTTI_RETURN_IF_ERROR(CheckAbsorbed());
        response.set_index(static_cast<uint32_t>(completion_tokens_));
      } else {
        AddToken(sampled, &response);
        response.mutable_text()->append(text);
      }
      if (stopped()) break;
    }
    if (response.tokens_size() == 0) return absl::OkStatus();
    const Instant now = clock_->Now();
    if (last_token_at_) {
      group_->metrics->OnGap(now - *last_token_at_);
    } else {
      group_->metrics->OnFirstToken(now - options_.arrival);
    }
    last_token_at_ = now;
    if (!first_token_at_) first_token_at_ = now;
    // The end comes with the last token, and never now with it, now behind it.
    if (delivery.last || stopped()) {
      last_ = std::move(response);
    } else {
      group_->Write(std::move(response));
    }
    return absl::OkStatus();
  }
  // An error where an output that is computed again has ended before all that the client has.
  absl::Status CheckEnd() const {
    if (completion_tokens_ >= absorbed_) return absl::OkStatus();
    return Lost();
  }

  // The text is complete: tokens sampled after it are not shown.
  bool stopped() const { return text_.stopped(); }

  // REQUIRES: finish.status is OK, or the text is complete.
  void Finish(const FinishRequest& finish) {
    v1::GenerateResponse response =
        last_ ? *std::exchange(last_, std::nullopt) : Response(completion_tokens_);
    response.mutable_text()->append(text_.Finish());
    v1::Finish& end = *response.mutable_finish();
    end.set_reason(stopped() || finish.cause != FinishCause::kLength ? v1::FINISH_REASON_STOP
                                                                     : v1::FINISH_REASON_LENGTH);
    if (stopped()) end.set_stop(options_.stop[static_cast<size_t>(text_.stop())]);
    FillUsage(finish, end.mutable_usage());
    end.mutable_timing()->set_queue_ms(Milliseconds(finish.queue_time));
    const Instant now = clock_->Now();
    end.mutable_timing()->set_first_token_ms(
        Milliseconds(first_token_at_.value_or(now) - options_.arrival));
    end.mutable_timing()->set_total_ms(
        Milliseconds(last_token_at_.value_or(now) - options_.arrival));
    end.set_seed(options_.seed);
    CountEnd(finish, end.reason() == v1::FINISH_REASON_LENGTH, now);
    group_->Write(std::move(response));
  }

 private:
  v1::GenerateResponse Response(int64_t index) const {
    v1::GenerateResponse response;
    response.set_output(static_cast<uint32_t>(output_));
    response.set_index(static_cast<uint32_t>(index));
    return response;
  }

  void CountEnd(const FinishRequest& finish, bool at_length, Instant now) const {
    group_->longest = std::max(group_->longest, completion_tokens_);
    group_->metrics->OnEnd({.at_length = at_length,
                            .queue = finish.queue_time,
                            .first_token = first_token_at_.value_or(now) - options_.arrival,
                            .total = last_token_at_.value_or(now) - options_.arrival,
                            .prompt_tokens = finish.prompt_tokens,
                            .cached_tokens = finish.cached_prompt_tokens,
                            .generated_tokens = completion_tokens_,
                            .preemptions = finish.preemptions,
                            .max_tokens = group_->begun ? group_->begun->max_tokens : 0});
  }

  void FillUsage(const FinishRequest& finish, v1::Usage* usage) const {
    usage->set_completion_tokens(static_cast<uint32_t>(completion_tokens_));
    usage->set_guessed_tokens(static_cast<uint32_t>(finish.guessed));
    usage->set_accepted_tokens(static_cast<uint32_t>(finish.guessed_right));
    if (output_ > 0) return;
    usage->set_prompt_tokens(static_cast<uint32_t>(finish.prompt_tokens));
    usage->set_cached_prompt_tokens(static_cast<uint32_t>(finish.cached_prompt_tokens));
  }

  const OutputResume& resumed() const {
    static const OutputResume nothing;
    const auto output = static_cast<size_t>(output_);
    return output < options_.resume.size() ? options_.resume[output] : nothing;
  }

  absl::Status Lost() const {
    return absl::DataLossError(
        absl::StrCat("resume.outputs[", output_, "]: the first ", absorbed_,
                     " tokens, computed again, are not those of its digest"));
  }
  absl::Status CheckAbsorbed() const {
    if (completion_tokens_ < absorbed_) return stopped() ? Lost() : absl::OkStatus();
    return digest_.value() == expected_digest_ ? absl::OkStatus() : Lost();
  }

  void AddToken(const v1::SampledToken& sampled, v1::GenerateResponse* response) const {
    v1::OutputToken& token = *response->add_tokens();
    token.set_id(sampled.token());
    if (!options_.logprobs) return;
    token.set_logprob(sampled.logprob());
    if (tokenizer_ != nullptr) {
      token.set_token(std::string(tokenizer_->TokenText(sampled.token()).value_or("")));
    }
    for (int i = 0; i < sampled.top_ids_size() && i < sampled.top_logprobs_size(); ++i) {
      v1::TokenLogprob& top = *token.add_top();
      top.set_id(sampled.top_ids(i));
      if (tokenizer_ != nullptr) {
        top.set_token(std::string(tokenizer_->TokenText(sampled.top_ids(i)).value_or("")));
      }
      top.set_logprob(sampled.top_logprobs(i));
    }
  }

  const text::Tokenizer* const tokenizer_;
  const Clock* const clock_;
  OutputOptions options_;
  const std::shared_ptr<Group> group_;
  const int32_t output_;
  OutputText text_;
  const int64_t absorbed_;  // of the first tokens: computed again and not sent
  const uint64_t expected_digest_;
  IdDigest digest_;  // of those absorbed so far
  int64_t completion_tokens_;
  std::optional<Instant> first_token_at_;
  std::optional<Instant> last_token_at_;
  std::optional<v1::GenerateResponse> last_;  // waits for the end
};

OutputHub::OutputHub(const text::Tokenizer* tokenizer, const Clock* clock, OnUnwanted on_unwanted,
                     RequestMetrics* metrics)
    : tokenizer_(tokenizer),
      clock_(clock),
      on_unwanted_(std::move(on_unwanted)),
      uncounted_(metrics == nullptr ? std::make_unique<RequestMetrics>(1) : nullptr),
      metrics_(metrics == nullptr ? uncounted_.get() : metrics),
      mailbox_(kMailboxEventsMax) {}

OutputHub::~OutputHub() { Stop(); }

void OutputHub::Start() {
  thread_ = StartThread("the output of streams", [this] { Run(); });
}

void OutputHub::Stop() {
  mailbox_.Close();
  if (thread_.joinable()) thread_.join();
}

void OutputHub::Open(RequestId first, int32_t n, OutputOptions options,
                     std::shared_ptr<door::OutputStream> stream) {
  ++open_streams_;
  mailbox_.Post(Opened{first, n, std::move(options), std::move(stream)});
}
void OutputHub::Tokens(DeliverTokens tokens) { mailbox_.Post(std::move(tokens)); }
void OutputHub::Finish(FinishRequest finish) { mailbox_.Post(std::move(finish)); }
void OutputHub::Forget(RequestId first, int32_t n) { mailbox_.Post(Forgotten{first, n}); }

void OutputHub::Run() {
  std::vector<Item> items;
  while (mailbox_.Drain(kInstantNever, &items)) {
    for (Item& item : items) {
      std::visit(
          [this](auto& what) {
            if constexpr (requires { what.request; }) {
              HandleWithinMemory(std::move(what));
            } else {
              Handle(std::move(what));
            }
          },
          item);
    }
  }
}

// Running out of memory ends the request that the item belongs to.
template <typename What>
void OutputHub::HandleWithinMemory(What what) {
  const RequestId request = what.request;
  const absl::Status handled = door::WithinMemory([&] {
    Handle(std::move(what));
    return absl::OkStatus();
  });
  if (handled.ok()) return;
  const auto found = outputs_.find(request);
  if (found != outputs_.end()) Fail(found->second->group(), handled);
}

void OutputHub::Fail(std::shared_ptr<Group> group, const absl::Status& status) {
  // One may have been erased before.
  metrics_->OnFailure(status.code(), group->open);
  for (const RequestId output : Erase(group->first, group->n)) {
    on_unwanted_(output, CancelCause::kClientGone);
  }
  group->stream->Finish(status);
  --open_streams_;
}

void OutputHub::Handle(Opened opened) {
  const auto group = std::make_shared<Group>(Group{.first = opened.first,
                                                   .n = opened.n,
                                                   .open = 0,
                                                   .stream = std::move(opened.stream),
                                                   .beginning = opened.options.beginning,
                                                   .begun = nullptr,
                                                   .metrics = metrics_,
                                                   .told = nullptr});
  metrics_->OnOpen(opened.n);
  const absl::Status done = door::WithinMemory([&] {
    for (int32_t i = 0; i < opened.n; ++i) {
      const auto& resume = opened.options.resume;
      if (!resume.empty() && resume[static_cast<size_t>(i)].finished) continue;
      ++group->open;
      OutputOptions options = opened.options;
      options.seed = SeedOfOutput(opened.options.seed, i);
      outputs_[IdOfOutput(opened.first, i)] =
          std::make_unique<Output>(tokenizer_, clock_, std::move(options), group, i);
    }
    return absl::OkStatus();
  });
  if (done.ok() && group->open > 0) return;
  if (done.ok()) {  // the client has all of it
    group->stream->Finish(absl::OkStatus());
    --open_streams_;
    return;
  }
  for (int32_t i = 0; i < opened.n; ++i) {
    on_unwanted_(IdOfOutput(opened.first, i), CancelCause::kClientGone);
  }
  Erase(opened.first, opened.n);
  Fail(group, done);
}

void OutputHub::Handle(DeliverTokens tokens) {
  const auto found = outputs_.find(tokens.request);
  // Tokens that were under way when the client left, or after a stop string, are dropped.
  if (found == outputs_.end() || found->second->stopped()) return;
  if (TUTTI_FAIL_POINT("coordinator.no_memory_for_output")) throw std::bad_alloc();
  const absl::Status appended = found->second->Append(tokens);
  if (!appended.ok()) return Fail(found->second->group(), appended);
  if (found->second->stopped()) on_unwanted_(tokens.request, CancelCause::kStopString);
}

void OutputHub::Handle(FinishRequest finish) {
  const auto found = outputs_.find(finish.request);
  if (found == outputs_.end()) return;
  // A text that is complete is no longer concerned by what happens to its sequence before the
  // engine learns of that.
  const std::shared_ptr<Group> group = found->second->group();
  absl::Status status = finish.status;
  if (status.ok()) status = found->second->CheckEnd();
  if (!status.ok() && !found->second->stopped()) {
    outputs_.erase(found);
    return Fail(group, status);
  }
  found->second->Finish(finish);
  outputs_.erase(found);
  if (--group->open > 0) return;
  metrics_->OnLongest(group->longest);
  group->stream->Finish(absl::OkStatus());
  --open_streams_;
}

void OutputHub::Handle(Forgotten forgotten) {
  const size_t erased = Erase(forgotten.first, forgotten.n).size();
  if (erased == 0) return;
  metrics_->OnClientGone(static_cast<int64_t>(erased));
  --open_streams_;
}

std::vector<RequestId> OutputHub::Erase(RequestId first, int32_t n) {
  std::vector<RequestId> erased;
  for (int32_t i = 0; i < n; ++i) {
    const RequestId id = IdOfOutput(first, i);
    if (outputs_.erase(id) > 0) erased.push_back(id);
  }
  return erased;
}

}  // namespace tutti::coordinator
