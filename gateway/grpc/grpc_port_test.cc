// The gateway's port over real connections, in front of a service that a test breaks.
#include "gateway/grpc/grpc_port.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace tutti::gateway {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kTokens = 20;
constexpr Duration kPatience = std::chrono::seconds(20);

// printf %s secret-1 | sha256sum
constexpr char kKeys[] = "acme f7e7c36e458e80e6b6a2c67d0a9ec09bd718dadd7bfa8d6bf6e7ad526e46c2f7\n";

bool Soon(const std::function<bool()>& condition) {
  const Instant until = SystemClock().Now() + kPatience;
  while (!condition()) {
    if (SystemClock().Now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Says 0, 1, … up to kTokens, and breaks off after so many tokens of its first call.
class FakeService : public v1::Inference::Service {
 public:
  std::atomic<uint32_t> breaks_after{kTokens};
  std::atomic<bool> floods{false}, waits{false};
  std::atomic<int> calls{0}, cancelled{0};
  grpc::Status refusal;

  v1::GenerateRequest last() {
    const MutexLock lock(&mutex_);
    return last_;
  }
  double seconds_left() const { return seconds_left_; }
  // Of the last call, with commas between them.
  std::string traceparents() {
    const MutexLock lock(&mutex_);
    return traceparents_;
  }

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    {
      const MutexLock lock(&mutex_);
      last_ = *request;
      traceparents_.clear();
      const auto [first, last] = context->client_metadata().equal_range("traceparent");
      for (auto one = first; one != last; ++one) {
        absl::StrAppend(&traceparents_, one == first ? "" : ",",
                        std::string(one->second.data(), one->second.size()));
      }
    }
    seconds_left_ =
        std::chrono::duration<double>(context->deadline() - std::chrono::system_clock::now())
            .count();
    if (!refusal.ok()) return refusal;
    const uint32_t end = ++calls == 1 ? breaks_after.load() : kTokens;
    uint32_t at =
        request->has_resume() ? static_cast<uint32_t>(request->resume().outputs(0).ids_size()) : 0;
    v1::GenerateResponse message;
    message.mutable_started()->set_resume_token("token");
    for (; at < kTokens || floods; ++at) {
      if (at == end && !floods) return {grpc::StatusCode::UNAVAILABLE, "the worker went"};
      message.set_index(at);
      message.add_tokens()->set_id(static_cast<int32_t>(at));
      if (floods) message.set_text(std::string(4096, 'x'));
      if (!writer->Write(message) || context->IsCancelled()) {
        ++cancelled;
        return grpc::Status::CANCELLED;
      }
      message.Clear();
      while (waits && !context->IsCancelled()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    message.set_index(kTokens);
    message.mutable_finish()->set_seed(9);
    writer->Write(message);
    return grpc::Status::OK;
  }
  grpc::Status Tokenize(grpc::ServerContext*, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    response->add_ids(static_cast<int32_t>(request->text().size()));
    return grpc::Status::OK;
  }
  grpc::Status Detokenize(grpc::ServerContext*, const v1::DetokenizeRequest*,
                          v1::DetokenizeResponse*) override {
    return {grpc::StatusCode::INVALID_ARGUMENT, "ids[1] is -1"};
  }
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    response->set_name("fake");
    response->set_numerics_class("cpu-f32");
    return grpc::Status::OK;
  }

 private:
  Mutex mutex_;
  v1::GenerateRequest last_ ABSL_GUARDED_BY(mutex_);
  std::string traceparents_ ABSL_GUARDED_BY(mutex_);
  std::atomic<double> seconds_left_{0};
};

struct Heard {
  std::vector<int32_t> ids;
  grpc::Status status;
};

class GrpcPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    auto client = client::Client::Create({.address = absl::StrCat("127.0.0.1:", port)});
    CHECK(client.ok()) << client.status();
    upstream_ = std::make_unique<Upstream>(*std::move(client));
    ASSERT_TRUE(Soon([this] { return upstream_->model()->ready(); }));
  }
  void TearDown() override {
    if (port_ != nullptr) {
      EXPECT_TRUE(Soon([this] { return port_->under_way() == 0 && upstream_->calls == 0; }));
    }
    port_.reset();
    upstream_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
  }
  void Open(const std::string& keys = "") {
    DoorRules rules{.keys = {}, .allowed_hosts = {}, .cors_origins = {}};
    if (!keys.empty()) rules.keys = *ApiKeys::Parse(keys, "keys");
    auto port = GrpcPort::Start(
        {.listen = "127.0.0.1:0",
         .tls = {},
         .door = {},
         .bounds = {.total = 100, .per_account = 100}},
        std::move(rules), upstream_.get(),
        [this](std::function<void()> job) {
          const MutexLock lock(&loop_);
          job();
        },
        &traffic_);
    CHECK(port.ok()) << port.status();
    port_ = *std::move(port);
    stub_ = v1::Inference::NewStub(
        grpc::CreateChannel(port_->address(), grpc::InsecureChannelCredentials()));
  }
  Heard Ask(const v1::GenerateRequest& request, const std::string& key = "", int keys = 1) {
    grpc::ClientContext context;
    for (int i = 0; i < keys && !key.empty(); ++i) {
      context.AddMetadata("authorization", "Bearer " + key);
    }
    return Ask(request, &context);
  }
  Heard Ask(const v1::GenerateRequest& request, grpc::ClientContext* context) {
    Heard heard;
    auto reader = stub_->Generate(context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
      EXPECT_EQ(message.tokens_size() == 0 ? kTokens : heard.ids.size(), message.index());
      for (const auto& token : message.tokens()) heard.ids.push_back(token.id());
    }
    heard.status = reader->Finish();
    return heard;
  }
  static std::vector<int32_t> All() {
    std::vector<int32_t> all;
    for (uint32_t i = 0; i < kTokens; ++i) all.push_back(static_cast<int32_t>(i));
    return all;
  }

  FakeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Upstream> upstream_;
  const SystemClock clock_{};
  Mutex loop_;
  Traffic traffic_{&clock_};
  std::unique_ptr<GrpcPort> port_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

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

}  // namespace
}  // namespace tutti::gateway
