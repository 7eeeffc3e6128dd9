#include "coordinator/service/output_hub.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/fail_point.h"
#include "coordinator/limits.h"
#include "coordinator/service/door.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace tutti::coordinator {

// The outputs of one request.
struct OutputHub::Group {
  RequestId first;
  int32_t n = 1;
  int32_t open = 1;  // not ended yet
  std::shared_ptr<OutputStream> stream;
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
        detokenizer_(tokenizer, options_.skip_special_tokens) {}

  const std::shared_ptr<Group>& group() const { return group_; }

  // True when a stop string ended the output here.
  bool Append(const DeliverTokens& delivery) {
    if (!first_token_at_) first_token_at_ = clock_->Now();
    v1::GenerateResponse response = Response(delivery.index);
    for (const v1::SampledToken& sampled : delivery.tokens) {
      AddToken(sampled, &response);
      ++completion_tokens_;
      const bool is_stop_token = std::binary_search(options_.stop_token_ids.begin(),
                                                    options_.stop_token_ids.end(), sampled.token());
      if (is_stop_token && !options_.include_stop) continue;
      response.mutable_text()->append(Match(detokenizer_.Push(sampled.token())));
      if (stopped()) break;
    }
    last_token_at_ = clock_->Now();
    group_->stream->Write(std::move(response));
    return stopped();
  }

  // The text is complete: tokens sampled after it are not shown.
  bool stopped() const { return stop_ >= 0; }

  // REQUIRES: finish.status is OK, or the text is complete.
  void Finish(const FinishRequest& finish) {
    v1::GenerateResponse response = Response(completion_tokens_);
    if (!stopped()) {
      response.set_text(Match(detokenizer_.Finish()));
      if (!stopped() && options_.stop_matcher) {
        response.mutable_text()->append(options_.stop_matcher->Finish());
      }
    }
    v1::Finish& end = *response.mutable_finish();
    end.set_reason(stopped() || finish.cause != FinishCause::kLength ? v1::FINISH_REASON_STOP
                                                                     : v1::FINISH_REASON_LENGTH);
    if (stopped()) end.set_stop(options_.stop[static_cast<size_t>(stop_)]);
    FillUsage(finish, end.mutable_usage());
    end.mutable_timing()->set_queue_ms(Milliseconds(finish.queue_time));
    const Instant now = clock_->Now();
    end.mutable_timing()->set_first_token_ms(
        Milliseconds(first_token_at_.value_or(now) - options_.arrival));
    end.mutable_timing()->set_total_ms(
        Milliseconds(last_token_at_.value_or(now) - options_.arrival));
    end.set_seed(options_.seed);
    group_->stream->Write(std::move(response));
  }

 private:
  v1::GenerateResponse Response(int64_t index) const {
    v1::GenerateResponse response;
    response.set_output(static_cast<uint32_t>(output_));
    response.set_index(static_cast<uint32_t>(index));
    return response;
  }

  void FillUsage(const FinishRequest& finish, v1::Usage* usage) const {
    usage->set_completion_tokens(static_cast<uint32_t>(completion_tokens_));
    if (output_ > 0) return;
    usage->set_prompt_tokens(static_cast<uint32_t>(finish.prompt_tokens));
    usage->set_cached_prompt_tokens(static_cast<uint32_t>(finish.cached_prompt_tokens));
  }

  // Text that is certain not to begin a stop string.
  std::string Match(std::string text) {
    if (!options_.stop_matcher) return text;
    text::StopMatcher::Result result = options_.stop_matcher->Push(text);
    stop_ = result.stop;
    return std::move(result.text);
  }

  void AddToken(const v1::SampledToken& sampled, v1::GenerateResponse* response) const {
    v1::OutputToken& token = *response->add_tokens();
    token.set_id(sampled.token());
    if (!options_.logprobs) return;
    token.set_logprob(sampled.logprob());
    for (int i = 0; i < sampled.top_ids_size() && i < sampled.top_logprobs_size(); ++i) {
      v1::TokenLogprob& top = *token.add_top();
      top.set_id(sampled.top_ids(i));
      top.set_token(std::string(tokenizer_->TokenText(sampled.top_ids(i)).value_or("")));
      top.set_logprob(sampled.top_logprobs(i));
    }
  }

  const text::Tokenizer* const tokenizer_;
  const Clock* const clock_;
  OutputOptions options_;
  const std::shared_ptr<Group> group_;
  const int32_t output_;
  text::Detokenizer detokenizer_;
  int stop_ = -1;  // index of the stop string found
  int64_t completion_tokens_ = 0;
  std::optional<Instant> first_token_at_;
  std::optional<Instant> last_token_at_;
};

OutputHub::OutputHub(const text::Tokenizer* tokenizer, const Clock* clock, OnUnwanted on_unwanted)
    : tokenizer_(tokenizer),
      clock_(clock),
      on_unwanted_(std::move(on_unwanted)),
      mailbox_(kMailboxEventsMax) {}

OutputHub::~OutputHub() { Stop(); }

void OutputHub::Start() {
  thread_ = std::thread([this] { Run(); });
}

void OutputHub::Stop() {
  mailbox_.Close();
  if (thread_.joinable()) thread_.join();
}

void OutputHub::Open(RequestId first, int32_t n, OutputOptions options,
                     std::shared_ptr<OutputStream> stream) {
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
  const absl::Status handled = WithinMemory([&] {
    Handle(std::move(what));
    return absl::OkStatus();
  });
  if (handled.ok()) return;
  const auto found = outputs_.find(request);
  if (found != outputs_.end()) Fail(found->second->group(), handled);
}

void OutputHub::Fail(std::shared_ptr<Group> group, const absl::Status& status) {
  for (const RequestId output : Erase(group->first, group->n)) {
    on_unwanted_(output, CancelCause::kClientGone);
  }
  group->stream->Finish(status);
  --open_streams_;
}

void OutputHub::Handle(Opened opened) {
  const auto group =
      std::make_shared<Group>(Group{opened.first, opened.n, opened.n, std::move(opened.stream)});
  const absl::Status done = WithinMemory([&] {
    for (int32_t i = 0; i < opened.n; ++i) {
      OutputOptions options = opened.options;
      options.seed = SeedOfOutput(opened.options.seed, i);
      outputs_[IdOfOutput(opened.first, i)] =
          std::make_unique<Output>(tokenizer_, clock_, std::move(options), group, i);
    }
    return absl::OkStatus();
  });
  if (done.ok()) return;
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
  if (found->second->Append(tokens)) {
    on_unwanted_(tokens.request, CancelCause::kStopString);
  }
}

void OutputHub::Handle(FinishRequest finish) {
  const auto found = outputs_.find(finish.request);
  if (found == outputs_.end()) return;
  // A text that is complete is no longer concerned by what happens to its sequence before the
  // engine learns of that.
  const std::shared_ptr<Group> group = found->second->group();
  if (!finish.status.ok() && !found->second->stopped()) {
    outputs_.erase(found);
    return Fail(group, finish.status);
  }
  found->second->Finish(finish);
  outputs_.erase(found);
  if (--group->open > 0) return;
  group->stream->Finish(absl::OkStatus());
  --open_streams_;
}

void OutputHub::Handle(Forgotten forgotten) {
  if (!Erase(forgotten.first, forgotten.n).empty()) --open_streams_;
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
