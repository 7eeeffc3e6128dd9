#include "gateway/kserve/infer_answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/limits.h"
#include "gateway/kserve/model_facts.h"
#include "gateway/kserve/tensors.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

constexpr char kFinal[] = "triton_final_response";

const char* ReasonOf(v1::FinishReason reason) {
  return reason == v1::FINISH_REASON_LENGTH ? "length" : "stop";
}

// {"ID": {"logprob": …, "rank": …, "decoded_token": …}}: the token, and those that were likelier.
OrderedJson LogprobsOf(const v1::OutputToken& token) {
  OrderedJson entry = OrderedJson::object();
  const auto add = [&entry](int32_t id, float logprob, const std::string& text, OrderedJson rank) {
    entry[absl::StrCat(id)] = {
        {"logprob", logprob}, {"rank", std::move(rank)}, {"decoded_token", text}};
  };
  add(token.id(), token.logprob(), token.token(), nullptr);
  for (int i = 0; i < token.top_size(); ++i) {
    add(token.top(i).id(), token.top(i).logprob(), token.top(i).token(), i + 1);
  }
  return entry;
}

void AddTensor(OutputTensor tensor, inference::ModelInferResponse* response) {
  auto* const output = response->add_outputs();
  output->set_name(std::move(tensor.name));
  output->set_datatype(std::move(tensor.datatype));
  output->mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  response->add_raw_output_contents(std::move(tensor.raw));
}

}  // namespace

InferAnswer::InferAnswer(const InferRequest& request)
    : model_(request.model),
      id_(request.id),
      prompt_(request.prepend_input ? request.call.text() : ""),
      stream_(request.stream),
      empty_final_(request.empty_final),
      logprobs_(request.wanted.contains("logprobs")),
      wanted_(request.wanted),
      open_(std::max(request.call.n(), 1u)),
      outputs_(open_) {}

void InferAnswer::Add(const v1::GenerateResponse& message, Output* output) const {
  output->text += message.text();
  output->tokens += static_cast<uint32_t>(message.tokens_size());
  for (const v1::OutputToken& token : message.tokens()) {
    output->sum += token.logprob();
    if (!logprobs_) continue;
    absl::StrAppend(&output->logprobs, output->logprobs.empty() ? "" : ",",
                    Dump(LogprobsOf(token)));
  }
  if (message.has_finish()) output->finish_reason = ReasonOf(message.finish().reason());
}

absl::StatusOr<std::vector<inference::ModelInferResponse>> InferAnswer::Take(
    const v1::GenerateResponse& message) {
  std::vector<inference::ModelInferResponse> said;
  if (message.has_started()) prompt_tokens_ = message.started().prompt_tokens();
  if (message.output() >= outputs_.size() || complete()) return said;
  Output& output = outputs_[message.output()];
  const size_t kept = output.text.size() + output.logprobs.size();
  Add(message, &output);
  if (message.has_finish()) {
    --open_;
    timing_ = message.finish().timing();
  }
  if (!stream_) {
    bytes_ += output.text.size() + output.logprobs.size() - kept;
    if (bytes_ > kWholeAnswerBytesMax) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the answer has more than ", kWholeAnswerBytesMax, " bytes; ask for a stream"));
    }
    if (complete()) said.push_back(Respond(!empty_final_));
    return said;
  }
  // The first message may say only that the request has begun.
  if (message.tokens_size() > 0 || !message.text().empty() || message.has_finish()) {
    said.push_back(Respond(complete() && !empty_final_));
  }
  return said;
}

std::vector<inference::ModelInferResponse> InferAnswer::TakeFinal() const {
  if (!empty_final_) return {};
  return {Empty(/*is_final=*/true)};
}

inference::ModelStreamInferResponse InferAnswer::Fail(const absl::Status& why) const {
  inference::ModelStreamInferResponse response;
  // An empty text would be no error.
  response.set_error_message(why.message().empty()
                                 ? absl::StatusCodeToString(why.code())
                                 : Shortened(std::string(why.message()), door::kErrorTextBytesMax));
  *response.mutable_infer_response() = Empty(/*is_final=*/true);
  return response;
}

inference::ModelInferResponse InferAnswer::Empty(bool is_final) const {
  inference::ModelInferResponse response;
  response.set_model_name(model_);
  response.set_model_version(kModelVersion);
  response.set_id(id_);
  (*response.mutable_parameters())[kFinal].set_bool_param(is_final);
  return response;
}

inference::ModelInferResponse InferAnswer::Respond(bool is_final) {
  inference::ModelInferResponse response = Empty(is_final);
  std::vector<std::string> texts, reasons, logprobs;
  std::vector<float> sums;
  std::vector<uint32_t> counts;
  for (Output& output : outputs_) {
    texts.push_back(prompt_ + std::exchange(output.text, ""));
    reasons.push_back(output.finish_reason);
    sums.push_back(static_cast<float>(output.sum));
    logprobs.push_back(logprobs_ ? absl::StrCat("[", std::exchange(output.logprobs, ""), "]") : "");
    counts.push_back(std::exchange(output.tokens, 0));
  }
  const auto add = [this, &response](OutputTensor tensor) {
    if (wanted_.contains(tensor.name)) AddTensor(std::move(tensor), &response);
  };
  add(TextTensor("text_output", texts));
  add(TextTensor("finish_reason", reasons));
  add(FloatTensor("cumulative_logprob", sums));
  add(TextTensor("logprobs", logprobs));
  add(CountTensor("num_input_tokens", {prompt_tokens_}));
  add(CountTensor("num_output_tokens", counts));
  return response;
}

}  // namespace tutti::gateway
