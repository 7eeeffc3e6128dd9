// Answers that break off under the client library, over real connections to services that a test
// breaks.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/client.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::client {
namespace {

constexpr uint32_t kTokens = 20;

// Says 100, 101, … from where the client is, and after `breaks_after` tokens of a call what a test
// wants.
class CountingService : public v1::Inference::Service {
 public:
  std::atomic<uint32_t> breaks_after{kTokens};
  grpc::Status break_with{grpc::StatusCode::UNAVAILABLE, "the worker went"};
  std::atomic<int> calls{0};
  std::atomic<int> silent_calls{0};  // the next ones end so before they have said anything

  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    ++calls;
    if (silent_calls > 0) {
      --silent_calls;
      return break_with;
    }
    uint32_t at = 0;
    if (request->has_resume()) {
      if (request->resume().token() != "token") {
        return {grpc::StatusCode::INVALID_ARGUMENT, "foreign token"};
      }
      at = static_cast<uint32_t>(request->resume().outputs(0).ids_size());
    }
    const uint32_t end = at + breaks_after;
    v1::GenerateResponse message;
    message.mutable_started()->set_resume_token("token");
    for (; at < kTokens; ++at) {
      if (at == end) return break_with;
      message.set_index(at);
      message.add_tokens()->set_id(static_cast<int32_t>(100 + at));
      if (!writer->Write(message)) return grpc::Status::CANCELLED;
      message.Clear();
    }
    message.set_index(kTokens);
    message.mutable_finish()->set_seed(9);
    writer->Write(message);
    return grpc::Status::OK;
  }
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    response->set_name("counting");
    response->set_numerics_class(numerics_class);
    return grpc::Status::OK;
  }
  std::string numerics_class;  // set before the service is asked
};

struct Service {
  Service() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&counting);
    server = builder.BuildAndStart();
    address = absl::StrCat("127.0.0.1:", port);
  }
  CountingService counting;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

// A port that takes connections and never answers.
struct Silent {
  Silent() : fd(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(any);
    auto* const name = reinterpret_cast<sockaddr*>(&any);
    CHECK(bind(fd, name, size) == 0 && listen(fd, 8) == 0 && getsockname(fd, name, &size) == 0);
    address = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
  }
  ~Silent() { close(fd); }
  const int fd;
  std::string address;
};

class Collecting : public GenerateObserver {
 public:
  void OnMessage(const v1::GenerateResponse& message) override {
    for (const auto& token : message.tokens()) ids.push_back(token.id());
    started += message.has_started();
  }
  void OnEnd(absl::Status status) override { ended.set_value(std::move(status)); }

  std::vector<int32_t> ids;
  int started = 0;
  std::promise<absl::Status> ended;
};

class ResumingClientTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Client> Connect(const std::string& addresses,
                                         Duration within = kResumeWithin) {
    auto client = Client::Create({.address = addresses, .resume_within = within});
    CHECK(client.ok()) << client.status();
    return *std::move(client);
  }
  // The answer to calls of both kinds.
  static absl::Status Generate(Client* client, Collecting* heard, bool blocking) {
    if (!blocking) {
      const auto call = client->Start({}, std::nullopt, heard);
      return heard->ended.get_future().get();
    }
    return client
        ->Generate({}, {},
                   [heard](const v1::GenerateResponse& message) {
                     heard->OnMessage(message);
                     return absl::OkStatus();
                   })
        .status();
  }
  static std::vector<int32_t> All() {
    std::vector<int32_t> all;
    for (uint32_t i = 0; i < kTokens; ++i) all.push_back(static_cast<int32_t>(100 + i));
    return all;
  }
};

TEST_F(ResumingClientTest, GoesOnAfterEveryBreak) {
  Service service;
  for (const bool blocking : {true, false}) {
    for (const uint32_t after : {1u, 7u, kTokens - 1}) {
      service.counting.breaks_after = after;
      service.counting.calls = 0;
      const auto client = Connect(service.address);
      Collecting heard;
      const absl::Status end = Generate(client.get(), &heard, blocking);
      EXPECT_TRUE(end.ok()) << end;
      EXPECT_EQ(heard.ids, All());
      EXPECT_EQ(heard.started, 1);
      EXPECT_EQ(service.counting.calls, static_cast<int>((kTokens + after - 1) / after));
    }
  }
}

