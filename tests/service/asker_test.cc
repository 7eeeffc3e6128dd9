// The requests that a caller without a certificate may ask for, and what an operator's port asks of
// addresses.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/build_info.h"
#include "base/files_testing.h"
#include "base/tcp_client_testing.h"
#include "coordinator/service/coordinator.h"
#include "transport/grpc/certificates_testing.h"
#include "transport/limits.h"
#include "tutti/v1/generation.grpc.pb.h"
#include "worker/service/worker.h"

namespace tutti::tests {
namespace {

using ::testing::HasSubstr;

// A coordinator without workers.
struct Served {
  TempDir folder;
  std::unique_ptr<coordinator::Coordinator> coordinator;

  coordinator::CoordinatorOptions Options() const {
    coordinator::CoordinatorOptions options;
    options.listen = "127.0.0.1:0";
    options.peer_listen = "unix:" + folder.File("peers");
    options.admin_listen = "unix:" + folder.File("admin");
    options.engine.build = BuildStamp();
    return options;
  }
  absl::Status Start(const coordinator::CoordinatorOptions& options) {
    auto model = coordinator::ServedModel::Load(DemoDir(), "test", 0);
    EXPECT_TRUE(model.ok()) << model.status();
    coordinator = std::make_unique<coordinator::Coordinator>(*std::move(model), options);
    return coordinator->Start();
  }
  ~Served() {
    if (coordinator != nullptr) coordinator->Shutdown(Duration::zero());
  }

