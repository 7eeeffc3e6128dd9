// A connection's bytes, in pieces as a network may cut them: requests that are refused, or read,
// and become messages to the service. The first byte of the input says how it is cut.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "gateway/anthropic/messages_request.h"
#include "gateway/door_rules.h"
#include "gateway/http/head_text.h"
#include "gateway/http/request_reader.h"
#include "gateway/limits.h"
#include "gateway/openai/generation_request.h"
#include "gateway/vllm/generate_request.h"

namespace {

using tutti::gateway::ApiError;
using tutti::gateway::RequestReader;

// Its body is one that can be sent.
void CheckError(const ApiError& error) {
  CHECK(error.status >= 400 && error.status < 600);
  CHECK(!tutti::gateway::Json::parse(ErrorBody(error), nullptr, false).is_discarded());
}

void CheckGeneration(std::variant<tutti::gateway::GenerationRequest, ApiError> read) {
  if (const auto* error = std::get_if<ApiError>(&read)) return CheckError(*error);
  const auto& request = std::get<tutti::gateway::GenerationRequest>(read);
  CHECK(!request.calls.empty() && request.calls.size() <= tutti::gateway::kPromptsMax);
  CHECK(request.calls.size() == request.echoes.size());
  // Each message that goes to the service is a message that it can read.
  for (const auto& call : request.calls) {
    tutti::v1::GenerateRequest again;
    CHECK(again.ParseFromString(call.SerializeAsString()));
  }
}

void Handle(const tutti::gateway::HttpRequest& request) {
  static const tutti::gateway::DoorRules* const rules = new tutti::gateway::DoorRules();
  const auto admitted = Admit(*rules, request, /*open=*/false);
  if (const auto* error = std::get_if<ApiError>(&admitted)) CheckError(*error);
  for (const auto& [name, value] : CorsFields(*rules, request)) {
    CHECK(tutti::gateway::IsFieldText(value));
  }
  const auto json = tutti::gateway::ParseObject(request.body);
  if (const auto* error = std::get_if<ApiError>(&json)) return CheckError(*error);
  const auto& body = *std::get<tutti::gateway::ParsedJson>(json);
  CheckGeneration(tutti::gateway::ReadChatRequest(body, request.body));
  CheckGeneration(tutti::gateway::ReadCompletionRequest(body, request.body));
  CheckGeneration(tutti::gateway::ReadResponsesRequest(body, request.body));
  const auto job = tutti::gateway::ReadTokenizeRequest(body, request.body);
  if (const auto* error = std::get_if<ApiError>(&job)) CheckError(*error);
  (void)tutti::gateway::ReadMessagesRequest(body, request.body);
  (void)tutti::gateway::ReadCountRequest(body, request.body);
  (void)tutti::gateway::ReadIdsRequest(body);
  const auto ids = tutti::gateway::ReadDetokenizeRequest(body);
  if (const auto* error = std::get_if<ApiError>(&ids)) CheckError(*error);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = 1 + data[0];
  RequestReader reader;
  std::string kept;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    kept += bytes.substr(at, piece);
    while (!kept.empty() && reader.at() != RequestReader::At::kError) {
      const size_t taken = reader.Take(kept);
      CHECK(taken <= kept.size());
      kept.erase(0, taken);
      if (reader.at() == RequestReader::At::kEnd) {
        Handle(reader.Release());
      } else if (taken == 0) {
        break;
      }
    }
    CHECK(kept.size() <= tutti::gateway::kHeadBytesMax + piece ||
          reader.at() == RequestReader::At::kError);
  }
  return 0;
}
