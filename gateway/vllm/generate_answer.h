// The answer of vLLM's POST /inference/v1/generate: a chunk for each message, or whole.
//
// Pure.  Thread: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/answer_writer.h"
#include "gateway/json_text.h"
#include "gateway/vllm/generate_request.h"

namespace tutti::gateway {

class IdsAnswer : public AnswerWriter {
 public:
  // `request`: without its calls.
  IdsAnswer(IdsRequest request, std::vector<int32_t> prompt_ids, size_t outputs, std::string id,
            int64_t created, std::string model);

  std::string OnMessage(size_t prompt, const v1::GenerateResponse& message) override;
  std::string OnEnd() override;
  std::string OnError(const ApiError& error) override;

 private:
  struct Choice {
    std::string text;
    OrderedJson ids = OrderedJson::array();
    OrderedJson logprobs = OrderedJson::array();
    v1::Finish finish;
    OrderedJson stop_reason;
  };
  OrderedJson ChoiceJson(size_t index, const Choice& choice, bool is_finished) const;
  OrderedJson UsageJson() const;
  OrderedJson LogprobJson(const v1::OutputToken& token) const;
  std::string Chunk(OrderedJson choices);

  const IdsRequest request_;
  const std::vector<int32_t> prompt_ids_;
  const std::vector<int32_t> stop_ids_;
  const std::string id_, model_;
  const int64_t created_;
  std::vector<Choice> choices_;
  bool begun_ = false;
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, output_tokens_ = 0;
};

}  // namespace tutti::gateway
