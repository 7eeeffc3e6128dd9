#include "base/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& address, AddressUse use = AddressUse::kDial) {
  const absl::Status status = CheckAddress(address, use);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
  return std::string(status.message());
}

TEST(CheckAddress, TakesHostsWithPortsAndSockets) {
  for (const char* address : {"localhost:50051", "127.0.0.1:1", "[::1]:65535", "host.example:80",
                              "unix:/tmp/a.sock", "unix:///tmp/a.sock", "unix:a.sock"}) {
    EXPECT_EQ(CheckAddress(address, AddressUse::kDial), absl::OkStatus()) << address;
    EXPECT_EQ(CheckAddress(address, AddressUse::kListen), absl::OkStatus()) << address;
  }
  for (const char* address : {"localhost:0", ":50051", ":0", "[::]:0"}) {
    EXPECT_EQ(CheckAddress(address, AddressUse::kListen), absl::OkStatus()) << address;
  }
}

TEST(CheckAddress, RefusesPortsThatThereAreNot) {
  EXPECT_EQ(Refusal("127.0.0.1:65536"),
            "\"127.0.0.1:65536\" has the port 65536, and ports end at 65535");
  EXPECT_THAT(Refusal("h:99999999999999999999"), HasSubstr("ports end at 65535"));
  EXPECT_THAT(Refusal("h:4294967376"), HasSubstr("ports end at 65535"));
  EXPECT_THAT(Refusal("h:http"), HasSubstr("the port \"http\", which is no number"));
  EXPECT_THAT(Refusal("h:-1"), HasSubstr("\"-1\", which is no number"));
  EXPECT_THAT(Refusal("h:+80"), HasSubstr("no number"));
  EXPECT_THAT(Refusal("h:0"), HasSubstr("port 0, at which nobody listens"));
  EXPECT_THAT(Refusal("h:70000", AddressUse::kListen), HasSubstr("ports end at 65535"));
}

TEST(CheckAddress, SaysWhatWasMeant) {
  EXPECT_EQ(Refusal("http://localhost:50051/v1"),
            "\"http://localhost:50051/v1\" begins with a scheme, and an address has none; write "
            "localhost:50051");
  EXPECT_THAT(Refusal("https://h"), HasSubstr("write h:50051; TLS is turned on by the options"));
  EXPECT_THAT(Refusal("grpc://h:1"), HasSubstr("write h:1"));
  EXPECT_THAT(Refusal("dns:///h:1"), HasSubstr("write h:1"));
  EXPECT_THAT(Refusal("http://"), HasSubstr("write HOST:PORT"));
  EXPECT_THAT(Refusal("ipv4:1.2.3.4:5"), HasSubstr("write 1.2.3.4:5"));
  EXPECT_THAT(Refusal("::1:50051"), HasSubstr("in brackets: [::1]:50051"));
  EXPECT_THAT(Refusal("localhost:1:2"), HasSubstr("more than one colon; write HOST:PORT"));
  EXPECT_THAT(Refusal("[::1:50051"), HasSubstr("has one bracket; write [ADDRESS]:PORT"));
  EXPECT_THAT(Refusal("localhost"), HasSubstr("write for example localhost:50051"));
  EXPECT_THAT(Refusal("localhost:"), HasSubstr("write for example localhost:50051"));
  EXPECT_THAT(Refusal("[::1]"), HasSubstr("write for example [::1]:50051"));
  EXPECT_THAT(Refusal("50051"), HasSubstr("write localhost:50051"));
  EXPECT_THAT(Refusal(":50051"), HasSubstr("write localhost:50051"));
  EXPECT_THAT(Refusal("/tmp/a.sock"), HasSubstr("write unix:/tmp/a.sock"));
  EXPECT_THAT(Refusal("unix:"), HasSubstr("names no socket"));
  EXPECT_THAT(Refusal("unix:/" + std::string(107, 'a')), HasSubstr("at most 107"));
  EXPECT_THAT(Refusal(""), HasSubstr("is empty"));
  EXPECT_THAT(Refusal("a b:1"), HasSubstr("has a space"));
  EXPECT_THAT(Refusal("h\xff:1"), HasSubstr("has a space or a character"));
  EXPECT_THAT(Refusal("h/x:1"), HasSubstr("neither HOST:PORT nor"));
  EXPECT_LT(Refusal(std::string(1 << 20, 'h')).size(), size_t{3} << 20);
}

TEST(AddressTest, UsualPorts) {
  EXPECT_EQ(WithUsualPort("node0", 50052), "node0:50052");
  EXPECT_EQ(WithUsualPort("10.0.0.7", 50052), "10.0.0.7:50052");
  EXPECT_EQ(WithUsualPort("[fd00::7]", 50052), "[fd00::7]:50052");
  for (const char* text :
       {"", "node0:1", "[fd00::7]:1", "unix:/run/x", "/run/x", "50052", "fd00::7"}) {
    EXPECT_EQ(WithUsualPort(text, 50052), text);
  }
}

}  // namespace
}  // namespace tutti
