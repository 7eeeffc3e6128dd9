// Peers below gRPC: bytes that are no HTTP/2, lengths that are lies; and a listener of garbage.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/grpc/grpc_stream.h"
#include "transport/grpc/hostile_peer_testing.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

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
                                                        {":path", "/tutti.peer.v1.Peer/Connect"},
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
