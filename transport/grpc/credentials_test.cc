// Certificates change under a running listener; who a port lets call what.
#include "transport/grpc/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "transport/grpc/certificates_testing.h"
#include "transport/grpc/grpc_link.h"
#include "transport/link_testing.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

// A peer server with certificates, and what its links say.
struct SecureListener {
  Inbox inbox;
  Mutex mutex;
  std::vector<std::unique_ptr<Link>> links ABSL_GUARDED_BY(mutex);
  std::unique_ptr<GrpcPeerServer> server;

  explicit SecureListener(const TlsFiles& tls, const GateRules& rules = {}) {
    auto started =
        GrpcPeerServer::Start({"127.0.0.1:0", tls, rules}, [this](std::unique_ptr<Link> link) {
          const MutexLock lock(&mutex);
          links.push_back(std::move(link));
          return inbox.MakeHandler();
        });
    EXPECT_TRUE(started.ok()) << started.status();
    server = std::move(*started);
  }
  ~SecureListener() { server.reset(); }
};

// OK when a link with these options can be made and a frame comes through it.
absl::Status Dial(SecureListener* listener, const GrpcDialerOptions& options,
                  const v1::Frame& first = NumberedFrame(1)) {
  Inbox inbox;
  auto dialer = GrpcDialer::Create(options);
  if (!dialer.ok()) return dialer.status();
  auto link = (*dialer)->Dial(listener->server->address(), inbox.MakeHandler());
  const size_t before = listener->inbox.frame_count();
  (void)link->Send(first);
  while (!inbox.is_closed() && listener->inbox.frame_count() == before) {
    std::this_thread::yield();
  }
  return inbox.is_closed() ? inbox.closed() : absl::OkStatus();
}

void Replace(const TlsFiles& old, const TlsFiles& with) {
  std::filesystem::rename(with.key, old.key);
  std::filesystem::rename(with.certificate, old.certificate);
  std::filesystem::copy_file(with.authority, old.authority + ".new");
  std::filesystem::rename(old.authority + ".new", old.authority);
}

TEST(CredentialsTest, ARunningListenerTakesUpNewCertificates) {
  TestAuthority former("former"), latter("latter");
  const TlsFiles files = former.Issue("coordinator", "DNS:coordinator");
  // Copies of the authority's files for the dialer, which are not replaced.
  const TlsFiles old_worker = former.Issue("w1", "DNS:w1");
  TlsFiles kept = old_worker;
  kept.authority += ".kept";
  std::filesystem::copy_file(old_worker.authority, kept.authority,
                             std::filesystem::copy_options::overwrite_existing);
  const TlsFiles new_worker = latter.Issue("w2", "DNS:w2");
  SecureListener listener(files);
  EXPECT_TRUE(Dial(&listener, {kept, "coordinator"}).ok());
  EXPECT_FALSE(Dial(&listener, {new_worker, "coordinator"}).ok());
  Replace(files, latter.Issue("coordinator", "DNS:coordinator"));
  const absl::Status dialled = Dial(&listener, {new_worker, "coordinator"});
  EXPECT_TRUE(dialled.ok()) << dialled;
  EXPECT_FALSE(Dial(&listener, {kept, "coordinator"}).ok()) << "the former authority is gone";
}

TEST(CredentialsTest, ADialerTakesUpNewCertificates) {
  TestAuthority former("dialers-former"), latter("dialers-latter");
  const TlsFiles files = former.Issue("w1", "DNS:w1");
  SecureListener listener(latter.Issue("coordinator", "DNS:coordinator"));
  Inbox refused, inbox;
  auto dialer = *GrpcDialer::Create({files, "coordinator"});
  auto link = dialer->Dial(listener.server->address(), refused.MakeHandler());
  ASSERT_TRUE(refused.WaitForClosed());
  Replace(files, latter.Issue("w1", "DNS:w1"));
  link = dialer->Dial(listener.server->address(), inbox.MakeHandler());
  (void)link->Send(NumberedFrame(1));
  EXPECT_TRUE(listener.inbox.WaitForFrames(1));
}

TEST(CredentialsTest, OnlyWorkersOpenLinks) {
  TestAuthority authority("workers-only");
  SecureListener listener(authority.Issue("coordinator", "DNS:coordinator"));
  for (const char* uri : {"tutti://client/c", "tutti://gateway/g", "tutti://operator/o",
                          "tutti://coordinator", "none"}) {
    const absl::Status dialled =
        Dial(&listener, {authority.Issue("caller", "DNS:caller", uri), "coordinator"});
    EXPECT_EQ(dialled.code(), absl::StatusCode::kPermissionDenied) << uri << ": " << dialled;
  }
  EXPECT_TRUE(Dial(&listener, {authority.Issue("w1", "DNS:w1"), "coordinator"}).ok());
  const MutexLock lock(&listener.mutex);
  EXPECT_EQ(listener.links.size(), 1u) << "nobody else was even asked about";
}

