#include "coordinator/output_hub.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "coordinator/limits.h"
#include "model/detokenizer.h"
#include "model/tokenizer.h"

namespace tutti {

// One request's way from ids to text.
class OutputHub::Output {
 public:
  Output(const Tokenizer* tokenizer, const Clock* clock, Opened opened)
      : tokenizer_(tokenizer),
        clock_(clock),
        options_(std::move(opened.options)),
        stream_(std::move(opened.stream)),
        detokenizer_(tokenizer, options_.skip_special_tokens) {}

  // True when a stop string ended the output here.
  bool Take(const DeliverTokens& delivery) {
    if (!first_token_at_) first_token_at_ = clock_->Now();
    v1::GenerateResponse response;
    response.set_index(static_cast<uint32_t>(delivery.index));
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
    stream_->Write(std::move(response));
    return stopped();
  }

  // The text is complete: tokens sampled after it are not shown.
  bool stopped() const { return stop_ >= 0; }

  void Finish(const FinishRequest& finish) {
    if (!finish.status.ok()) {
      stream_->Finish(finish.status);
      return;
    }
    v1::GenerateResponse response;
    response.set_index(static_cast<uint32_t>(completion_tokens_));
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
    end.mutable_usage()->set_prompt_tokens(static_cast<uint32_t>(finish.prompt_tokens));
    end.mutable_usage()->set_completion_tokens(static_cast<uint32_t>(completion_tokens_));
    end.mutable_usage()->set_cached_prompt_tokens(
        static_cast<uint32_t>(finish.cached_prompt_tokens));
    end.mutable_timing()->set_queue_ms(Milliseconds(finish.queue_time));
    const Instant now = clock_->Now();
    end.mutable_timing()->set_first_token_ms(
        Milliseconds(first_token_at_.value_or(now) - options_.arrival));
    end.mutable_timing()->set_total_ms(
        Milliseconds(last_token_at_.value_or(now) - options_.arrival));
    end.set_seed(options_.seed);
    stream_->Write(std::move(response));
    stream_->Finish(absl::OkStatus());
  }

 private:
  // Text that is certain not to begin a stop string.
  std::string Match(std::string text) {
    if (!options_.stop_matcher) return text;
    StopMatcher::Result result = options_.stop_matcher->Push(text);
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

  const Tokenizer* const tokenizer_;
  const Clock* const clock_;
  OutputOptions options_;
  const std::shared_ptr<OutputStream> stream_;
  Detokenizer detokenizer_;
  int stop_ = -1;  // index of the stop string found
  int64_t completion_tokens_ = 0;
  std::optional<Instant> first_token_at_;
  std::optional<Instant> last_token_at_;
};

OutputHub::OutputHub(const Tokenizer* tokenizer, const Clock* clock,
                     std::function<void(RequestId)> on_stop_string)
    : tokenizer_(tokenizer),
      clock_(clock),
      on_stop_string_(std::move(on_stop_string)),
      mailbox_(kMailboxEventsMax) {}

OutputHub::~OutputHub() { Stop(); }

void OutputHub::Start() {
  thread_ = std::thread([this] { Run(); });
}

void OutputHub::Stop() {
  mailbox_.Close();
  if (thread_.joinable()) thread_.join();
}

void OutputHub::Open(RequestId request, OutputOptions options,
                     std::shared_ptr<OutputStream> stream) {
  ++open_streams_;
  mailbox_.Post(Opened{request, std::move(options), std::move(stream)});
}
void OutputHub::Tokens(DeliverTokens tokens) { mailbox_.Post(std::move(tokens)); }
void OutputHub::Finish(FinishRequest finish) { mailbox_.Post(std::move(finish)); }
void OutputHub::Forget(RequestId request) { mailbox_.Post(Forgotten{request}); }

void OutputHub::Run() {
  std::vector<Item> items;
  while (mailbox_.Drain(kInstantNever, &items)) {
    for (Item& item : items) {
      std::visit([this](auto& what) { Take(std::move(what)); }, item);
    }
  }
}

void OutputHub::Take(Opened opened) {
  const RequestId request = opened.request;
  outputs_[request] = std::make_unique<Output>(tokenizer_, clock_, std::move(opened));
}

void OutputHub::Take(DeliverTokens tokens) {
  const auto found = outputs_.find(tokens.request);
  // Tokens that were under way when the client left, or after a stop string, are nobody's.
  if (found == outputs_.end() || found->second->stopped()) return;
  if (found->second->Take(tokens)) on_stop_string_(tokens.request);
}

void OutputHub::Take(FinishRequest finish) {
  const auto found = outputs_.find(finish.request);
  if (found == outputs_.end()) return;
  found->second->Finish(finish);
  outputs_.erase(found);
  --open_streams_;
}

void OutputHub::Take(Forgotten forgotten) {
  if (outputs_.erase(forgotten.request) > 0) --open_streams_;
}

}  // namespace tutti
