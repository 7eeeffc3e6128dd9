#include "worker/links/announcer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tutti::worker {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

Announcer Make(const std::string& advertise, const std::string& listen) {
  return Announcer::Create(advertise, listen).value();
}

// Asks until the name is resolved.
absl::StatusOr<std::string> Await(Announcer* announcer, const std::string& coordinator) {
  while (true) {
    const auto address = announcer->AddressFor(coordinator);
    if (!absl::IsAborted(address.status())) return address;
    std::this_thread::yield();
  }
}

TEST(Announcer, TheOperatorsWordIsTheLast) {
  EXPECT_EQ(*Make("w0.workers.svc:7000", ":50060").AddressFor("node0:50052"),
            "w0.workers.svc:7000");
  EXPECT_EQ(*Make("node1", ":50060").AddressFor("node0:50052"), "node1:50060");
  EXPECT_EQ(*Make("10.0.0.7", "0.0.0.0:50060").AddressFor("node0:50052"), "10.0.0.7:50060");
  EXPECT_EQ(*Make("[fd00::7]", "[::]:50060").AddressFor("node0:50052"), "[fd00::7]:50060");
  for (const char* wrong : {"0.0.0.0", "unix:/run/x", "a b", "node1:0", "fd00::7", "127.1"}) {
    EXPECT_EQ(Announcer::Create(wrong, ":50060").status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_THAT(Announcer::Create("node1", "unix:/run/x").status().ToString(), HasSubstr("no port"));
}

TEST(Announcer, AnAddressThatItListensAtIsItsOwn) {
  EXPECT_EQ(*Make("", "10.0.0.7:50060").AddressFor("node0:50052"), "10.0.0.7:50060");
  EXPECT_EQ(*Make("", "[fd00::7]:50060").AddressFor("node0:50052"), "[fd00::7]:50060");
  EXPECT_EQ(*Make("", "unix:/run/x").AddressFor("node0:50052"), "") << "a socket is no address";
  EXPECT_EQ(*Announcer().AddressFor("node0:50052"), "");
}

TEST(Announcer, AnAddressOfOneInterfaceMeansNothingElsewhere) {
  for (const char* listen : {"[fe80::1%eth0]:50060", "[fe80::1]:50060", "[febf::1]:50060"}) {
    EXPECT_EQ(*Make("", listen).AddressFor("node0:50052"), "") << listen;
    EXPECT_EQ(*Make("", listen).AddressFor("127.0.0.1:50052"), "") << "it does not listen there";
    EXPECT_EQ(*Make("node1", listen).AddressFor("node0:50052"), "node1:50060");
  }
  const absl::Status said = Announcer::Create("[fe80::1]:50060", ":50060").status();
  EXPECT_EQ(said.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(said.message()), HasSubstr("single interface"));
}

TEST(Announcer, OtherwiseItIsTheWayToTheCoordinator) {
  Announcer everywhere = Make("", ":50060");
  EXPECT_EQ(*everywhere.AddressFor("127.0.0.1:50052"), "127.0.0.1:50060");
  EXPECT_EQ(*everywhere.AddressFor("unix:/run/coordinator.sock"), "");
  // A name takes a thread.
  EXPECT_TRUE(absl::IsAborted(everywhere.AddressFor("localhost:50052").status()));
  EXPECT_THAT(*Await(&everywhere, "localhost:50052"), AnyOf("127.0.0.1:50060", "[::1]:50060"));
  EXPECT_TRUE(everywhere.AddressFor("localhost:50052").ok()) << "known from then on";
  everywhere.Forget();
  EXPECT_TRUE(absl::IsAborted(everywhere.AddressFor("localhost:50052").status()));
  (void)Await(&everywhere, "localhost:50052");
}

TEST(Announcer, ANameThatNobodyHasIsAskedForAgain) {
  Announcer everywhere = Make("", ":50060");
  for (int i = 0; i < 2; ++i) {
    const absl::Status why = Await(&everywhere, "nobody.invalid:50052").status();
    EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(why.ToString(), HasSubstr("nobody.invalid has no address"));
  }
}

}  // namespace
}  // namespace tutti::worker
