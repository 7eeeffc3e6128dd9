// KServe's and vLLM's protocols at the gateway's port: what no translator sees.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "door/grpc/message_parser.h"
#include "gateway/grpc/grpc_port_testing.h"
#include "gateway/kserve/infer_testing.h"
#include "gateway/limits.h"
#include "inference/grpc_service.grpc.pb.h"
#include "vllm/vllm_engine.grpc.pb.h"

namespace tutti::gateway {
namespace {

namespace engine = vllm::grpc::engine;
using ::testing::HasSubstr;
using Infer = inference::GRPCInferenceService;

// The text of FakeService.
std::string AllText() {
  std::string text;
  for (uint32_t i = 0; i < kTokens; ++i) absl::StrAppend(&text, i, " ");
  return text;
}

std::string TextOf(const inference::ModelInferResponse& response) {
  if (response.raw_output_contents_size() == 0) return "";
  const std::string& raw = response.raw_output_contents(0);
  return raw.substr(sizeof(uint32_t));
}

inference::ModelInferRequest AskFor(const std::string& id, bool stream = true) {
  auto request = Asking("hello");
  request.set_id(id);
  request.set_model_name("fake");
  AddNumber("stream", "BOOL", stream, &request);
  AddNumber("exclude_input_in_output", "BOOL", true, &request);
  return request;
}

class FrontEndsTest : public GrpcPortTest {
 protected:
  void OpenAll(const std::string& keys = "") {
    Open(keys);
    const auto channel =
        ::grpc::CreateChannel(port_->address(), ::grpc::InsecureChannelCredentials());
    infer_ = Infer::NewStub(channel);
    engine_ = engine::VllmEngine::NewStub(channel);
  }
  std::unique_ptr<Infer::Stub> infer_;
  std::unique_ptr<engine::VllmEngine::Stub> engine_;
};

// Its file imports another, and has maps, whose keys are texts too.
TEST(KserveMessages, TheTextThatIsNotUtf8IsNamed) {
  inference::ModelInferRequest request = AskFor("ab\xff");
  const ::grpc::Slice slice(request.SerializeAsString());
  EXPECT_EQ(door::ParseMessage(::grpc::ByteBuffer(&slice, 1), &request).message(),
            "id: invalid UTF-8 at byte 2");
}

TEST_F(FrontEndsTest, AServiceThatBreaksOffIsAPauseForAll) {
  service_.breaks_after = 7;
  OpenAll();
  ::grpc::ClientContext unary;
  inference::ModelInferResponse whole;
  const auto status = infer_->ModelInfer(&unary, AskFor("a"), &whole);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(TextOf(whole), AllText());
  EXPECT_EQ(whole.id(), "a");
  EXPECT_EQ(service_.calls, 2);
  service_.calls = 0;
  ::grpc::ClientContext context;
  engine::GenerateRequest request;
  request.set_text("hello");
  request.set_stream(true);
  auto reader = engine_->Generate(&context, request);
  engine::GenerateResponse message;
  std::vector<int32_t> ids;
  bool complete = false;
  while (reader->Read(&message)) {
    for (const uint32_t id : message.chunk().token_ids()) ids.push_back(static_cast<int32_t>(id));
    complete = complete || message.has_complete();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(complete);
  EXPECT_EQ(ids, All());
  EXPECT_EQ(service_.calls, 2);
}

TEST_F(FrontEndsTest, ManyRequestsOfOneStream) {
  constexpr int kRequests = 200;
  OpenAll();
  ::grpc::ClientContext context;
  auto stream = infer_->ModelStreamInfer(&context);
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      auto request = AskFor(absl::StrCat(i), i % 2 == 0);
      if (i % 10 == 9) request.set_model_version("7");  // refused
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  std::map<std::string, std::string> texts;
  std::set<std::string> ended, failed;
  inference::ModelStreamInferResponse message;
  while (stream->Read(&message)) {
    const auto& response = message.infer_response();
    if (!message.error_message().empty()) {
      EXPECT_THAT(message.error_message(), HasSubstr("version"));
      failed.insert(response.id());
      continue;
    }
    texts[response.id()] += TextOf(response);
    if (response.parameters().at("triton_final_response").bool_param()) ended.insert(response.id());
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(failed.size(), kRequests / 10u);
  EXPECT_EQ(ended.size(), kRequests - kRequests / 10u);
  for (const auto& [id, text] : texts) EXPECT_EQ(text, AllText()) << id;
}

TEST_F(FrontEndsTest, AStreamThatIsLeftEndsItsRequests) {
  service_.waits = true;
  OpenAll();
  {
    ::grpc::ClientContext context;
    auto stream = infer_->ModelStreamInfer(&context);
    for (int i = 0; i < 5; ++i) stream->Write(AskFor(absl::StrCat(i)));
    inference::ModelStreamInferResponse message;
    ASSERT_TRUE(stream->Read(&message));
    EXPECT_TRUE(Soon([this] { return upstream_->calls == 5; }));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), ::grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Soon([this] { return upstream_->calls == 0 && port_->under_way() == 0; }));
  service_.waits = false;
}

TEST_F(FrontEndsTest, WhoDoesNotReadIsEnded) {
  service_.floods = true;
  OpenAll();
  ::grpc::ClientContext context;
  auto stream = infer_->ModelStreamInfer(&context);
  stream->Write(AskFor("a"));
  EXPECT_TRUE(Soon([this] { return service_.cancelled > 0; }));
  inference::ModelStreamInferResponse message;
  while (stream->Read(&message)) {
  }
  const auto status = stream->Finish();
  EXPECT_EQ(status.error_code(), ::grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("unread"));
}

TEST_F(FrontEndsTest, AKeySaysWhoAsks) {
  OpenAll(kKeys);
  const auto code_of = [this](const char* key) {
    ::grpc::ClientContext context, other, third;
    for (auto* each : {&context, &other, &third}) {
      if (key[0] != 0) each->AddMetadata("authorization", absl::StrCat("Bearer ", key));
    }
    inference::ModelInferResponse whole;
    const auto unary = infer_->ModelInfer(&context, AskFor("a"), &whole).error_code();
    auto stream = infer_->ModelStreamInfer(&other);
    stream->WritesDone();
    inference::ModelStreamInferResponse message;
    while (stream->Read(&message)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), unary);
    engine::HealthCheckResponse health;
    EXPECT_EQ(engine_->HealthCheck(&third, {}, &health).error_code(), unary);
    return unary;
  };
  EXPECT_EQ(code_of(""), ::grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_of("secret-2"), ::grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_of("secret-1"), ::grpc::StatusCode::OK);
  EXPECT_EQ(service_.last().tenant(), "acme");
}

TEST_F(FrontEndsTest, TheServicesWordsNameTheCallersFields) {
  service_.refusal = {::grpc::StatusCode::INVALID_ARGUMENT, "sampling.temperature is -1"};
  OpenAll();
  ::grpc::ClientContext unary, context;
  inference::ModelInferResponse whole;
  auto request = AskFor("a");
  AddTexts("sampling_parameters", {R"({"temperature": -1})"}, &request);
  EXPECT_EQ(infer_->ModelInfer(&unary, request, &whole).error_message(),
            "sampling_parameters.temperature is -1");
  engine::GenerateRequest asked;
  asked.set_text("hello");
  auto reader = engine_->Generate(&context, asked);
  engine::GenerateResponse message;
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_EQ(reader->Finish().error_message(), "sampling_params.temperature is -1");
}

TEST_F(FrontEndsTest, AnAbortEndsWhatItNames) {
  service_.waits = true;
  OpenAll();
  ::grpc::ClientContext context, abort;
  engine::GenerateRequest request;
  request.set_text("hello");
  request.set_request_id("mine");
  request.set_stream(true);
  auto reader = engine_->Generate(&context, request);
  engine::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  engine::AbortRequest aborted;
  aborted.add_request_ids("mine");
  engine::AbortResponse done;
  ASSERT_TRUE(engine_->Abort(&abort, aborted, &done).ok());
  std::string reason;
  while (reader->Read(&message)) reason = message.complete().finish_reason();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(reason, "abort");
  EXPECT_TRUE(Soon([this] { return upstream_->calls == 0; }));
  service_.waits = false;
}

TEST_F(FrontEndsTest, StreamsEndWithThePort) {
  service_.waits = true;
  OpenAll();
  ::grpc::ClientContext context, idle;
  auto silent = infer_->ModelStreamInfer(&idle);
  auto stream = infer_->ModelStreamInfer(&context);
  stream->Write(AskFor("a"));
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_TRUE(Soon([this] { return port_->under_way() == 2; }));
  port_->Drain();
  EXPECT_EQ(silent->Finish().error_code(), ::grpc::StatusCode::UNAVAILABLE);
  service_.waits = false;
  std::string text = TextOf(message.infer_response());
  while (stream->Read(&message)) text += TextOf(message.infer_response());
  EXPECT_EQ(text, AllText());
  EXPECT_EQ(stream->Finish().error_code(), ::grpc::StatusCode::UNAVAILABLE);
}

TEST_F(FrontEndsTest, AStreamWithAllAnswersEndsWellAlsoWithThePort) {
  service_.waits = true;
  OpenAll();
  ::grpc::ClientContext context;
  auto stream = infer_->ModelStreamInfer(&context);
  stream->Write(AskFor("a"));
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  stream->WritesDone();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // nothing shows that it came
  port_->Drain();
  service_.waits = false;
  while (stream->Read(&message)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(FrontEndsTest, OneCallerHasAShareOfTheStreams) {
  OpenAll();
  std::deque<::grpc::ClientContext> contexts;
  std::vector<decltype(infer_->ModelStreamInfer(&contexts[0]))> streams;
  for (int64_t i = 0; i < kInferStreamsPerCallerMax; ++i) {
    streams.push_back(infer_->ModelStreamInfer(&contexts.emplace_back()));
  }
  EXPECT_TRUE(Soon([this] { return port_->under_way() == kInferStreamsPerCallerMax; }));
  const ::grpc::Status said = infer_->ModelStreamInfer(&contexts.emplace_back())->Finish();
  EXPECT_EQ(said.error_code(), ::grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(said.error_message(),
              ::testing::HasSubstr(absl::StrCat("the limit is ", kInferStreamsPerCallerMax)));
  for (const auto& stream : streams) {
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
}

TEST_F(FrontEndsTest, NonsenseIsRefusedAndTheStreamGoesOn) {
  OpenAll();
  ::grpc::ClientContext context;
  auto stream = infer_->ModelStreamInfer(&context);
  auto nonsense = AskFor("bad");
  nonsense.mutable_inputs(0)->set_datatype("FP16");
  stream->Write(nonsense);
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_THAT(message.error_message(), HasSubstr("text_input is of type FP16"));
  EXPECT_EQ(message.infer_response().id(), "bad");
  stream->Write(AskFor("good", /*stream=*/false));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(TextOf(message.infer_response()), AllText());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(FrontEndsTest, ARequestThatThereIsNoRoomForEndsAloneInItsStream) {
  door_.bytes = 64 << 10;
  OpenAll();
  ::grpc::ClientContext context;
  auto stream = infer_->ModelStreamInfer(&context);
  auto large = AskFor("large");
  AddTexts("stop_words", {std::string(64 << 10, 'x')}, &large);
  stream->Write(large);
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_THAT(message.error_message(), HasSubstr("as many bytes for this client as it may"));
  EXPECT_EQ(message.infer_response().id(), "large");
  EXPECT_EQ(message.infer_response().model_name(), "fake");
  stream->Write(AskFor("small", /*stream=*/false));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.infer_response().id(), "small");
  EXPECT_EQ(TextOf(message.infer_response()), AllText());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(FrontEndsTest, AWholeAnswerThatNobodyReadsIsGivenUp) {
  service_.tokens_beside = 20'000;
  door_.read_grace = door_.read_max = std::chrono::milliseconds(100);
  OpenAll();
  // One whose window stays small: what it takes unasked counts as read.
  ::grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = engine::VllmEngine::NewStub(::grpc::CreateCustomChannel(
      port_->address(), ::grpc::InsecureChannelCredentials(), arguments));
  ::grpc::ClientContext context;
  engine::GenerateRequest request;
  request.set_text("hello");
  auto reader = stub->Generate(&context, request);
  EXPECT_TRUE(Soon([this] { return port_->begun() == 1 && port_->under_way() == 0; }));
  engine::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), ::grpc::StatusCode::CANCELLED);
}

TEST_F(FrontEndsTest, WhatComesBehindAWholeAnswerThatNobodyReadsCountsToo) {
  service_.tokens_beside = 20'000;
  service_.second_output_bytes = 32 << 20;
  // The first answer may lie there for as long as it likes.
  door_.bytes = 16 << 20;
  door_.read_grace = std::chrono::milliseconds(50);
  door_.read_max = std::chrono::hours(1);
  OpenAll();
  ::grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = engine::VllmEngine::NewStub(::grpc::CreateCustomChannel(
      port_->address(), ::grpc::InsecureChannelCredentials(), arguments));
  ::grpc::ClientContext context;
  engine::GenerateRequest request;
  request.set_text("hello");
  request.mutable_sampling_params()->set_n(2);
  auto reader = stub->Generate(&context, request);
  EXPECT_TRUE(Soon([this] { return service_.cancelled > 0; }));
  engine::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), ::grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace tutti::gateway
