#include "gateway/vllm/grpc/engine_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/vllm/engine_answer.h"
#include "gateway/vllm/engine_request.h"

namespace tutti::gateway {

void EngineCall::SetRequest(bool stream, const v1::GenerateRequest& request) {
  outputs_ = std::max(request.n(), 1u);
  stream_ = stream;
  // Copied with the function that holds it.
  const auto answer = std::make_shared<EngineAnswer>(stream, request);
  SetTranslate(
      [answer](const v1::GenerateResponse& response) {
        std::vector<grpc::ByteBuffer> messages;
        for (const auto& message : answer->Take(response)) {
          messages.push_back(door::Serialize(message));
        }
        return messages;
      },
      /*is_whole=*/!stream);
}

bool EngineCall::AttachCall(door::ByteBudget::Charge charge, Forwarder::Cancel cancel) {
  {
    const MutexLock lock(&call_mutex_);
    cancel_ = cancel;
  }
  return Attach(static_cast<int32_t>(outputs_), std::move(charge), std::move(cancel));
}

void EngineCall::Abort() {
  for (uint32_t i = 0; i < outputs_; ++i) {
    v1::GenerateResponse end;
    end.set_output(i);
    end.mutable_finish();  // without a reason: see EngineAnswer
    GenerateStream::Write(std::move(end));
  }
  GenerateStream::Finish(absl::OkStatus());
  Forwarder::Cancel cancel;
  {
    const MutexLock lock(&call_mutex_);
    cancel = cancel_;
  }
  if (cancel) cancel();
}

void EngineCall::Write(v1::GenerateResponse response) {
  // A message that waits for its end is memory of ours.
  if (!stream_) bytes_ += static_cast<int64_t>(response.ByteSizeLong());
  if (bytes_ <= static_cast<int64_t>(kWholeAnswerBytesMax)) {
    return GenerateStream::Write(std::move(response));
  }
  GenerateStream::Finish(absl::ResourceExhaustedError(
      absl::StrCat("the answer has more than ", kWholeAnswerBytesMax, " bytes; ask for a stream")));
  Forwarder::Cancel cancel;
  {
    const MutexLock lock(&call_mutex_);
    cancel = cancel_;
  }
  if (cancel) cancel();
}

void EngineCall::Finish(absl::Status status) {
  GenerateStream::Finish(RenameField(status, EnginePaths()));
}

}  // namespace tutti::gateway