  grpc::Status Generate(const v1::GenerateRequest& request, const std::string& tenant = "",
                        const std::string& account = "") {
    const auto channel =
        grpc::CreateChannel(coordinator->address(), grpc::InsecureChannelCredentials());
    grpc::ClientContext context;
    if (!tenant.empty()) context.AddMetadata("x-tutti-tenant", tenant);
    if (!account.empty()) context.AddMetadata("x-tutti-account", account);
    const auto reader = v1::Inference::NewStub(channel)->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) continue;
    return reader->Finish();
  }
};

v1::GenerateRequest AskAnything() {
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(1);
  return request;
}

TEST(AskerTest, OnLoopbackACallerIsAClient) {
  Served served;
  ASSERT_TRUE(served.Start(served.Options()).ok());
  // UNAVAILABLE: no worker is there; the request itself is fine.
  EXPECT_EQ(served.Generate(AskAnything()).error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::GenerateRequest request = AskAnything();
  request.set_tenant("acme");
  EXPECT_EQ(served.Generate(request).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(served.Generate(AskAnything(), "acme").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(served.Generate(AskAnything(), "", "at 10.1.0.1").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  request = AskAnything();
  request.set_priority(-1);
  EXPECT_EQ(served.Generate(request).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  request.set_priority(1);
  EXPECT_EQ(served.Generate(request).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(AskerTest, AGatewayWhereTheOperatorSaysSoOrNobodyElseCanConnect) {
  for (const bool by_flag : {true, false}) {
    Served served;
    coordinator::CoordinatorOptions options = served.Options();
    if (by_flag) {
      options.public_role = "gateway";
    } else {
      options.listen = "unix:" + served.folder.File("api");
    }
    ASSERT_TRUE(served.Start(options).ok());
    v1::GenerateRequest request = AskAnything();
    request.set_tenant("acme");
    request.set_priority(-100);
    EXPECT_EQ(served.Generate(request).error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(served.Generate(request, "", "at 10.1.0.1").error_code(),
              grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(served.Generate(request, "", std::string(257, 'x')).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
}

// A frame of HTTP/2.
std::string Frame(char kind, char flags, uint32_t stream, const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift);
  frame += {kind, flags};
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + payload;
}

std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

// Whether a request, which is empty, is refused in good order; false: the connection was cut.
bool IsAnswered(TcpClient* client, uint32_t* stream) {
  constexpr char kData = 0, kHeaders = 1, kEndStream = 1, kEndHeaders = 4;
  const std::string headers = "\x83\x86" + Header(":path", "/tutti.v1.Inference/Generate") +
                              Header(":authority", "localhost") + Header("te", "trailers") +
                              Header("content-type", "application/grpc");
  *stream += 2;
  client->SendWhatGoes(Frame(kHeaders, kEndHeaders, *stream, headers) +
                       Frame(kData, kEndStream, *stream, std::string(5, '\0')));
  return client->ReadPast("grpc-message");
}

TEST(AskerTest, AGatewaysConnectionIsNotCutForWhatOneCallersBytesBecome) {
  constexpr char kPriority = 2, kSettings = 4;
  std::string junk;
  while (junk.size() < 8 * transport::kDebtBytesMax) {
    junk += Frame(kPriority, 0, 1, std::string(5, '\0'));
  }
  for (const char* role : {"client", "gateway"}) {
    SCOPED_TRACE(role);
    Served served;
    coordinator::CoordinatorOptions options = served.Options();
    options.public_role = role;
    ASSERT_TRUE(served.Start(options).ok());
    TcpClient client(served.coordinator->address());
    client.SendWhatGoes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, ""));
    uint32_t stream = 1;
    ASSERT_TRUE(IsAnswered(&client, &stream));
    client.SendWhatGoes(junk);
    // For as long as the watch looks some times.
    const auto until = std::chrono::steady_clock::now() + 20 * transport::kLookInterval;
    bool is_open = true;
    while (is_open && (role == std::string("client") || std::chrono::steady_clock::now() < until)) {
      is_open = IsAnswered(&client, &stream);
    }
    EXPECT_EQ(is_open, role == std::string("gateway"));
  }
}

std::string RefusalOf(const coordinator::CoordinatorOptions& options) {
  Served served;
  const absl::Status started = served.Start(options);
  return started.ok() ? "" : std::string(started.message());
}

TEST(AskerTest, HalfOfATlsSetIsRefused) {
  transport::TestAuthority authority("half");
  const transport::TlsFiles files = authority.Issue("c", "DNS:localhost", "tutti://coordinator");
  Served served;
  coordinator::CoordinatorOptions options = served.Options();
  options.tls_client_ca = files.authority;
  EXPECT_THAT(RefusalOf(options), HasSubstr("--tls-client-ca needs --tls-cert"));
  options.tls_certificate = files.certificate;
  EXPECT_THAT(RefusalOf(options), HasSubstr("--tls-key is missing"));
  options.tls_key = files.key;
  options.without_clients_ca = true;
  EXPECT_THAT(RefusalOf(options), HasSubstr("contradict"));
  options.without_clients_ca = false;
  EXPECT_EQ(RefusalOf(options), "");
  options.peer_tls.key = files.key;
  EXPECT_THAT(RefusalOf(options), HasSubstr("certificate"));
}

TEST(AskerTest, AnOutsideAddressWithoutClientsAuthorityMustBeSaidAloud) {
  transport::TestAuthority authority("outside");
  const transport::TlsFiles files = authority.Issue("c", "DNS:localhost", "tutti://coordinator");
  Served served;
  coordinator::CoordinatorOptions options = served.Options();
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(RefusalOf(options), HasSubstr("--tls-cert"));
  options.tls_certificate = files.certificate;
  options.tls_key = files.key;
  EXPECT_THAT(RefusalOf(options), HasSubstr("--public-without-clients-ca"));
  options.without_clients_ca = true;
  EXPECT_EQ(RefusalOf(options), "");
}

TEST(AskerTest, AnOutsideAddressWithoutTlsMustBeSaidAloud) {
  transport::TestAuthority authority("plain");
  const transport::TlsFiles files = authority.Issue("c", "DNS:localhost", "tutti://coordinator");
  Served served;
  coordinator::CoordinatorOptions options = served.Options();
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(RefusalOf(options), HasSubstr("--public-plaintext"));
  options.plaintext = true;
  EXPECT_EQ(RefusalOf(options), "");
  options.tls_certificate = files.certificate;
  options.tls_key = files.key;
  EXPECT_THAT(RefusalOf(options), HasSubstr("contradict"));
}

TEST(AskerTest, TheOperatorsPortIsNobodyElses) {
  Served served;
  coordinator::CoordinatorOptions options = served.Options();
  options.admin_listen = "127.0.0.1:0";
  EXPECT_THAT(RefusalOf(options), HasSubstr("--admin-listen 127.0.0.1:0"));
  std::filesystem::create_directory(served.folder.File("open"));
  std::filesystem::permissions(served.folder.File("open"), std::filesystem::perms(0755));
  options.admin_listen = "unix:" + served.folder.File("open/admin");
  EXPECT_THAT(RefusalOf(options), HasSubstr("chmod 0700"));
}

TEST(AskerTest, WorkersNeedAProofOverTcp) {
  const TempDir folder;
  Served served;
  coordinator::CoordinatorOptions options = served.Options();
  options.peer_listen = "127.0.0.1:0";
  EXPECT_THAT(RefusalOf(options), HasSubstr("--cluster-secret-file"));
  EXPECT_THAT(RefusalOf(options), HasSubstr("head -c 32 /dev/urandom"));
  ASSERT_TRUE(transport::ClusterSecret::Write(folder.File("secret")).ok());
  options.secret_file = folder.File("secret");
  EXPECT_EQ(RefusalOf(options), "");

  worker::WorkerOptions worker;
  worker.model_dir = DemoDir();
  worker.worker_id = "w0";
  worker.threads = 1;
  worker.memory_bytes = 1 << 28;
  const std::string ours = "unix:" + folder.File("w0"), theirs = "unix:" + folder.File("c");
  for (const auto& [listen, coordinator, peer, flag] :
       {std::tuple<std::string, std::string, std::string, std::string>{"127.0.0.1:0", theirs, ours,
                                                                       "--listen 127.0.0.1:0"},
        {ours, "127.0.0.1:1", ours, "--coordinator 127.0.0.1:1"},
        {ours, theirs, "127.0.0.1:2", "--peer w1 127.0.0.1:2"}}) {
    worker.listen = listen;
    worker.coordinators = {coordinator};
    worker.peers = {};
    ASSERT_TRUE(worker.peers.table.Add("w1=" + peer).ok());
    const auto started = worker::Worker::Start(worker);
    ASSERT_FALSE(started.ok()) << flag;
    EXPECT_EQ(started.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(started.status().message()), HasSubstr(flag));
  }
}

TEST(AskerTest, AWorkersCertificateMustNameIt) {
  transport::TestAuthority authority("own");
  const TempDir folder;
  worker::WorkerOptions worker;
  worker.model_dir = DemoDir();
  worker.worker_id = "w7";
  worker.listen = "127.0.0.1:0";
  worker.coordinators = {"127.0.0.1:1"};
  worker.memory_bytes = 1 << 28;
  worker.tls = authority.Issue("w1", "DNS:localhost");
  const auto started = worker::Worker::Start(worker);
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(std::string(started.status().message()),
              HasSubstr("does not have the URI tutti://worker/w7"));
}

}  // namespace
}  // namespace tutti::tests
