#include "client/client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tutti/v1/cluster.grpc.pb.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti {
namespace {

using Writer = grpc::ServerWriter<v1::GenerateResponse>;

// A service that does what a test says.
class FakeService : public v1::Inference::Service, public v1::Admin::Service {
 public:
  std::function<grpc::Status(grpc::ServerContext*, const v1::GenerateRequest&, Writer*)> generate;

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        Writer* writer) override {
    return generate(context, *request, writer);
  }
  grpc::Status Tokenize(grpc::ServerContext*, const v1::TokenizeRequest* request,
                        v1::TokenizeResponse* response) override {
    if (request->text().empty()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "text: is empty"};
    }
    for (char c : request->text()) response->add_ids(c);
    return grpc::Status::OK;
  }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    response->set_serving(true);
    return grpc::Status::OK;
  }
};

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<v1::Inference::Service*>(&service_));
    builder.RegisterService(static_cast<v1::Admin::Service*>(&service_));
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
    client_ = *Client::Create({.address = address_});
  }

  absl::StatusOr<v1::Finish> Generate(const CallOptions& options = {}) {
    return client_->Generate({}, options, [this](const v1::GenerateResponse& message) {
      text_ += message.text();
      return on_message_();
    });
  }

  FakeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::unique_ptr<Client> client_;
  std::string text_;
  std::function<absl::Status()> on_message_ = [] { return absl::OkStatus(); };
};

v1::GenerateResponse Message(uint32_t index, const std::string& text, bool finish = false) {
  v1::GenerateResponse message;
  message.set_index(index);
  message.set_text(text);
  message.add_tokens()->set_id(7);
  if (finish) message.mutable_finish()->set_seed(99);
  return message;
}

// Writes until the client leaves; the call's end is what the test waits for.
grpc::Status WriteForever(grpc::ServerContext* context, Writer* writer) {
  for (uint32_t i = 0; !context->IsCancelled() && writer->Write(Message(i, "x")); ++i) {
    std::this_thread::yield();
  }
  return grpc::Status::CANCELLED;
}

TEST_F(ClientTest, StreamsInOrderAndReturnsFinish) {
  service_.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Message(0, "a"));
    writer->Write(Message(1, "b"));
    writer->Write(Message(2, "c", true));
    return grpc::Status::OK;
  };
  const auto finish = Generate();
  ASSERT_TRUE(finish.ok()) << finish.status();
  EXPECT_EQ(finish->seed(), 99u);
  EXPECT_EQ(text_, "abc");
}

TEST_F(ClientTest, PassesTheServicesStatusOn) {
  service_.generate = [](auto*, const auto&, Writer*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  };
  EXPECT_EQ(Generate().status(), absl::ResourceExhaustedError("the queue is full"));
  EXPECT_EQ(client_->Tokenize({}).status(), absl::InvalidArgumentError("text: is empty"));
}

TEST_F(ClientTest, UnavailableFromAServiceThatIsThereIsItsOwn) {
  service_.generate = [](auto*, const auto&, Writer*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "worker w1 was lost");
  };
  EXPECT_EQ(Generate().status(), absl::UnavailableError("worker w1 was lost"));
}

TEST_F(ClientTest, NamesTheAddressWhenNobodyIsThere) {
  server_->Shutdown();
  const auto status = client_->GetStatus();
  EXPECT_EQ(status.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.status().message(), address_)) << status.status();
}

TEST_F(ClientTest, RefusesStreamsThatBreakThePromise) {
  service_.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Message(0, "a"));
    writer->Write(Message(0, "a"));  // twice
    return grpc::Status::OK;
  };
  EXPECT_EQ(Generate().status().code(), absl::StatusCode::kInternal);
  service_.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Message(0, "a"));
    writer->Write(Message(2, "c"));  // a gap
    return grpc::Status::OK;
  };
  EXPECT_EQ(Generate().status().code(), absl::StatusCode::kInternal);
  service_.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Message(0, "a"));
    return grpc::Status::OK;  // without finish
  };
  EXPECT_EQ(Generate().status().code(), absl::StatusCode::kInternal);
  service_.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Message(0, "a", true));
    writer->Write(Message(1, "b"));  // after finish
    return grpc::Status::OK;
  };
  EXPECT_EQ(Generate().status().code(), absl::StatusCode::kInternal);
}

TEST_F(ClientTest, CancelEndsARunningCallAndThoseAfterIt) {
  std::atomic<bool> ended{false};
  service_.generate = [&](grpc::ServerContext* context, const auto&, Writer* writer) {
    const grpc::Status status = WriteForever(context, writer);
    ended = true;
    return status;
  };
  CancelToken cancel;
  std::thread canceller;
  on_message_ = [&] {
    if (!canceller.joinable()) canceller = std::thread([&] { cancel.Cancel(); });
    return absl::OkStatus();
  };
  EXPECT_EQ(Generate({.cancel = &cancel}).status().code(), absl::StatusCode::kCancelled);
  canceller.join();
  EXPECT_EQ(client_->GetStatus({.cancel = &cancel}).status().code(), absl::StatusCode::kCancelled);
  server_->Shutdown();
  EXPECT_TRUE(ended);
}

TEST_F(ClientTest, AnErrorOfTheCallbackEndsTheCall) {
  service_.generate = [](grpc::ServerContext* context, const auto&, Writer* writer) {
    return WriteForever(context, writer);
  };
  on_message_ = [] { return absl::CancelledError("nobody reads"); };
  EXPECT_EQ(Generate().status(), absl::CancelledError("nobody reads"));
}

TEST_F(ClientTest, DeadlineEndsTheCall) {
  service_.generate = [](grpc::ServerContext* context, const auto&, Writer* writer) {
    return WriteForever(context, writer);
  };
  const auto finish = Generate({.timeout = std::chrono::milliseconds(50)});
  EXPECT_EQ(finish.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(ClientAddress, RefusesWhatCannotBeOne) {
  for (const char* address : {"", "localhost", "host:", "a b:1", "host:1\n"}) {
    EXPECT_EQ(Client::Create({.address = address}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
  EXPECT_TRUE(Client::Create({.address = "unix:/run/tutti.sock"}).ok());
  EXPECT_TRUE(Client::Create({.address = "[::1]:50051"}).ok());
}

TEST(ClientTls, NamesWhatIsMissing) {
  EXPECT_EQ(Client::Create({.tls_certificate = "c.pem", .tls_key = "k.pem"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Client::Create({.tls_authority = "a.pem", .tls_key = "k.pem"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto missing = Client::Create({.tls_authority = "/nonexistent/ca.pem"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(missing.status().message(), "/nonexistent/ca.pem"));
}

}  // namespace
}  // namespace tutti
