// The memory that the public port holds for clients that behave badly, and for how long.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "door/limits.h"
#include "tests/support/in_process_cluster.h"

namespace tutti::tests {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest Ask() {
  v1::GenerateRequest request;
  request.set_text("What is 12 + 30?");
  request.mutable_sampling()->set_max_tokens(4);
  return request;
}

// As much output as the context allows, and 300 bytes with each token.
v1::GenerateRequest AskForMuch(uint32_t n) {
  v1::GenerateRequest request = Ask();
  request.set_n(n);
  request.mutable_sampling()->clear_max_tokens();
  request.mutable_sampling()->set_ignore_eos(true);
  request.mutable_sampling()->set_temperature(2);
  request.mutable_sampling()->set_logprobs(true);
  request.mutable_sampling()->set_top_logprobs(20);
  return request;
}

// A call whose parts are sent and read one by one.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method)
      : stub_(channel), call_(stub_.PrepareCall(&context_, method, &queue_)) {
    call_->StartCall(nullptr);
    Wait();
  }
  ~RawCall() {
    if (!status_) {
      context_.TryCancel();
      End();
    }
  }
  void Send(const google::protobuf::MessageLite& message) {
    const grpc::Slice slice(message.SerializeAsString());
    Send(grpc::ByteBuffer(&slice, 1));
  }
  void Send(const grpc::ByteBuffer& bytes) {
    call_->WriteLast(bytes, grpc::WriteOptions(), nullptr);
    Wait();
  }
  bool Read() {
    grpc::ByteBuffer response;
    call_->Read(&response, nullptr);
    return Wait();
  }
  // Reads what is left; the status.
  grpc::Status End() {
    while (Read()) {
    }
    status_.emplace();
    call_->Finish(&*status_, nullptr);
    Wait();
    return *status_;
  }
  bool SaysWhenToRetry() const {
    return context_.GetServerTrailingMetadata().contains("retry-after-ms");
  }

 private:
  bool Wait() {
    void* tag;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return ok;
  }
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  std::optional<grpc::Status> status_;
};

constexpr char kGenerate[] = "/tutti.v1.Inference/Generate";
constexpr char kTokenize[] = "/tutti.v1.Inference/Tokenize";

InProcessClusterOptions With(const door::DoorOptions& door) {
  return {.model_dir = DemoDir(), .door = door};
}

void WaitAccepted(InProcessCluster* cluster, uint64_t requests) {
  while (cluster->Status().requests().accepted() < requests) std::this_thread::yield();
}

TEST(Door, ASlowReaderIsEndedAndNothingIsComputedForItAnyMore) {
  InProcessCluster cluster(With({.unread_bytes = 8 << 10}));
  constexpr uint32_t kOutputs = 16;
  RawCall call(cluster.channel(), kGenerate);
  call.Send(AskForMuch(kOutputs));
  WaitAccepted(&cluster, kOutputs);
  cluster.WaitIdle();  // without having read anything
  const v1::RequestCounters counters = cluster.Status().requests();
  EXPECT_EQ(counters.cancelled(), kOutputs);
  EXPECT_EQ(counters.finished(), 0u);
  const grpc::Status status = call.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("unread"));
  EXPECT_TRUE(cluster.Generate(Ask()).status.ok());
}

TEST(Door, AReaderThatFallsBehindALittleIsServed) {
  InProcessCluster cluster(With({}));
  RawCall call(cluster.channel(), kGenerate);
  call.Send(AskForMuch(1));
  WaitAccepted(&cluster, 1);
  cluster.WaitIdle();
  EXPECT_TRUE(call.End().ok());
}

TEST(Door, AHalfSentRequestIsEnded) {
  InProcessCluster cluster(With(
      {.read_grace = std::chrono::milliseconds(5), .read_max = std::chrono::milliseconds(50)}));
  for (const char* method : {kGenerate, kTokenize, "/tutti.v1.Inference/GetModel"}) {
    RawCall call(cluster.channel(), method);
    const grpc::Status status = call.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("request message was not complete"));
  }
}

TEST(Door, RequestsThatArriveSlowlyAreCountedAsTheLargest) {
  // All these calls are one client's, which may have less than half: two slow ones.
  InProcessCluster cluster(With({.bytes = 5 * door::kRequestBytesMax,
                                 .read_grace = std::chrono::milliseconds(5),
                                 .read_max = std::chrono::seconds(3)}));
  std::vector<std::unique_ptr<RawCall>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(std::make_unique<RawCall>(cluster.channel(), kGenerate));
  }
  int refused = 0, kept = 0;
  for (const auto& call : calls) {
    const grpc::Status status = call->End();
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) ++kept;
    if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
    refused += call->SaysWhenToRetry() ? 1 : 0;
    EXPECT_THAT(status.error_message(), HasSubstr("slowly"));
  }
  EXPECT_EQ(kept, 2);
  EXPECT_EQ(refused, 6);
  EXPECT_TRUE(cluster.Generate(Ask()).status.ok());
}

// A channel of a client that lets nobody send more than it reads.
std::shared_ptr<grpc::Channel> NarrowChannel(const InProcessCluster& cluster) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 10);
  return grpc::CreateCustomChannel(cluster.address(), grpc::InsecureChannelCredentials(),
                                   arguments);
}

