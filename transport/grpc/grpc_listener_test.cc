// The port of a gRPC server under connections that it cannot all have, and its probe.
#include "transport/grpc/grpc_listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "transport/grpc/certificates_testing.h"
#include "transport/grpc/grpc_link.h"
#include "transport/link_testing.h"

namespace tutti::transport {
namespace {

using std::chrono::steady_clock;

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// In a process of its own: a peer's port that answers each frame with one, and 256 descriptors.
TEST(DISABLED_PortProcess, ListenWithFewDescriptors) {
  const char* file = std::getenv("TUTTI_TEST_ADDRESS_FILE");
  if (file == nullptr) GTEST_SKIP() << "only started by other tests";
  const rlimit few{.rlim_cur = 256, .rlim_max = 256};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Mutex mutex;
  std::vector<std::unique_ptr<Link>> links;
  Inbox inbox;
  inbox.on_frame = [&](v1::Frame, Payload) {
    const MutexLock lock(&mutex);
    for (const auto& link : links) (void)link->Send(NumberedFrame(1));
  };
  auto server = GrpcPeerServer::Start({std::getenv("TUTTI_TEST_LISTEN"), {}},
                                      [&](std::unique_ptr<Link> link) {
                                        const MutexLock lock(&mutex);
                                        links.push_back(std::move(link));
                                        return inbox.MakeHandler();
                                      });
  ASSERT_TRUE(server.ok()) << server.status();
  std::ofstream(absl::StrCat(file, ".new")) << (*server)->address();
  std::filesystem::rename(absl::StrCat(file, ".new"), file);
  pause();
}

class PortUnderAttackTest : public testing::TestWithParam<std::string> {
 protected:
  PortUnderAttackTest() {
    const std::string file = absl::StrCat(testing::TempDir(), "port-", getpid());
    std::filesystem::remove(file);
    setenv("TUTTI_TEST_ADDRESS_FILE", file.c_str(), 1);
    const std::string listen = GetParam() == "unix" ? FreshUnixAddress() : "127.0.0.1:0";
    setenv("TUTTI_TEST_LISTEN", listen.c_str(), 1);
    const char* arguments[] = {"port", "--gtest_also_run_disabled_tests",
                               "--gtest_filter=DISABLED_PortProcess.*", nullptr};
    EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr,
                          const_cast<char* const*>(arguments), environ),
              0);
    unsetenv("TUTTI_TEST_ADDRESS_FILE");
    const auto deadline = steady_clock::now() + kPatience;
    while (!std::filesystem::exists(file) && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::ifstream(file) >> address_;
    std::filesystem::remove(file);
  }
  ~PortUnderAttackTest() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  Descriptor Connect(const std::string& bytes) const {
    sockaddr_storage to{};
    socklen_t size = 0;
    if (GetParam() == "unix") {
      auto* const name = reinterpret_cast<sockaddr_un*>(&to);
      name->sun_family = AF_UNIX;
      address_.substr(5).copy(name->sun_path, sizeof(name->sun_path) - 1);
      size = sizeof(*name);
    } else {
      auto* const name = reinterpret_cast<sockaddr_in*>(&to);
      name->sin_family = AF_INET;
      name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      name->sin_port = htons(static_cast<uint16_t>(std::stoi(address_.substr(10))));
      size = sizeof(*name);
    }
    Descriptor fd(socket(to.ss_family, SOCK_STREAM, 0));
    timeval patience{.tv_sec = 1, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    (void)connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), size);
    (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return fd;
  }

