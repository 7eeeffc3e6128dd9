// Peers that do not keep to the protocol: each is answered with a status, and nobody else is
// disturbed.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <map>

#include "base/mutex.h"
#include "transport/grpc/close_frame.h"
#include "transport/grpc/frame_codec.h"
#include "transport/grpc/grpc_stream.h"
#include "transport/limits.h"
#include "transport/link_testing.h"

namespace tutti::transport {
namespace {

using std::chrono::steady_clock;
using ::testing::HasSubstr;

grpc::ByteBuffer Bytes(const std::string& bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

// A client that sends what it likes, one blocking operation at a time.
class RawClient {
 public:
  explicit RawClient(const std::string& target,
                     const std::string& method = "/tutti.v1.Peer/Connect",
                     grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
    context_.set_compression_algorithm(compression);
    stream_ = grpc::GenericStub(channel_).PrepareCall(&context_, method, &queue_);
    stream_->StartCall(this);
    EXPECT_TRUE(Next());
  }
  ~RawClient() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool Write(const grpc::ByteBuffer& bytes) {
    stream_->Write(bytes, this);
    return Next();
  }
  bool WritesDone() {
    stream_->WritesDone(this);
    return Next();
  }
  bool Read(grpc::ByteBuffer* bytes) {
    stream_->Read(bytes, this);
    return Next();
  }
  grpc::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, this);
    EXPECT_TRUE(Next());
    return status;
  }
  void Cancel() { context_.TryCancel(); }

 private:
  bool Next() {
    void* tag;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + kPatience;
    EXPECT_EQ(queue_.AsyncNext(&tag, &ok, deadline), grpc::CompletionQueue::GOT_EVENT);
    return ok;
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// A listener with one well-behaved link, and what the others that come are told.
class HostilePeerTest : public testing::Test {
 protected:
  HostilePeerTest() {
    auto server = GrpcPeerServer::Start({"127.0.0.1:0", {}}, [this](std::unique_ptr<Link> link) {
      const MutexLock lock(&mutex_);
      const bool is_first = good_link_ == nullptr;
      (is_first ? good_link_ : bad_link_) = std::move(link);
      changed_.NotifyAll();
      return (is_first ? good_ : bad_).MakeHandler();
    });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    dialer_ = *GrpcDialer::Create();
    link_ = dialer_->Dial(server_->address(), good_dialed_.MakeHandler());
    EXPECT_TRUE(link_->Send(NumberedFrame(0)).ok());
    EXPECT_TRUE(good_.WaitForFrames(1));
  }

  ~HostilePeerTest() override {
    // The link that did nothing wrong still works, both ways.
    EXPECT_TRUE(link_->Send(NumberedFrame(1), OwnedPayload(100000)).ok());
    EXPECT_TRUE(good_.WaitForFrames(2));
    {
      const MutexLock lock(&mutex_);
      EXPECT_TRUE(good_link_->Send(NumberedFrame(1)).ok());
    }
    EXPECT_TRUE(good_dialed_.WaitForFrames(1));
    link_.reset();
    server_.reset();
    dialer_.reset();
    EXPECT_EQ(bad_.violations + good_.violations + good_dialed_.violations, 0);
  }

  Link* WaitForBadLink() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (bad_link_ == nullptr && changed_.WaitUntil(&mutex_, deadline)) continue;
    EXPECT_NE(bad_link_, nullptr);
    return bad_link_.get();
  }

  Inbox good_, good_dialed_, bad_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::unique_ptr<Link> good_link_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Link> bad_link_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<GrpcPeerServer> server_;
  std::unique_ptr<GrpcDialer> dialer_;
  std::unique_ptr<Link> link_;
};

TEST_F(HostilePeerTest, BytesThatAreNoFrame) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(Bytes("\xde\xad\xbe\xef and so on")));
  const grpc::Status status = client.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("malformed"));
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bad_.frame_count(), 0u);
}

TEST_F(HostilePeerTest, PayloadThatIsNotLast) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(EncodeFrame(NumberedFrame(1), {})));
  ASSERT_TRUE(client.Write(Bytes(std::string("\x7a\x02hi\x08\x05", 6))));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.frame_count(), 1u);
}

TEST_F(HostilePeerTest, MessageBeyondTheLimit) {
  RawClient client(server_->address());
  (void)client.Write(Bytes(std::string(static_cast<size_t>(kFrameBytesMax) + 1, '\x08')));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_FALSE(bad_.closed().ok());
}

// A kilobyte that would become a megabyte is not even unpacked.
TEST_F(HostilePeerTest, CompressedMessage) {
  v1::Frame frame;
  frame.mutable_hello()->set_cluster_id(std::string(1 << 20, 'x'));
  RawClient client(server_->address(), "/tutti.v1.Peer/Connect", GRPC_COMPRESS_GZIP);
  (void)client.Write(Bytes(frame.SerializeAsString()));
  EXPECT_FALSE(client.Finish().ok());
  EXPECT_EQ(bad_.frame_count(), 0u);
}

