// A message of the public API, cut into pieces as a network may: refused, or built into a request
// whose every number the engine may rely on. The first byte of the input says which message it is,
// the second how it is cut.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "coordinator/model_testing.h"
#include "coordinator/service/request_builder.h"
#include "coordinator/service/resume_builder.h"
#include "door/grpc/message_parser.h"
#include "door/limits.h"
#include "door/tenant.h"
#include "tutti/v1/cluster.pb.h"

namespace {

using tutti::coordinator::ServedModel;

grpc::ByteBuffer Cut(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    slices.emplace_back(bytes.data() + at, std::min(piece, bytes.size() - at));
  }
  if (slices.empty()) slices.emplace_back();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

void CheckIds(const std::vector<tutti::TokenId>& ids, const ServedModel& model) {
  for (const tutti::TokenId id : ids) CHECK(id >= 0 && id < model.config.vocab_size);
}

void CheckBuilt(const tutti::coordinator::BuiltRequest& built, const ServedModel& model) {
  CHECK(built.n >= 1 && built.n <= static_cast<int32_t>(tutti::door::kOutputsMax));
  CHECK(!built.request.prompt.empty() && built.request.max_tokens > 0);
  CHECK(static_cast<int64_t>(built.request.prompt.size()) + built.request.max_tokens <=
        model.max_model_len);
  CheckIds(built.request.prompt, model);
  CheckIds(built.request.stop_token_ids, model);
  CHECK(std::is_sorted(built.request.stop_token_ids.begin(), built.request.stop_token_ids.end()));
  const tutti::v1::SequenceSampling& sampling = built.request.sampling;
  CHECK(sampling.temperature() >= 0 && sampling.top_k() >= 0);
  CHECK(sampling.top_p() > 0 && sampling.top_p() <= 1 && sampling.min_p() >= 0);
  CHECK(sampling.repetition_penalty() > 0);
  CHECK(sampling.bias_ids_size() == sampling.bias_values_size());
}

// A token is opened, and where it is none of ours what it came with is looked at all the same.
void Resume(tutti::v1::GenerateRequest request, const ServedModel& model) {
  if (!request.has_resume()) return;
  static const tutti::coordinator::ResumeTokens* const tokens =
      new tutti::coordinator::ResumeTokens(std::string(32, 'k'));
  CHECK(!tokens->Open(request.resume().token()).ok()) << "a forged token";
  (void)tokens->HashBody(&request);
  auto built = tutti::coordinator::BuildRequest(request, model);
  if (!built.ok()) return;
  tutti::coordinator::ResumeClaims claims;
  claims.max_tokens = 40;
  const absl::Status resumed =
      tutti::coordinator::BuildResume(request.resume(), claims, model, &*built);
  if (!resumed.ok()) return;
  CHECK(static_cast<int32_t>(built->starts.size()) == built->n);
  for (const auto& start : built->starts) {
    CHECK(start.ids.size() <= 40);
    CheckIds(start.ids, model);
  }
}

template <typename Request>
void Encode(const Request& request, const ServedModel& model) {
  if (request.has_text()) (void)model.EncodeText(request.text(), request.text_reading(), "text");
  if (request.has_chat()) (void)model.EncodeChat(request.chat(), "chat");
}

// A message that parses is what protobuf parses.
template <typename Request>
bool Parse(const std::string& bytes, size_t piece, Request* request) {
  if (!tutti::door::ParseMessage(Cut(bytes, piece), request).ok()) return false;
  Request whole;
  CHECK(whole.ParseFromString(bytes));
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ServedModel* const model = tutti::coordinator::LoadDemoModel().release();
  if (size < 2) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t piece = 1 + data[1];
  if (data[0] % 4 < 2) {
    tutti::v1::GenerateRequest request;
    if (!Parse(bytes, piece, &request)) return 0;
    if (!tutti::door::TenantOf(request.tenant(), {}, {.may_name_tenant = true}).ok()) return 0;
    const auto built = tutti::coordinator::BuildRequest(request, *model);
    if (built.ok()) CheckBuilt(*built, *model);
    Resume(request, *model);
  } else if (data[0] % 4 == 2) {
    tutti::v1::TokenizeRequest request;
    if (Parse(bytes, piece, &request)) Encode(request, *model);
  } else {
    tutti::v1::LookupPrefixRequest request;
    if (!Parse(bytes, piece, &request)) return 0;
    (void)tutti::door::TenantOf(request.tenant(), {}, {.may_name_tenant = true});
    Encode(request, *model);
  }
  return 0;
}