TEST_F(ResumingClientTest, SwitchedOffItEndsWithTheBreak) {
  Service service;
  service.counting.breaks_after = 7;
  for (const bool blocking : {true, false}) {
    const auto client = Connect(service.address, Duration::zero());
    Collecting heard;
    EXPECT_EQ(Generate(client.get(), &heard, blocking).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(heard.ids.size(), 7u);
  }
}

// gRPC makes up a status where a connection takes a stream with it. Nobody said that the request
// was at fault, also where nothing had been heard yet.
TEST_F(ResumingClientTest, AStatusThatGrpcMadeUpIsABrokenConnection) {
  const grpc::Status made_up[] = {
      {grpc::StatusCode::UNAVAILABLE, "Socket closed"},  // and is open again by then
      {grpc::StatusCode::UNKNOWN, "Stream removed"},
      {grpc::StatusCode::INTERNAL, "Received RST_STREAM with error code 2"}};
  for (const grpc::Status& status : made_up) {
    for (const bool blocking : {true, false}) {
      Service service;
      service.counting.break_with = status;
      service.counting.silent_calls = 1;
      Collecting heard;
      const auto client = Connect(service.address);
      const absl::Status end = Generate(client.get(), &heard, blocking);
      EXPECT_TRUE(end.ok()) << end;
      EXPECT_EQ(heard.ids, All());
      EXPECT_EQ(service.counting.calls, 2);
      service.counting.silent_calls = 1;
      Collecting once;
      const auto strict = Connect(service.address, Duration::zero());
      EXPECT_EQ(Generate(strict.get(), &once, blocking).code(), absl::StatusCode::kUnavailable);
    }
  }
  Service service;
  service.counting.break_with = {grpc::StatusCode::UNKNOWN, "an exception of the service's"};
  service.counting.silent_calls = 1;
  Collecting heard;
  const auto client = Connect(service.address);
  EXPECT_EQ(Generate(client.get(), &heard, true).code(), absl::StatusCode::kUnknown);
  service.counting.break_with = {grpc::StatusCode::UNAVAILABLE, "no pipeline", "of the service"};
  service.counting.silent_calls = 1;
  Collecting told;
  EXPECT_EQ(Generate(client.get(), &told, true).code(), absl::StatusCode::kUnavailable);
}

// A service would cut the connection that the answers of others come over.
TEST_F(ResumingClientTest, ATooLargeRequestNeverLeaves) {
  Service service;
  v1::GenerateRequest large;
  large.set_text(std::string(15'000'000, 'x'));
  const auto client = Connect(service.address);
  Collecting heard;
  const auto call = client->Start(large, std::nullopt, &heard);
  const auto nothing = [](const v1::GenerateResponse&) { return absl::OkStatus(); };
  v1::TokenizeRequest text;
  text.set_text(large.text());
  for (const absl::Status& end :
       {heard.ended.get_future().get(), client->Generate(large, {}, nothing).status(),
        client->Tokenize(text).status()}) {
    EXPECT_EQ(end.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(end.message()),
                ::testing::AllOf(::testing::HasSubstr("150000"), ::testing::HasSubstr("8388608")));
  }
  EXPECT_EQ(service.counting.calls, 0);
}

TEST_F(ResumingClientTest, FaultsOfTheRequestEndIt) {
  Service service;
  service.counting.breaks_after = 7;
  service.counting.break_with = {grpc::StatusCode::FAILED_PRECONDITION, "another class"};
  for (const bool blocking : {true, false}) {
    service.counting.calls = 0;
    const auto client = Connect(service.address);
    Collecting heard;
    EXPECT_EQ(Generate(client.get(), &heard, blocking).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(service.counting.calls, 1);
  }
}

TEST_F(ResumingClientTest, GoesOnAtAnotherAddress) {
  for (const bool blocking : {true, false}) {
    Service first;
    Service second;
    first.counting.breaks_after = 5;
    const auto client = Connect(absl::StrCat(first.address, ",", second.address));
    Collecting heard;
    EXPECT_TRUE(Generate(client.get(), &heard, blocking).ok());
    EXPECT_EQ(heard.ids, All());
    EXPECT_EQ(first.counting.calls, 1);
    EXPECT_EQ(second.counting.calls, 1);
    // One that is dead from the beginning is passed over, too.
    const auto other = Connect(absl::StrCat("127.0.0.1:1,", second.address));
    Collecting again;
    EXPECT_TRUE(Generate(other.get(), &again, blocking).ok());
    EXPECT_EQ(again.ids, All());
  }
}

TEST_F(ResumingClientTest, NobodyThereIsToldAtOnce) {
  const auto client = Connect("127.0.0.1:1,127.0.0.1:2");
  for (const bool blocking : {true, false}) {
    Collecting heard;
    EXPECT_EQ(Generate(client.get(), &heard, blocking).code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(ResumingClientTest, CancellingEndsThePause) {
  Service service;
  service.counting.breaks_after = 1;
  const auto client = Connect(service.address);
  {
    CancelToken cancel;
    int messages = 0;
    const auto ended = client->Generate({}, {.cancel = &cancel}, [&](const v1::GenerateResponse&) {
      if (++messages == 3) cancel.Cancel();
      return absl::OkStatus();
    });
    EXPECT_EQ(ended.status().code(), absl::StatusCode::kCancelled) << ended.status();
    EXPECT_LT(messages, static_cast<int>(kTokens));
  }
  Collecting heard;
  service.counting.breaks_after = 0;  // nothing but breaks
  const auto call = client->Start({}, std::nullopt, &heard);
  call->Cancel();
  EXPECT_FALSE(heard.ended.get_future().get().ok());
}

TEST_F(ResumingClientTest, ADeadlineIsThatOfAllStreams) {
  Service service;
  service.counting.breaks_after = 1;
  const auto client = Connect(service.address);
  service.server->Shutdown();
  const auto ended = client->Generate({}, {.timeout = std::chrono::milliseconds(50)},
                                      [](const v1::GenerateResponse&) { return absl::OkStatus(); });
  EXPECT_FALSE(ended.ok());
}

// An error that gRPC tells before the service's own code runs has no details, so the client says
// what to do.
TEST(ClientCalls, ErrorsOfGrpcItselfSayWhatToDo) {
  Service service;  // without Detokenize
  grpc::ServerBuilder builder;
  int port = 0;
  CountingService small;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&small).SetMaxReceiveMessageSize(1000);
  const auto server = builder.BuildAndStart();
  const auto client = Client::Create({.address = service.address});
  const auto of_small = Client::Create({.address = absl::StrCat("127.0.0.1:", port)});
  ASSERT_TRUE(client.ok() && of_small.ok());
  const absl::Status unknown = (*client)->Detokenize({}, {}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(unknown.message()), ::testing::HasSubstr("as new as this client"));
  v1::TokenizeRequest large;
  large.set_text(std::string(2000, 'x'));
  const absl::Status refused = (*of_small)->Tokenize(large, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::AllOf(::testing::HasSubstr("larger than max (2"),
                               ::testing::HasSubstr("less at once")));
}

TEST(ClientCalls, AskTheNextAddressWhereTheFirstIsDead) {
  Service service;
  const auto client = Client::Create({.address = absl::StrCat("127.0.0.1:1,", service.address)});
  ASSERT_TRUE(client.ok());
  for (int i = 0; i < 2; ++i) {
    const auto model = (*client)->GetModel();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->name(), "counting");
  }
  const auto nobody = Client::Create({.address = "127.0.0.1:1,127.0.0.1:2"});
  ASSERT_TRUE(nobody.ok());
  EXPECT_TRUE(absl::IsUnavailable((*nobody)->GetModel().status()));
}

TEST(ClientCalls, AskTheNextAddressForItsModelWhereTheFirstLoads) {
  Service loads, serves;
  const Silent silent;
  serves.counting.numerics_class = "cpu-f32";
  const std::string both = absl::StrCat(loads.address, ",", serves.address);
  const auto client = Client::Create({.address = both});
  ASSERT_TRUE(client.ok());
  for (int i = 0; i < 2; ++i) EXPECT_EQ((*client)->GetModel()->numerics_class(), "cpu-f32");
  // A service's error beside a dead one is better than nothing; and so is one that gives no
  // answer in time, which is no reason to forget the one that did.
  for (const std::string& dead : {std::string("127.0.0.1:1"), silent.address}) {
    const auto none = Client::Create({.address = absl::StrCat(loads.address, ",", dead)});
    ASSERT_TRUE(none.ok());
    for (int i = 0; i < 3; ++i) {
      const auto model = (*none)->GetModel({.timeout = std::chrono::milliseconds(300)});
      ASSERT_TRUE(model.ok()) << dead << ": " << model.status();
      EXPECT_EQ(model->name(), "counting");
    }
  }
}

}  // namespace
}  // namespace tutti::client
