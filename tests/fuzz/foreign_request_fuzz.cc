// A request of KServe's protocol or of vLLM's engine protocol: refused, or made into a message that
// the service can read and to which an answer can be given. The first byte of the input says which
// protocol it is and how it is asked.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "gateway/kserve/infer_answer.h"
#include "gateway/kserve/infer_request.h"
#include "gateway/vllm/engine_answer.h"
#include "gateway/vllm/engine_request.h"
#include "text/unicode.h"

namespace {

namespace gateway = tutti::gateway;

constexpr int64_t kVocabulary = 1000;

// A caller is told in words that can be sent.
void CheckRefusal(const absl::Status& status) {
  CHECK(absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << status;
  const std::string said(status.message());
  CHECK(!said.empty() && !tutti::text::FindInvalidUtf8(said));
}

void CheckCall(const tutti::v1::GenerateRequest& call) {
  tutti::v1::GenerateRequest again;
  CHECK(again.ParseFromString(call.SerializeAsString()));
}

// Two messages: a token of the first output, and the end of it.
void Answer(auto* answer, const auto& check) {
  tutti::v1::GenerateResponse message;
  message.set_text("a");
  auto* const token = message.add_tokens();
  token->set_id(7);
  token->set_logprob(-0.5F);
  check(answer->Take(message));
  message.clear_tokens();
  message.mutable_finish()->set_reason(tutti::v1::FINISH_REASON_LENGTH);
  check(answer->Take(message));
}

void Infer(const std::string& bytes, bool in_stream, bool knows_vocabulary) {
  inference::ModelInferRequest asked;
  if (!asked.ParseFromString(bytes)) return;
  auto read = gateway::ReadInferRequest(asked, in_stream, knows_vocabulary ? kVocabulary : 0);
  if (!read.ok()) return CheckRefusal(read.status());
  CheckCall(read->call);
  // As many outputs as the service allows.
  read->call.set_n(std::min<uint32_t>(read->call.n(), 64));
  gateway::InferAnswer answer(*read);
  Answer(&answer, [](const auto& responses) {
    CHECK(responses.ok());
    for (const inference::ModelInferResponse& response : *responses) {
      inference::ModelInferResponse again;
      CHECK(again.ParseFromString(response.SerializeAsString()));
      CHECK(response.raw_output_contents_size() == response.outputs_size());
    }
  });
}

void Engine(const std::string& bytes) {
  vllm::grpc::engine::GenerateRequest asked;
  if (!asked.ParseFromString(bytes)) return;
  auto read = gateway::ReadEngineRequest(asked);
  if (!read.ok()) return CheckRefusal(read.status());
  CheckCall(*read);
  read->set_n(std::min<uint32_t>(read->n(), 64));
  gateway::EngineAnswer answer(asked.stream(), *read);
  Answer(&answer, [](const auto& responses) {
    for (const vllm::grpc::engine::GenerateResponse& response : responses) {
      vllm::grpc::engine::GenerateResponse again;
      CHECK(again.ParseFromString(response.SerializeAsString()));
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    Infer(bytes, (data[0] & 2) != 0, (data[0] & 4) != 0);
  } else {
    Engine(bytes);
  }
  return 0;
}
