// Answers of the service as tensors: one response for each message of a stream, or one for all.
//
// Every tensor has an element for each output of the request, but num_input_tokens, which has one.
// In a stream the text, log-probabilities and counts are those of the message; cumulative_logprob
// is the sum so far, and an output that goes on has the finish_reason "None", as vLLM's backend
// has it.
//
// Pure.  Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "gateway/json_text.h"
#include "gateway/kserve/infer_request.h"
#include "inference/grpc_service.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

class InferAnswer {
 public:
  // An answer to `request`, of which the prompt is kept only where the answer has it.
  explicit InferAnswer(const InferRequest& request);

  // The answers that one message of the service becomes: nothing until the end of a whole answer.
  // RESOURCE_EXHAUSTED: the whole answer is larger than kWholeAnswerBytesMax.
  absl::StatusOr<std::vector<inference::ModelInferResponse>> Take(
      const v1::GenerateResponse& message);
  // The response without tensors that follows the last, where the request asks for it.
  std::vector<inference::ModelInferResponse> TakeFinal() const;
  // The answer to a caller whose request fails.
  inference::ModelStreamInferResponse Fail(const absl::Status& why) const;

  // Milliseconds of the first output that ended, and whether all have.
  const v1::Timing& timing() const { return timing_; }
  bool complete() const { return open_ == 0; }

 private:
  struct Output {
    std::string text;
    std::string finish_reason = "None";
    std::string logprobs;  // entries of a JSON list: as values they take many times as much
    double sum = 0;
    uint32_t tokens = 0;
  };
  void Add(const v1::GenerateResponse& message, Output* output) const;
  inference::ModelInferResponse Empty(bool is_final) const;
  inference::ModelInferResponse Respond(bool is_final);

  std::string model_, id_, prompt_;
  const bool stream_, empty_final_, logprobs_;
  const std::set<std::string> wanted_;
  uint32_t prompt_tokens_ = 0;
  size_t bytes_ = 0;
  size_t open_;  // outputs that have not ended
  v1::Timing timing_;
  std::vector<Output> outputs_;
};

}  // namespace tutti::gateway
