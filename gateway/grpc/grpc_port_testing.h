// The gateway's port over real connections, in front of a service that a test breaks.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/mutex.h"
#include "gateway/grpc/grpc_port.h"
#include "metrics/span_writer.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::gateway {

inline constexpr uint32_t kTokens = 20;
inline constexpr Duration kPatience = std::chrono::seconds(20);

// printf %s secret-1 | sha256sum
inline constexpr char kKeys[] =
    "acme f7e7c36e458e80e6b6a2c67d0a9ec09bd718dadd7bfa8d6bf6e7ad526e46c2f7\n";

inline bool Soon(const std::function<bool()>& condition) {
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
  std::atomic<int> tokens_beside{0};  // of each message, beside its one
  std::atomic<bool> floods{false}, waits{false};
  std::atomic<int> second_output_bytes{0};  // of an output 1, which comes when the first has ended
  std::atomic<int> calls{0}, cancelled{0};
  grpc::Status refusal;

  v1::GenerateRequest last() {
    const MutexLock lock(&mutex_);
    return last_;
  }
  double seconds_left() const { return seconds_left_; }
  // The traceparents of the last call, and its accounts, with commas between them.
  std::string traceparents() {
    const MutexLock lock(&mutex_);
    return traceparents_;
  }
  std::string accounts() {
    const MutexLock lock(&mutex_);
    return accounts_;
  }

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    {
      const MutexLock lock(&mutex_);
      last_ = *request;
      traceparents_ = Metadata(*context, "traceparent");
      accounts_ = Metadata(*context, "x-tutti-account");
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
      message.set_index(at * static_cast<uint32_t>(1 + tokens_beside));
      message.add_tokens()->set_id(static_cast<int32_t>(at));
      for (int i = 0; i < tokens_beside; ++i) message.add_tokens()->set_id(1 << 20);
      message.set_text(absl::StrCat(at, " "));
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
    message.set_index(kTokens * static_cast<uint32_t>(1 + tokens_beside));
    message.mutable_finish()->set_seed(9);
    writer->Write(message);
    return second_output_bytes == 0 ? grpc::Status::OK : SayAnother(context, writer);
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
  grpc::Status SayAnother(grpc::ServerContext* context,
                          grpc::ServerWriter<v1::GenerateResponse>* writer) {
    v1::GenerateResponse message;
    message.set_output(1);
    message.set_text(std::string(4096, 'x'));
    for (int said = 0; said < second_output_bytes; said += 4096) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!writer->Write(message) || context->IsCancelled()) {
        ++cancelled;
        return grpc::Status::CANCELLED;
      }
    }
    message.clear_text();
    message.mutable_finish()->set_seed(9);
    writer->Write(message);
    return grpc::Status::OK;
  }

  static std::string Metadata(const grpc::ServerContext& context, const char* name) {
    const auto [first, last] = context.client_metadata().equal_range(name);
    return absl::StrJoin(first, last, ",", [](std::string* out, const auto& one) {
      out->append(one.second.data(), one.second.size());
    });
  }

  Mutex mutex_;
  v1::GenerateRequest last_ ABSL_GUARDED_BY(mutex_);
  std::string traceparents_ ABSL_GUARDED_BY(mutex_);
  std::string accounts_ ABSL_GUARDED_BY(mutex_);
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
    upstream_ = std::make_unique<Upstream>(*std::move(client), /*has_tenants=*/false);
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
    DoorRules rules;
    if (!keys.empty()) rules.keys = *ApiKeys::Parse(keys, "keys");
    auto port = GrpcPort::Start(
        {.listen = "127.0.0.1:0",
         .tls = {},
         .door = door_,
         .bounds = {.total = 100, .per_account = 100}},
        std::move(rules), upstream_.get(),
        [this](std::function<void()> job) {
          const MutexLock lock(&loop_);
          job();
        },
        &traffic_, spans_.get());
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

  door::DoorOptions door_;  // before Open
  FakeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Upstream> upstream_;
  const SystemClock clock_{};
  Mutex loop_;
  Traffic traffic_{&clock_};
  std::unique_ptr<metrics::SpanWriter> spans_;  // before Open
  std::unique_ptr<GrpcPort> port_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

}  // namespace tutti::gateway
