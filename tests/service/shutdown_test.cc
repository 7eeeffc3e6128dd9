// The end of calls that are under way when a coordinator ends: UNAVAILABLE, from which clients go
// on elsewhere, and never CANCELLED, which is their own doing.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/files_testing.h"
#include "base/mutex.h"
#include "coordinator/service/coordinator.h"
#include "tutti/v1/cluster.grpc.pb.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::tests {
namespace {

// A coordinator without workers, which ends when it is told to.
class ShutdownTest : public ::testing::TestWithParam<std::string> {
 protected:
  ShutdownTest() {
    const char* source = std::getenv("TUTTI_SOURCE_DIR");
    auto model = coordinator::ServedModel::Load(
        std::string(source != nullptr ? source : ".") + "/models/demo", "test", 0);
    EXPECT_TRUE(model.ok()) << model.status();
    coordinator::CoordinatorOptions options;
    options.listen = GetParam() == "unix" ? "unix:" + folder_.File("api") : "127.0.0.1:0";
    options.peer_listen = "unix:" + folder_.File("peers");
    options.admin_listen = "unix:" + folder_.File("admin");
    options.engine.build = BuildStamp();
    coordinator_ = std::make_unique<coordinator::Coordinator>(*std::move(model), options);
    const absl::Status started = coordinator_->Start();
    EXPECT_TRUE(started.ok()) << started;
  }

  static std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    auto channel =
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    EXPECT_TRUE(
        channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
    return channel;
  }

  const TempDir folder_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
};

// A call that has begun and sends nothing.
class BegunCall {
 public:
  BegunCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method)
      : stub_(channel), call_(stub_.PrepareCall(&context_, method, &queue_)) {
    call_->StartCall(nullptr);
    Wait();
  }
  grpc::Status End() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Wait();
    return status;
  }

 private:
  void Wait() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
  }

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

TEST_P(ShutdownTest, CallsUnderWayHearUnavailable) {
  const auto channel = Connect(coordinator_->address());
  const auto admin = Connect(coordinator_->admin_address());
  std::vector<std::unique_ptr<BegunCall>> calls;
  for (const auto& [to, method] :
       {std::pair{channel, "/tutti.v1.Inference/Generate"},
        {channel, "/tutti.v1.Inference/Tokenize"},
        {channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"},
        {admin, "/tutti.v1.Admin/GetStatus"}}) {
    calls.push_back(std::make_unique<BegunCall>(to, method));
  }
  // Their headers are there when an answer to a later call is.
  for (const auto& to : {channel, admin}) {
    EXPECT_EQ(BegunCall(to, "/tutti.v1.Inference/Nothing").End().error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
  }
  coordinator_->Shutdown(Duration::zero());
  for (const auto& call : calls) {
    const grpc::Status status = call->End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  }
}

TEST_P(ShutdownTest, NobodyWhoKeepsAskingHearsThatItHasCancelled) {
  std::atomic<bool> over{false};
  Mutex mutex;
  std::map<grpc::StatusCode, int> heard;  // guarded by mutex
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&, channel = Connect(coordinator_->address())] {
      const auto stub = v1::Inference::NewStub(channel);
      while (!over) {
        grpc::ClientContext context;
        v1::TokenizeRequest request;
        request.set_text("What is 12 + 30?");
        v1::TokenizeResponse response;
        const grpc::Status status = stub->Tokenize(&context, request, &response);
        const MutexLock lock(&mutex);
        ++heard[status.error_code()];
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  coordinator_->Shutdown(Duration::zero());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  over = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_GT(heard[grpc::StatusCode::OK], 0);
  EXPECT_GT(heard[grpc::StatusCode::UNAVAILABLE], 0);
  for (const auto& [code, count] : heard) {
    // UNKNOWN is gRPC 1.51's "Stream removed": a call that began while its connection ended.
    EXPECT_TRUE(code == grpc::StatusCode::OK || code == grpc::StatusCode::UNAVAILABLE ||
                code == grpc::StatusCode::UNKNOWN)
        << code << " " << count << " times";
  }
}

// The work of a grammar that is made late, and of those that wait behind it.
std::string SchemaOfManyProperties() {
  std::string properties;
  for (int i = 0; i < 9'000; ++i) {
    absl::StrAppend(&properties, i == 0 ? "" : ",", "\"p", i, "\":{\"type\":\"string\"}");
  }
  return absl::StrCat(R"({"type":"object","properties":{)", properties, "}}");
}

TEST_P(ShutdownTest, WhoWaitsForAGrammarIsToldToGoElsewhere) {
  const std::string schema = SchemaOfManyProperties();
  const auto channel = Connect(coordinator_->address());
  Mutex mutex;
  std::vector<grpc::Status> heard;  // guarded by mutex
  std::vector<std::thread> askers;
  for (int i = 0; i < 12; ++i) {
    askers.emplace_back([&, i] {
      grpc::ClientContext context;
      v1::GenerateRequest request;
      request.set_text("x");
      request.mutable_grammar()->set_json_schema(absl::StrCat(schema, std::string(i, ' ')));
      v1::GenerateResponse response;
      const auto reader = v1::Inference::NewStub(channel)->Generate(&context, request);
      while (reader->Read(&response)) continue;
      const grpc::Status status = reader->Finish();
      const MutexLock lock(&mutex);
      heard.push_back(status);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  coordinator_->Shutdown(std::chrono::seconds(30));
  for (std::thread& asker : askers) asker.join();
  int told = 0;
  for (const grpc::Status& status : heard) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    // Not gRPC's words for a connection that was lost.
    EXPECT_THAT(status.error_message(),
                ::testing::AnyOf(::testing::HasSubstr("is shutting down"),
                                 ::testing::HasSubstr("not serving: ")));
    if (status.error_message().find("shutting down") != std::string::npos) ++told;
  }
  EXPECT_GT(told, 0);
}

INSTANTIATE_TEST_SUITE_P(Addresses, ShutdownTest, ::testing::Values("tcp", "unix"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tutti::tests
