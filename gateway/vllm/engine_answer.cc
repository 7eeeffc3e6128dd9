#include "gateway/vllm/engine_answer.h"

#include <algorithm>
#include <utility>

namespace tutti::gateway {

namespace engine = vllm::grpc::engine;

EngineAnswer::EngineAnswer(bool stream, const v1::GenerateRequest& request)
    : stream_(stream),
      logprobs_(request.sampling().logprobs()),
      top_logprobs_(request.sampling().top_logprobs()),
      stop_token_ids_(request.sampling().stop_token_ids().begin(),
                      request.sampling().stop_token_ids().end()),
      outputs_(std::max(request.n(), 1u)) {
  for (uint32_t i = 0; i < outputs_.size(); ++i) outputs_[i].complete.set_index(i);
}

void EngineAnswer::AddTokens(const v1::GenerateResponse& message,
                             google::protobuf::RepeatedField<uint32_t>* ids,
                             engine::OutputLogProbs* logprobs) const {
  for (const v1::OutputToken& token : message.tokens()) {
    ids->Add(static_cast<uint32_t>(token.id()));
    if (!logprobs_) continue;
    logprobs->add_token_ids(static_cast<uint32_t>(token.id()));
    logprobs->add_token_logprobs(token.logprob());
    if (top_logprobs_ == 0) continue;
    engine::TopLogProbs* const top = logprobs->add_top_logprobs();
    for (const v1::TokenLogprob& other : token.top()) {
      top->add_token_ids(static_cast<uint32_t>(other.id()));
      top->add_values(other.logprob());
    }
  }
}

void EngineAnswer::Finish(const v1::Finish& finish, Output* output) const {
  engine::GenerateComplete& complete = output->complete;
  switch (finish.reason()) {
    case v1::FINISH_REASON_STOP:
      complete.set_finish_reason("stop");
      break;
    case v1::FINISH_REASON_LENGTH:
      complete.set_finish_reason("length");
      break;
    default:
      complete.set_finish_reason("abort");
  }
  if (!finish.stop().empty()) {
    complete.set_matched_stop_str(finish.stop());
  } else if (finish.reason() == v1::FINISH_REASON_STOP &&
             std::count(stop_token_ids_.begin(), stop_token_ids_.end(),
                        static_cast<int32_t>(output->last_id)) > 0) {
    complete.set_matched_token_id(output->last_id);
  }
  complete.set_cached_tokens(finish.usage().cached_prompt_tokens());
  complete.set_prompt_tokens(prompt_tokens_);
  output->finished = true;
}

std::vector<engine::GenerateResponse> EngineAnswer::Take(const v1::GenerateResponse& message) {
  std::vector<engine::GenerateResponse> said;
  if (message.has_started()) prompt_tokens_ = message.started().prompt_tokens();
  if (message.output() >= outputs_.size() || outputs_[message.output()].finished) return said;
  Output& output = outputs_[message.output()];
  const auto tokens = static_cast<uint32_t>(message.tokens_size());
  if (tokens > 0)
    output.last_id = static_cast<uint32_t>(message.tokens(message.tokens_size() - 1).id());
  output.complete.set_completion_tokens(output.complete.completion_tokens() + tokens);
  if (!stream_) {
    AddTokens(message, output.complete.mutable_output_ids(),
              logprobs_ ? output.complete.mutable_output_logprobs() : nullptr);
  } else if (tokens > 0) {
    engine::GenerateStreamChunk* const chunk = said.emplace_back().mutable_chunk();
    chunk->set_index(message.output());
    chunk->set_prompt_tokens(prompt_tokens_);
    chunk->set_completion_tokens(tokens);
    AddTokens(message, chunk->mutable_token_ids(),
              logprobs_ ? chunk->mutable_output_logprobs() : nullptr);
  }
  if (message.has_finish()) {
    Finish(message.finish(), &output);
    *said.emplace_back().mutable_complete() = std::move(output.complete);
  }
  return said;
}

}  // namespace tutti::gateway
