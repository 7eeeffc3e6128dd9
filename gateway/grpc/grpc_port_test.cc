// tutti.v1.Inference at the gateway's port.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "gateway/grpc/grpc_port_testing.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "transport/limits.h"

namespace tutti::gateway {
namespace {

using ::testing::HasSubstr;

TEST_F(GrpcPortTest, AServiceThatBreaksOffIsAPause) {
  service_.breaks_after = 7;
  Open();
  const Heard heard = Ask({});
  EXPECT_TRUE(heard.status.ok()) << heard.status.error_message();
  EXPECT_EQ(heard.ids, All());
  EXPECT_EQ(service_.calls, 2);
  const MutexLock lock(&loop_);
  EXPECT_EQ(traffic_.UnderWay().size(), 0u);
}

// A caller's trace goes on in the service, over every stream that an answer takes.
TEST_F(GrpcPortTest, TheCallersTraceIsPassedOn) {
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  service_.breaks_after = 7;
  Open();
  grpc::ClientContext traced;
  traced.AddMetadata("traceparent", trace);
  EXPECT_TRUE(Ask({}, &traced).status.ok());
  EXPECT_EQ(service_.calls, 2);
  EXPECT_EQ(service_.traceparents(), trace) << "of the second stream";
  grpc::ClientContext wrong, two;
  wrong.AddMetadata("traceparent", "00-none-of-ours-01");
  EXPECT_TRUE(Ask({}, &wrong).status.ok());
  EXPECT_EQ(service_.traceparents(), "");
  two.AddMetadata("traceparent", trace);
  two.AddMetadata("traceparent", "00-0bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  EXPECT_TRUE(Ask({}, &two).status.ok());
  EXPECT_EQ(service_.traceparents(), "") << "nobody knows which counts";
}

TEST_F(GrpcPortTest, ACallIsTracedAsOneOverHttp) {
  const TempDir dir;
  spans_ = *metrics::SpanWriter::Start("tutti-gateway", {.file = dir.File("spans")});
  Open();
  grpc::ClientContext traced;
  traced.AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  EXPECT_TRUE(Ask({}, &traced).status.ok());
  EXPECT_TRUE(Soon([this] { return port_->under_way() == 0 && upstream_->calls == 0; }));
  port_.reset();
  spans_.reset();  // writes them
  const auto spans = nlohmann::json::parse(
      ReadWholeFile(dir.File("spans")))["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["name"], "tutti.v1.Inference/Generate");
  EXPECT_EQ(spans[0]["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_EQ(spans[1]["name"], "text_completion fake");
  EXPECT_EQ(spans[1]["parentSpanId"], spans[0]["spanId"]);
  EXPECT_EQ(service_.traceparents(), absl::StrCat("00-4bf92f3577b34da6a3ce929d0e0e4736-",
                                                  spans[1]["spanId"].get<std::string>(), "-01"));
}

TEST_F(GrpcPortTest, OtherMethodsAnswer) {
  Open();
  v1::TokenizeRequest text;
  text.set_text("abc");
  v1::TokenizeResponse ids;
  grpc::ClientContext first, second, third;
  ASSERT_TRUE(stub_->Tokenize(&first, text, &ids).ok());
  EXPECT_EQ(ids.ids(0), 3);
  v1::DetokenizeResponse no_text;
  const grpc::Status refused = stub_->Detokenize(&second, {}, &no_text);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "ids[1] is -1");
  v1::GetModelResponse model;
  ASSERT_TRUE(stub_->GetModel(&third, {}, &model).ok());
  EXPECT_EQ(model.name(), "fake");
}

TEST_F(GrpcPortTest, AKeySaysWhoAsks) {
  Open(kKeys);
  const std::pair<const char*, int> wrong[] = {{"", 0}, {"secret-2", 1}, {"secret-1", 2}};
  for (const auto& [key, times] : wrong) {
    EXPECT_EQ(Ask({}, key, times).status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << key;
  }
  EXPECT_EQ(service_.calls, 0);
  v1::GenerateRequest request;
  request.set_request_id("mine");
  EXPECT_TRUE(Ask(request, "secret-1").status.ok());
  EXPECT_EQ(service_.last().tenant(), "acme");
  EXPECT_EQ(service_.last().request_id(), "mine");
  request.set_tenant("acme");
  EXPECT_TRUE(Ask(request, "secret-1").status.ok());
  request.set_tenant("beta");
  EXPECT_EQ(Ask(request, "secret-1").status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer secret-1");
  context.AddMetadata("x-tutti-tenant", "beta");
  EXPECT_EQ(Ask({}, &context).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

// The service shares its steps by it, over every stream that an answer takes.
TEST_F(GrpcPortTest, TheServiceIsToldWhoseACallIsThatHasNoKey) {
  service_.breaks_after = 7;
  Open();
  grpc::ClientContext context;
  context.AddMetadata("x-tutti-account", "another");
  EXPECT_TRUE(Ask({}, &context).status.ok());
  EXPECT_EQ(service_.calls, 2);
  EXPECT_EQ(service_.accounts(), "at 127.0.0.1");
}

TEST_F(GrpcPortTest, WhoHasAKeyIsItsTenant) {
  Open(kKeys);
  EXPECT_TRUE(Ask({}, "secret-1").status.ok());
  EXPECT_EQ(service_.last().tenant(), "acme");
  EXPECT_EQ(service_.accounts(), "");
}

TEST_F(GrpcPortTest, NobodySaysWhatTheServiceBelievesAGateway) {
  Open();
  v1::GenerateRequest request;
  request.set_priority(-1);
  EXPECT_EQ(Ask(request).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  request.set_priority(0);
  request.set_tenant("acme");
  EXPECT_EQ(Ask(request).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  request.clear_tenant();
  request.set_n(~0u);
  EXPECT_EQ(Ask(request).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(service_.calls, 0);
  // A page of another site, and a name that is not this machine's.
  const std::pair<const char*, const char*> foreign[] = {{"https://evil.com", ""},
                                                         {"", "evil.com"}};
  for (const auto& [origin, authority] : foreign) {
    grpc::ClientContext context;
    if (*origin != 0) context.AddMetadata("origin", origin);
    if (*authority != 0) context.set_authority(authority);
    EXPECT_EQ(Ask({}, &context).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
}

TEST_F(GrpcPortTest, RefusalsKeepTheirDetails) {
  service_.refusal = {grpc::StatusCode::INVALID_ARGUMENT, "sampling.temperature is -1, it must"};
  Open();
  const Heard heard = Ask({});
  EXPECT_EQ(heard.status.error_message(), "sampling.temperature is -1, it must");
  google::rpc::Status rich;
  ASSERT_TRUE(rich.ParseFromString(heard.status.error_details()));
  google::rpc::BadRequest bad;
  ASSERT_EQ(rich.details_size(), 2);
  ASSERT_TRUE(rich.details(1).UnpackTo(&bad));
  EXPECT_EQ(bad.field_violations(0).field(), "sampling.temperature");
}

TEST_F(GrpcPortTest, ACallerThatGoesEndsTheCall) {
  service_.waits = true;
  Open();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  auto reader = stub_->Generate(&context, {});
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_GT(service_.seconds_left(), 30);
  EXPECT_LT(service_.seconds_left(), 61);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Soon([this] { return upstream_->calls == 0; }));
  EXPECT_TRUE(Soon([this] { return service_.cancelled == 1; }));
}

TEST_F(GrpcPortTest, ACallerThatDoesNotReadIsGivenUp) {
  service_.floods = true;
  Open();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, {});
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_TRUE(Soon([this] { return service_.cancelled == 1; }));
  while (reader->Read(&message)) {
  }
  const grpc::Status end = reader->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(end.error_message(), HasSubstr("unread"));
}

// gRPC reads all of it, refuses it, and the connection is its sender's still.
TEST_F(GrpcPortTest, AMessageThatIsTooLargeEndsItsCallAlone) {
  service_.waits = true;
  Open();
  grpc::ClientContext context, large;
  auto reader = stub_->Generate(&context, {});
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  v1::GenerateRequest request;
  request.set_text(std::string(9 << 20, 'a'));
  const grpc::Status refused = Ask(request, &large).status;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.error_message();
  // Several looks at the connection: only one that goes on shows that nobody cuts it.
  std::this_thread::sleep_for(8 * transport::kLookInterval);
  service_.waits = false;
  while (reader->Read(&message)) {
  }
  const grpc::Status end = reader->Finish();
  EXPECT_TRUE(end.ok()) << end.error_message();
}

TEST_F(GrpcPortTest, WhileItEndsStreamsFinishAndLateCallsHearWhy) {
  service_.waits = true;
  Open();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, {});
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  port_->Drain();
  const Heard late = Ask({});
  EXPECT_EQ(late.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(late.status.error_message(), HasSubstr("about to end"));
  EXPECT_TRUE(Soon([this] { return port_->under_way() == 1; }));
  service_.waits = false;
  size_t tokens = 1;
  while (reader->Read(&message)) tokens += static_cast<size_t>(message.tokens_size());
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, kTokens);
}

TEST_F(GrpcPortTest, WhatDoesNotFinishIsEndedWithAReason) {
  service_.waits = true;
  Open();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, {});
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  port_->EndAll(absl::UnavailableError("it is ending"));
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_message(), "it is ending");
}

TEST_F(GrpcPortTest, CallsThatComeWhileItGoesAreNotCancelled) {
  Open();
  const std::string address = port_->address();
  std::atomic<bool> gone{false};
  std::atomic<int> asked{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] {
      const auto stub =
          v1::Inference::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
      while (!gone) {
        grpc::ClientContext context;
        v1::GetModelResponse model;
        const grpc::Status status = stub->GetModel(&context, {}, &model);
        ++asked;
        if (!status.ok()) {
          EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
        }
      }
    });
  }
  EXPECT_TRUE(Soon([&] { return asked > 100; }));
  port_->Drain();
  port_.reset();
  gone = true;
  for (std::thread& asker : askers) asker.join();
}

// Callers that want none send the longest that they know.
TEST_F(GrpcPortTest, ADeadlineInCenturiesHasNotPassed) {
  Open();
  for (const int64_t years : {1, 200, 285, 1000, 10000}) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                                      gpr_time_from_hours(years * 365 * 24, GPR_TIMESPAN)));
    const Heard heard = Ask({}, &context);
    EXPECT_TRUE(heard.status.ok()) << years << " years: " << heard.status.error_message();
    EXPECT_EQ(heard.ids, All());
  }
}

}  // namespace
}  // namespace tutti::gateway
