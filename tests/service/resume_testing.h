// Streams that a test cuts and goes on with, by calls that do nothing by themselves.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/in_process_cluster.h"

namespace tutti::tests {

struct CutStream {
  std::vector<v1::GenerateResponse> messages;
  grpc::Status status;
};

// Reads the whole stream, or its first `messages` and cancels the call.
inline CutStream ReadStream(v1::Inference::Stub* inference, const v1::GenerateRequest& request,
                            size_t messages = SIZE_MAX) {
  CutStream cut;
  grpc::ClientContext context;
  const auto reader = inference->Generate(&context, request);
  v1::GenerateResponse message;
  while (cut.messages.size() < messages && reader->Read(&message)) {
    cut.messages.push_back(message);
  }
  if (cut.messages.size() == messages) context.TryCancel();
  cut.status = reader->Finish();
  return cut;
}

// The same with one token in a message at most: asks again where the reader fell behind, and tokens
// came together. REQUIRES: the answer is short.
inline CutStream ReadTokenByToken(v1::Inference::Stub* inference,
                                  const v1::GenerateRequest& request, size_t messages = SIZE_MAX) {
  constexpr int kTries = 200;
  CutStream cut;
  for (int i = 0; i < kTries; ++i) {
    cut = ReadStream(inference, request, messages);
    if (std::all_of(cut.messages.begin(), cut.messages.end(),
                    [](const auto& message) { return message.tokens_size() <= 1; })) {
      return cut;
    }
  }
  CHECK(false) << kTries << " times tokens came together: the reader is too slow for this test";
  return cut;
}

inline uint64_t DigestOf(const std::vector<int32_t>& ids) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const int32_t id : ids) {
    for (int i = 0; i < 4; ++i) {
      digest = (digest ^ (static_cast<uint32_t>(id) >> (8 * i) & 0xff)) * 0x100000001b3;
    }
  }
  return digest;
}

// The request that goes on after the first `count` messages.
inline v1::GenerateRequest GoOn(v1::GenerateRequest request,
                                const std::vector<v1::GenerateResponse>& messages, size_t count,
                                bool as_digest) {
  std::map<uint32_t, std::vector<int32_t>> ids;
  std::map<uint32_t, bool> finished;
  for (size_t i = 0; i < count; ++i) {
    for (const auto& token : messages[i].tokens()) ids[messages[i].output()].push_back(token.id());
    finished[messages[i].output()] |= messages[i].has_finish();
  }
  v1::Resume& resume = *request.mutable_resume();
  resume.set_token(messages.front().started().resume_token());
  for (uint32_t output = 0; output < std::max(request.n(), 1u); ++output) {
    v1::ResumedOutput& has = *resume.add_outputs();
    has.set_finished(finished[output]);
    if (as_digest) {
      has.set_count(static_cast<uint32_t>(ids[output].size()));
      if (has.count() > 0) has.set_digest(DigestOf(ids[output]));
    } else {
      has.mutable_ids()->Assign(ids[output].begin(), ids[output].end());
    }
  }
  return request;
}

}  // namespace tutti::tests