// An answer is several times as long as its request, and would stay here for as long as the client
// keeps its connection.
TEST(Door, AnswersThatNobodyReadsAreCountedAndEnd) {
  v1::TokenizeRequest request;
  for (int i = 0; i < 100'000; ++i) absl::StrAppend(request.mutable_text(), i % 10);
  const door::DoorOptions held_for_a_while = {.read_grace = std::chrono::milliseconds(5),
                                              .read_max = std::chrono::milliseconds(50)};
  const door::DoorOptions too_much_to_hold = {.bytes = 300 << 10,
                                              .read_grace = std::chrono::milliseconds(5),
                                              .read_max = std::chrono::hours(1)};
  for (const door::DoorOptions& door : {held_for_a_while, too_much_to_hold}) {
    InProcessCluster cluster(With(door));
    const std::shared_ptr<grpc::Channel> channel = NarrowChannel(cluster);
    // A reset is seen by who reads at last; how soon it comes depends on the machine, as does how
    // soon the bytes of the try before are given back.
    grpc::Status status;
    const auto too_soon = [&status] {
      return status.ok() || status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
    };
    for (int ms = 50; too_soon() && ms < 20'000; ms *= 2) {
      RawCall call(channel, kTokenize);
      call.Send(request);
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      status = call.End();
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED) << status.error_message();
  }
}

TEST(Door, MoreBytesThanTheBudgetAreRefusedAtOnce) {
  InProcessCluster cluster(With({.bytes = 64 << 10, .read_grace = std::chrono::seconds(10)}));
  v1::TokenizeRequest request;
  request.set_text(std::string(30 << 10, 'x'));
  EXPECT_TRUE([&] {
    RawCall call(cluster.channel(), kTokenize);
    call.Send(request);
    return call.End().ok();
  }());
  request.set_text(std::string(40 << 10, 'x'));
  RawCall call(cluster.channel(), kTokenize);
  call.Send(request);
  EXPECT_EQ(call.End().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(call.SaysWhenToRetry());
}

// 64 outputs of the prompt are 64 times its ids.
// As many fields of two bytes as a message can have: costs more to look at than to send.
grpc::ByteBuffer ManyFields() {
  std::string bytes;
  while (bytes.size() < door::kRequestBytesMax) bytes += {0x38, 0x01};  // n: 1
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

TEST(Door, LargeRequestsThatAreRefusedAreAnsweredAtAPace) {
  InProcessCluster cluster(With({}));
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<RawCall>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(std::make_unique<RawCall>(cluster.channel(), kGenerate));
    calls.back()->Send(ManyFields());
  }
  // Nobody else waits, on the same connection either.
  EXPECT_TRUE(cluster.Generate(Ask()).status.ok());
  EXPECT_TRUE(cluster.Generate(Ask()).status.ok());
  for (const auto& call : calls) {
    const grpc::Status status = call->End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("fields"));
  }
  // A pause for each: nobody watches the connections of this cluster, so that their pauses do not
  // add up.
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
}

TEST(Door, AClientThatDoesNotWaitForItsRefusalLeavesNothing) {
  InProcessCluster cluster(With({}));
  for (int i = 0; i < 4; ++i) {
    RawCall call(cluster.channel(), kTokenize);
    call.Send(ManyFields());
  }
  EXPECT_TRUE(cluster.Generate(Ask()).status.ok());
}

TEST(Door, PromptsAreCountedForEachOutput) {
  InProcessCluster cluster(With({.bytes = 64 << 10}));
  v1::GenerateRequest request = Ask();
  request.clear_text();
  request.mutable_token_ids()->mutable_ids()->Resize(200, 1);
  EXPECT_TRUE(cluster.Generate(request).status.ok());
  request.set_n(64);
  const Answer refused = cluster.Generate(request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
  EXPECT_TRUE(refused.trailing_metadata.contains("retry-after-ms"));
  for (int i = 0; i < 300; ++i) {  // what was held is given back
    ASSERT_TRUE(cluster.Generate(Ask()).status.ok());
  }
  cluster.WaitIdle();
}

TEST(Door, RunningOutOfMemoryEndsTheRequestOnly) {
  InProcessCluster cluster(With({}));
  {
    const ScopedFailPoint armed("coordinator.no_memory_for_prompt");
    const Answer refused = cluster.Generate(Ask());
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("memory"));
    EXPECT_TRUE(refused.trailing_metadata.contains("retry-after-ms"));
  }
  {
    const ScopedFailPoint armed("coordinator.no_memory_for_output", {.passes = 1, .failures = 1});
    v1::GenerateRequest request = Ask();
    request.set_n(3);
    request.mutable_sampling()->set_ignore_eos(true);
    EXPECT_EQ(cluster.Generate(request).status.code(), absl::StatusCode::kResourceExhausted);
    cluster.WaitIdle();
  }
  EXPECT_TRUE(cluster.Generate(Ask()).status.ok());
}

TEST(Door, ClientsThatLeaveWhileTheySendLeaveNothing) {
  InProcessCluster cluster(
      With({.bytes = 5 * door::kRequestBytesMax, .read_grace = std::chrono::milliseconds(1)}));
  for (int i = 0; i < 50; ++i) RawCall(cluster.channel(), kGenerate);
  // The last of them are still being let go.
  bool served = false;
  for (int tries = 0; tries < 200 && !served; ++tries) {
    served = cluster.Generate(Ask()).status.ok();
    if (!served) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(served);
}

}  // namespace
}  // namespace tutti::tests