v1::Frame HelloOf(const std::string& name) {
  v1::Frame frame;
  frame.mutable_hello()->set_worker_id(name);
  return frame;
}

TEST(CredentialsTest, AWorkerIsWhomItsCertificateNames) {
  TestAuthority authority("names-only");
  SecureListener listener(authority.Issue("coordinator", "DNS:coordinator"),
                          {.name = "tutti://coordinator"});
  const GrpcDialerOptions w1 = {authority.Issue("w1", "DNS:w1"), "coordinator"};
  const absl::Status as_w7 = Dial(&listener, w1, HelloOf("w7"));
  EXPECT_EQ(as_w7.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(as_w7.message()), HasSubstr("\"w7\""));
  EXPECT_FALSE(Dial(&listener, w1, NumberedFrame(1)).ok()) << "no hello, no name";
  {
    const MutexLock lock(&listener.mutex);
    EXPECT_TRUE(listener.links.empty());
  }
  EXPECT_TRUE(Dial(&listener, w1, HelloOf("w1")).ok());
}

TEST(CredentialsTest, AListenerIsWhomItsCertificateNames) {
  TestAuthority authority("listeners");
  SecureListener listener(authority.Issue("w2", "DNS:coordinator"));
  const GrpcDialerOptions options = {authority.Issue("w1", "DNS:w1"), "coordinator"};
  for (const auto& [uri, good] : {std::pair<std::string, bool>{"tutti://coordinator", false},
                                  {"tutti://worker/w3", false},
                                  {"tutti://worker/w2", true}}) {
    Inbox inbox;
    auto dialer = *GrpcDialer::Create(options);
    auto link = dialer->Dial({listener.server->address(), uri}, inbox.MakeHandler());
    (void)link->Send(NumberedFrame(1));
    std::unique_ptr<Link> accepted;
    while (accepted == nullptr) {
      const MutexLock lock(&listener.mutex);
      if (!listener.links.empty()) accepted = std::move(listener.links.back());
      listener.links.clear();
    }
    (void)accepted->Send(NumberedFrame(2));
    if (good) {
      EXPECT_TRUE(inbox.WaitForFrames(1));
      continue;
    }
    ASSERT_TRUE(inbox.WaitForClosed());
    EXPECT_EQ(inbox.closed().code(), absl::StatusCode::kPermissionDenied) << inbox.closed();
    EXPECT_EQ(inbox.frame_count(), 0u);
  }
}

// An address that a worker announces need not stand in its certificate: its name does.
TEST(CredentialsTest, ATargetMayNameTheCertificate) {
  TestAuthority authority("server-names");
  SecureListener listener(authority.Issue("w2", "DNS:w2"));
  auto dialer = *GrpcDialer::Create({authority.Issue("w1", "DNS:w1"), ""});
  for (const auto& [server_name, good] :
       {std::pair<std::string, bool>{"", false}, {"w3", false}, {"w2", true}}) {
    Inbox inbox;
    auto link = dialer->Dial({listener.server->address(), "tutti://worker/w2", server_name},
                             inbox.MakeHandler());
    (void)link->Send(NumberedFrame(1));
    if (!good) {
      ASSERT_TRUE(inbox.WaitForClosed());
      EXPECT_FALSE(inbox.closed().ok());
      continue;
    }
    EXPECT_TRUE(listener.inbox.WaitForFrames(1));
  }
}

// A listener that refuses a link that was meant for another is named as what it is.
TEST(CredentialsTest, AListenerThatIsAnotherIsNamedThoughItRefuses) {
  TestAuthority authority("others");
  auto server = *GrpcPeerServer::Start(
      {"127.0.0.1:0", authority.Issue("w2", "DNS:w1"), {}}, [](std::unique_ptr<Link> link) {
        link->Close(absl::UnavailableError("this is no place for you"));
        return nullptr;
      });
  auto dialer = *GrpcDialer::Create({authority.Issue("w0", "DNS:w0"), ""});
  for (const auto& [uri, code] : {std::pair<std::string, absl::StatusCode>{
                                      "tutti://worker/w1", absl::StatusCode::kPermissionDenied},
                                  {"tutti://worker/w2", absl::StatusCode::kUnavailable}}) {
    Inbox inbox;
    auto link = dialer->Dial({server->address(), uri, "w1"}, inbox.MakeHandler());
    (void)link->Send(NumberedFrame(1));
    ASSERT_TRUE(inbox.WaitForClosed());
    EXPECT_EQ(inbox.closed().code(), code) << inbox.closed();
  }
}

}  // namespace
}  // namespace tutti::transport
