#include "client/client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"
#include "client/endpoints.h"
#include "tutti/v1/cluster.grpc.pb.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::client {
namespace {

using Writer = grpc::ServerWriter<v1::GenerateResponse>;

// A service whose behaviour a test chooses.
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
  grpc::Status Detokenize(grpc::ServerContext*, const v1::DetokenizeRequest* request,
                          v1::DetokenizeResponse* response) override {
    for (const int32_t id : request->ids())
      response->mutable_text()->push_back(static_cast<char>(id));
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
    client_ = *Client::Create({.address = address_, .admin = address_});
  }

  absl::StatusOr<v1::Finish> Generate(const CallOptions& options = {}) {
    TUTTI_ASSIGN_OR_RETURN(auto finishes, GenerateAll({}, options));
    return finishes.front();
  }
  absl::StatusOr<std::vector<v1::Finish>> GenerateAll(const v1::GenerateRequest& request,
                                                      const CallOptions& options = {}) {
    return client_->Generate(request, options, [this](const v1::GenerateResponse& message) {
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

// Writes until the client leaves; the test waits for the call's end.
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
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "worker w1 was lost", "details");
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

TEST_F(ClientTest, OutputsAreToldApart) {
  service_.generate = [](auto*, const v1::GenerateRequest& request, Writer* writer) {
    for (const uint32_t output : {1u, 0u}) {
      v1::GenerateResponse message = Message(0, "x", /*finish=*/true);
      message.set_output(output);
      message.mutable_finish()->set_seed(output + request.n());
      writer->Write(message);
    }
    return grpc::Status::OK;
  };
  v1::GenerateRequest request;
  request.set_n(2);
  const auto finishes = GenerateAll(request);
  ASSERT_TRUE(finishes.ok()) << finishes.status();
  ASSERT_EQ(finishes->size(), 2u);
  EXPECT_EQ(finishes->at(0).seed(), 2u);
  EXPECT_EQ(finishes->at(1).seed(), 3u);
  // An output too many, and one that never ends.
  EXPECT_EQ(Generate().status().code(), absl::StatusCode::kInternal);
  request.set_n(3);
  EXPECT_EQ(GenerateAll(request).status().code(), absl::StatusCode::kInternal);
}

TEST_F(ClientTest, ARefusalSaysWhenToComeAgain) {
  std::string delay = "1500";
  service_.generate = [&](grpc::ServerContext* context, const auto&, Writer*) {
    context->AddTrailingMetadata("retry-after-ms", delay);
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  };
  EXPECT_EQ(RetryDelayOf(Generate().status()), std::chrono::milliseconds(1500));
  for (const char* nonsense : {"soon", "-1", "99999999999999"}) {
    delay = nonsense;
    EXPECT_FALSE(RetryDelayOf(Generate().status()).has_value()) << nonsense;
  }
}

// gRPC sends a request again by itself where its channel's configuration says so. It keeps what it
// sent until then, of large requests nothing.
TEST_F(ClientTest, ALongPromptIsSentAgainToo) {
  std::atomic<int> tries = 0;
  service_.generate = [&](auto*, const v1::GenerateRequest& request, Writer* writer) {
    if (++tries == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not yet");
    writer->Write(Message(0, absl::StrCat(request.text().size()), true));
    return grpc::Status::OK;
  };
  const auto ask = [&](size_t bytes, grpc::ChannelArguments arguments) {
    tries = 0;
    arguments.SetServiceConfigJSON(
        R"({"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2,
            "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1,
            "retryableStatusCodes": ["UNAVAILABLE"]}}]})");
    const auto stub = v1::Inference::NewStub(
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments));
    v1::GenerateRequest request;
    request.set_text(std::string(bytes, 'x'));
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().ok(), response.text() == absl::StrCat(bytes));
    return tries.load();
  };
  const size_t long_prompt = 400 << 10;
  EXPECT_EQ(ask(long_prompt, grpc::ChannelArguments()), 1) << "gRPC's own bound";
  EXPECT_EQ(ask(long_prompt, MakeChannelArguments(kKeepaliveTimeMs)), 2);
  EXPECT_EQ(ask(3 << 20, MakeChannelArguments(kKeepaliveTimeMs)), 2);
}

// Waits for the end of a call that runs by itself.
class Waiting : public GenerateObserver {
 public:
  void OnMessage(const v1::GenerateResponse& message) override {
    text_ += message.text();
    if (on_message) on_message();
  }
  void OnEnd(absl::Status status) override {
    end_.set_value(std::move(status));
    std::this_thread::sleep_for(linger);
  }
  absl::Status End() { return end_.get_future().get(); }
  const std::string& text() const { return text_; }

  std::function<void()> on_message;
  Duration linger{};  // how long OnEnd runs on after End has returned

 private:
  std::string text_;
  std::promise<absl::Status> end_;
};

TEST_F(ClientTest, CallsRunByThemselves) {
  service_.generate = [](auto*, const v1::GenerateRequest& request, Writer* writer) {
    writer->Write(Message(0, request.text()));
    writer->Write(Message(1, "!", true));
    return grpc::Status::OK;
  };
  std::vector<Waiting> observers(50);
  std::vector<std::unique_ptr<GenerateCall>> calls;
  for (size_t i = 0; i < observers.size(); ++i) {
    v1::GenerateRequest request;
    request.set_text(absl::StrCat(i));
    calls.push_back(client_->Start(std::move(request), std::nullopt, &observers[i]));
  }
  calls.resize(25);  // letting go of a call does not end it
  for (size_t i = 0; i < observers.size(); ++i) {
    EXPECT_EQ(observers[i].End(), absl::OkStatus());
    EXPECT_EQ(observers[i].text(), absl::StrCat(i, "!"));
  }
}

// The call's own thread is then the last to hold the connection.
TEST_F(ClientTest, AClientMayGoWhileTheEndOfACallIsBeingHeard) {
  service_.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Message(0, "", true));
    return grpc::Status::OK;
  };
  std::vector<Waiting> observers(20);
  for (Waiting& observer : observers) {
    observer.linger = std::chrono::milliseconds(5);
    const auto client = *Client::Create({.address = address_});
    const auto call = client->Start({}, std::nullopt, &observer);
    EXPECT_EQ(observer.End(), absl::OkStatus());
  }
  // The last of them still lingers.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

TEST_F(ClientTest, CallsThatRunByThemselvesEndEarlyToo) {
  service_.generate = [](grpc::ServerContext* context, const auto&, Writer* writer) {
    return WriteForever(context, writer);
  };
  Waiting cancelled, late;
  std::promise<void> begun;
  std::once_flag once;
  cancelled.on_message = [&] { std::call_once(once, [&] { begun.set_value(); }); };
  const auto call = client_->Start({}, std::nullopt, &cancelled);
  begun.get_future().wait();
  call->Cancel();
  EXPECT_EQ(cancelled.End().code(), absl::StatusCode::kCancelled);
  call->Cancel();
  const auto other = client_->Start({}, std::chrono::milliseconds(50), &late);
  EXPECT_EQ(late.End().code(), absl::StatusCode::kDeadlineExceeded);
  service_.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Message(1, "gap", true));
    return grpc::Status::OK;
  };
  Waiting broken;
  const auto third = client_->Start({}, std::nullopt, &broken);
  EXPECT_EQ(broken.End().code(), absl::StatusCode::kInternal);
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
}  // namespace tutti::client
