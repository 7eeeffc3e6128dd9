#include "client/endpoints.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"

namespace tutti::client {
namespace {

// HTTP/2's frames, of which a service that says nothing answers two.
constexpr uint8_t kSettings = 4, kPing = 6, kAck = 1;
constexpr size_t kPrefaceBytes = 24, kHeaderBytes = 9;

// Takes one connection and calls on it, acknowledges pings and settings, and is silent otherwise.
class SilentService {
 public:
  SilentService() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    socklen_t size = sizeof(at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    address_ = absl::StrCat("127.0.0.1:", ntohs(at.sin_port));
  }
  ~SilentService() { close(listener_); }

  const std::string& address() const { return address_; }

  // Serves until so many pings have come, or the client closes. How many came.
  int ServePings(int wanted) {
    const int fd = accept(listener_, nullptr, nullptr);
    std::array<char, 1 << 16> bytes;
    Write(fd, kSettings, 0, "");
    int pings = 0;
    bool more = Read(fd, bytes.data(), kPrefaceBytes);
    while (more && pings < wanted && Read(fd, bytes.data(), kHeaderBytes)) {
      const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
      const size_t size = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
      const uint8_t type = byte(3), flags = byte(4);
      if (size > bytes.size()) break;
      more = Read(fd, bytes.data(), size);
      if (flags == kAck) continue;
      if (type == kSettings) Write(fd, kSettings, kAck, "");
      if (type == kPing) Write(fd, kPing, kAck, {bytes.data(), size});
      pings += type == kPing ? 1 : 0;
    }
    close(fd);
    return pings;
  }

 private:
  static bool Read(int fd, char* to, size_t size) {
    return size == 0 || recv(fd, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }
  static void Write(int fd, uint8_t type, uint8_t flags, std::string_view payload) {
    std::string frame(kHeaderBytes, '\0');
    frame[2] = static_cast<char>(payload.size());
    frame[3] = static_cast<char>(type);
    frame[4] = static_cast<char>(flags);
    frame += payload;
    (void)!send(fd, frame.data(), frame.size(), MSG_NOSIGNAL);
  }

  const int listener_;
  std::string address_;
};

// Without data to send gRPC would ping twice, and a machine that vanishes after that would leave a
// stream waiting for ever.
TEST(EndpointsTest, AStreamThatOnlyListensIsPingedForAsLongAsItWaits) {
  constexpr int kPings = 4;
  // The shortest that gRPC keeps to. The deadline ends a test that fails.
  constexpr int kPingAfterMs = 1000;
  constexpr std::chrono::seconds kPatience{30};
  SilentService service;
  int pings = 0;
  std::thread serving([&] { pings = service.ServePings(kPings); });
  const auto stub = v1::Inference::NewStub(grpc::CreateCustomChannel(
      service.address(), grpc::InsecureChannelCredentials(), MakeChannelArguments(kPingAfterMs)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto stream = stub->Generate(&context, v1::GenerateRequest());
  v1::GenerateResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  serving.join();
  EXPECT_EQ(pings, kPings);
}

}  // namespace
}  // namespace tutti::client