TEST_F(HostilePeerTest, StreamThatEndsWithoutAReason) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(EncodeFrame(NumberedFrame(1), {})));
  ASSERT_TRUE(client.WritesDone());
  EXPECT_TRUE(client.Finish().ok());
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(bad_.frame_count(), 1u);
}

TEST_F(HostilePeerTest, StreamThatIsCancelled) {
  RawClient client(server_->address());
  WaitForBadLink();
  client.Cancel();
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(HostilePeerTest, FramesAfterTheReasonAreIgnored) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(EncodeCloseFrame(absl::AbortedError("bye"))));
  (void)client.Write(EncodeFrame(NumberedFrame(1), {}));
  EXPECT_TRUE(client.Finish().ok());
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed(), absl::AbortedError("bye"));
  EXPECT_EQ(bad_.frame_count(), 0u);
}

TEST_F(HostilePeerTest, AReasonWithACodeNobodyKnows) {
  RawClient client(server_->address());
  ASSERT_TRUE(client.Write(Bytes(std::string("\x6a\x00\x7a\x03\xc8hm", 7))));
  EXPECT_TRUE(client.Finish().ok());
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed(), absl::UnknownError("hm"));
}

TEST_F(HostilePeerTest, MethodThatDoesNotExist) {
  RawClient client(server_->address(), "/tutti.v1.Peer/Shutdown");
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// Whatever else the process serves elsewhere, a peer's port serves peers only.
TEST(PeerPortTest, ServesNothingElse) {
  grpc::EnableDefaultHealthCheckService(true);
  auto server = GrpcPeerServer::Start({"127.0.0.1:0", {}}, nullptr);
  grpc::EnableDefaultHealthCheckService(false);
  ASSERT_TRUE(server.ok()) << server.status();
  RawClient client((*server)->address(), "/grpc.health.v1.Health/Watch");
  (void)client.Write(Bytes(""));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// What waits for a peer that never reads is bounded, and stopping does not wait for it.
TEST_F(HostilePeerTest, PeerThatNeverReads) {
  RawClient client(server_->address());
  Link* link = WaitForBadLink();
  const Payload payload = OwnedPayload(kPayloadChunkBytes);
  absl::Status status;
  int sent = 0;
  for (; status.ok() && sent < 1000; ++sent) status = link->Send(NumberedFrame(1), payload);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(sent, 400);
  // Its own end is told, though the peer cannot be.
  link->Close(absl::ResourceExhaustedError("does not read"));
  const auto begin = steady_clock::now();
  ASSERT_TRUE(bad_.WaitForClosed());
  EXPECT_EQ(bad_.closed(), absl::ResourceExhaustedError("does not read"));
  EXPECT_LT(steady_clock::now() - begin, kCloseTimeout + std::chrono::seconds(3));
}

// Not a HostilePeerTest: stopping ends the good link too.
TEST(HostilePeerStopTest, StoppingDoesNotWaitForAPeerThatNeverReads) {
  Inbox inbox;
  std::promise<std::unique_ptr<Link>> accepted;
  auto server = GrpcPeerServer::Start({"127.0.0.1:0", {}}, [&](std::unique_ptr<Link> link) {
    accepted.set_value(std::move(link));
    return inbox.MakeHandler();
  });
  ASSERT_TRUE(server.ok());
  RawClient client((*server)->address());
  const auto link = accepted.get_future().get();
  const Payload payload = OwnedPayload(kPayloadChunkBytes);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(link->Send(NumberedFrame(1), payload).ok());
  const auto begin = steady_clock::now();
  (*server)->Stop();
  EXPECT_LT(steady_clock::now() - begin, kStopTimeout + std::chrono::seconds(3));
  EXPECT_TRUE(inbox.is_closed());
}

int ConnectTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

TEST_F(HostilePeerTest, BytesThatAreNoHttp) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::string noise(100000, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 31 + 7);
  for (const std::string& bytes :
       {noise, preface + noise, std::string("GET / HTTP/1.1\r\n\r\n"), std::string(),
        preface + std::string(100000, '\0'),
        preface + std::string("\xff\xff\xff\x00\x00\x00\x00\x00\x01", 9)}) {
    const int fd = ConnectTcp(server_->address());
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
  }
  EXPECT_FALSE(bad_.is_closed());
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Sends DATA frames of stream 1 as the receiver's windows allow, until `limit` or until it allows
// no more for a while. Returns the bytes sent.
int64_t SendWithinWindows(int fd, int64_t limit) {
  const std::string data =
      std::string("\x00\x40\x00\x00\x00\x00\x00\x00\x01", 9) + std::string(16384, 'x');
  timeval patience{0, 500000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::map<uint32_t, int64_t> window = {{0, 65535}, {1, 65535}};
  int64_t sent = 0;
  std::string received;
  while (sent < limit) {
    if (std::min(window[0], window[1]) >= 16384) {
      if (send(fd, data.data(), data.size(), MSG_NOSIGNAL) <= 0) break;
      sent += 16384;
      for (auto& [stream, left] : window) left -= 16384;
      continue;
    }
    char buffer[65536];
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count <= 0) break;
    received.append(buffer, static_cast<size_t>(count));
    const auto number = [&](size_t at, size_t bytes) {
      uint32_t value = 0;
      for (size_t i = 0; i < bytes; ++i)
        value = value << 8 | static_cast<uint8_t>(received[at + i]);
      return value;
    };
    while (received.size() >= 9 && received.size() >= 9 + number(0, 3)) {
      const uint32_t size = number(0, 3), kind = number(3, 1);
      if (kind == 8) window[number(5, 4)] += number(9, 4);
      for (size_t at = 9; kind == 4 && at + 6 <= 9 + size; at += 6) {
        if (number(at, 2) == 4) window[1] += static_cast<int64_t>(number(at + 2, 4)) - 65535;
      }
      received.erase(0, 9 + size);
    }
  }
  return sent;
}

// The length of a message comes before the message: what it announces must not be taken at its
// word.
TEST_F(HostilePeerTest, AMessageAnnouncedAsFourGigabytes) {
  const int fd = ConnectTcp(server_->address());
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes += std::string("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 9);  // SETTINGS
  // HEADERS of stream 1, literal fields without indexing.
  std::string headers;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{":method", "POST"},
                                                        {":scheme", "http"},
                                                        {":path", "/tutti.v1.Peer/Connect"},
                                                        {":authority", "x"},
                                                        {"te", "trailers"},
                                                        {"content-type", "application/grpc"}}) {
    headers += std::string(1, '\0') + static_cast<char>(name.size()) + name +
               static_cast<char>(value.size()) + value;
  }
  bytes += std::string("\x00\x00", 2) + static_cast<char>(headers.size()) +
           std::string("\x01\x04\x00\x00\x00\x01", 6) + headers;
  // DATA: the first bytes of a message of 2^32 - 1, then as much of it as the windows let through.
  bytes += std::string("\x00\x00\x05\x00\x00\x00\x00\x00\x01\x00\xff\xff\xff\xff", 14);
  ASSERT_GT(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  WaitForBadLink();
  const int64_t before = ResidentBytes();
  const int64_t sent = SendWithinWindows(fd, int64_t{512} << 20);
  EXPECT_LT(ResidentBytes() - before, int64_t{64} << 20) << "after " << sent << " bytes";
  close(fd);
}

// A listener that breaks the protocol: the dialer does not trust what it reads either.
class GarbageService final : public v1::Peer::WithRawCallbackMethod_Connect<v1::Peer::Service> {
 public:
  std::promise<std::string> first_message;

 private:
  class Reactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Reactor(GarbageService* service) : service_(service), garbage_(Bytes("\xff\xff\xff")) {
      StartWrite(&garbage_);
      StartRead(&read_);
    }
    void OnReadDone(bool ok) override {
      std::vector<grpc::Slice> slices;
      std::string bytes;
      if (ok && read_.Dump(&slices).ok()) {
        for (const auto& slice : slices)
          bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      service_->first_message.set_value(bytes);
      Finish(grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    GarbageService* const service_;
    grpc::ByteBuffer garbage_, read_;
  };

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Connect(
      grpc::CallbackServerContext* context) override {
    return new Reactor(this);
  }
};

TEST(HostileListenerTest, BytesThatAreNoFrameEndTheLinkAndItIsToldWhy) {
  GarbageService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  Inbox inbox;
  auto dialer = *GrpcDialer::Create();
  auto link = dialer->Dial("127.0.0.1:" + std::to_string(port), inbox.MakeHandler());
  ASSERT_TRUE(inbox.WaitForClosed());
  EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kInvalidArgument);
  const std::string told = service.first_message.get_future().get();
  EXPECT_THAT(told, HasSubstr("malformed"));
  EXPECT_EQ(link->Send(NumberedFrame(1)).code(), absl::StatusCode::kUnavailable);
}

TEST(StreamRegistryTest, LetsInNoMoreThanTheLimitAndNobodyAfterStop) {
  auto registry = std::make_shared<StreamRegistry>();
  const auto stream = [&] {
    return std::make_shared<StreamState>(StreamState::Role::kListener, "peer", registry);
  };
  const auto first = stream(), second = stream();
  EXPECT_TRUE(registry->Add(first, 1).ok());
  EXPECT_EQ(registry->Add(second, 1).code(), absl::StatusCode::kResourceExhausted);
  registry->Remove(first.get());
  EXPECT_TRUE(registry->Add(second, 1).ok());
  registry->Remove(second.get());
  registry->Stop(absl::OkStatus(), std::chrono::milliseconds(0));
  EXPECT_EQ(registry->Add(first, 1).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tutti::transport