  // The time for which an innocent peer waits for an answer.
  double SecondsToBeServed() {
    const auto begin = steady_clock::now();
    auto dialer = *GrpcDialer::Create();
    // A peer that is refused dials again, as workers do.
    while (steady_clock::now() - begin < kPatience) {
      Inbox inbox;
      const auto link = dialer->Dial(address_, inbox.MakeHandler());
      (void)link->Send(NumberedFrame(1));
      while (!inbox.is_closed() && inbox.frame_count() == 0 &&
             steady_clock::now() - begin < kPatience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      const bool served = inbox.frame_count() > 0;
      link->Close(absl::OkStatus());
      EXPECT_TRUE(inbox.WaitForHandlerGone());
      if (served) return std::chrono::duration<double>(steady_clock::now() - begin).count();
    }
    return 1e9;
  }

  pid_t pid_ = 0;
  std::string address_;
};

// gRPC's own listener is deaf for ever after this (CVE-2023-4785).
TEST_P(PortUnderAttackTest, ServesAgainWhenMoreConnectionsThanDescriptorsAreClosed) {
  for (const std::string& bytes : {std::string(), std::string(kPreface)}) {
    std::vector<Descriptor> attackers;
    for (int i = 0; i < 400; ++i) attackers.push_back(Connect(bytes));
    attackers.clear();
    EXPECT_LT(SecondsToBeServed(), 1.0);
  }
}

// Silent ones do not even keep others out while they stay.
TEST_P(PortUnderAttackTest, ServesBesideMoreSilentConnectionsThanDescriptors) {
  std::vector<Descriptor> attackers;
  for (int i = 0; i < 400; ++i) attackers.push_back(Connect(""));
  EXPECT_LT(SecondsToBeServed(), 1.0);
}

INSTANTIATE_TEST_SUITE_P(Addresses, PortUnderAttackTest, testing::Values("tcp", "unix"),
                         [](const auto& info) { return info.param; });

// A server of one service that is never called; `tls`: no certificate, no handshake.
struct ProbedServer {
  explicit ProbedServer(const TlsFiles& tls, SelfProbe::Options probe = {})
      : service([](std::unique_ptr<Link>) { return nullptr; }) {
    grpc::ServerBuilder builder;
    ConfigureForPeers(&builder);
    auto started =
        GrpcListener::Listen({.address = "127.0.0.1:0",
                              .is_secure = !tls.certificate.empty(),
                              .bounds = {.total = 10, .per_account = 10},
                              .probe = std::move(probe)},
                             *MakeServerCredentials("127.0.0.1:0", tls, kPeerPortRules), &builder);
    EXPECT_TRUE(started.ok()) << started.status();
    listener = *std::move(started);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    listener->Start();
  }
  ~ProbedServer() {
    listener->Stop();
    server->Shutdown(std::chrono::system_clock::now());
  }
  PeerService service;
  std::unique_ptr<GrpcListener> listener;
  std::unique_ptr<grpc::Server> server;
};

struct Deaf {
  Mutex mutex;
  ConditionVariable changed;
  bool is_deaf ABSL_GUARDED_BY(mutex) = false;
  SelfProbe::Options Probe() {
    return {.interval = std::chrono::milliseconds(20),
            .deadline = std::chrono::milliseconds(2000),
            .misses = 2,
            .on_deaf = [this](const std::string&) {
              const MutexLock lock(&mutex);
              is_deaf = true;
              changed.NotifyAll();
            }};
  }
};

TEST(SelfProbeTest, APortThatServesIsNeverCalledDeaf) {
  TestAuthority authority("ca");
  for (const TlsFiles& tls : {TlsFiles(), authority.Issue("w", "DNS:w")}) {
    Deaf deaf;
    ProbedServer probed(tls, deaf.Probe());
    // Some calls.
    const auto deadline = steady_clock::now() + kPatience;
    while (probed.listener->counts().handed_over < 5 && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_GE(probed.listener->counts().handed_over, 5);
    const MutexLock lock(&deaf.mutex);
    EXPECT_FALSE(deaf.is_deaf);
  }
}

TEST(SelfProbeTest, APortThatStaysSilentIsReported) {
  Deaf deaf;
  // Accepts, and nobody answers.
  auto loop =
      *AcceptLoop::Listen({.address = "127.0.0.1:0", .bounds = {.total = 10, .per_account = 10}});
  std::vector<Descriptor> taken;
  loop->Start([&](int fd, bool) { taken.emplace_back(fd); });
  SelfProbe::Options options = deaf.Probe();
  options.deadline = std::chrono::milliseconds(50);
  {
    SelfProbe probe(loop.get(), options);
    const auto deadline = steady_clock::now() + kPatience;
    const MutexLock lock(&deaf.mutex);
    while (!deaf.is_deaf && deaf.changed.WaitUntil(&deaf.mutex, deadline)) continue;
    EXPECT_TRUE(deaf.is_deaf);
  }
  loop->Stop();
}

}  // namespace
}  // namespace tutti::transport
