// Answers of the service as vllm.grpc.engine.VllmEngine has them.
//
// In a stream every message with tokens is a chunk of these, and the end of an output is a
// `complete` without ids; otherwise `complete` has all of them.
//
// Pure.  Thread: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/v1/generation.pb.h"
#include "vllm/vllm_engine.pb.h"

namespace tutti::gateway {

class EngineAnswer {
 public:
  // An answer to `request`, which may be forgotten.
  EngineAnswer(bool stream, const v1::GenerateRequest& request);

  // The responses that one message of the service becomes. A finish without a reason is an abort.
  std::vector<vllm::grpc::engine::GenerateResponse> Take(const v1::GenerateResponse& message);

 private:
  struct Output {
    vllm::grpc::engine::GenerateComplete complete;  // as far as it has come
    uint32_t last_id = 0;
    bool finished = false;
  };
  void AddTokens(const v1::GenerateResponse& message,
                 google::protobuf::RepeatedField<uint32_t>* ids,
                 vllm::grpc::engine::OutputLogProbs* logprobs) const;
  void Finish(const v1::Finish& finish, Output* output) const;

  const bool stream_;
  const bool logprobs_;
  const uint32_t top_logprobs_;
  const std::vector<int32_t> stop_token_ids_;
  uint32_t prompt_tokens_ = 0;
  std::vector<Output> outputs_;
};

}  // namespace tutti::gateway
