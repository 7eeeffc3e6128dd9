// The proofs of a client: TLS files, which it reads again, and the key of a gateway.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/client.h"
#include "transport/grpc/certificates_testing.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::client {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);
constexpr Duration kCallTimeout = std::chrono::seconds(5);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Tells with what callers come.
class WatchingService : public v1::Inference::Service {
 public:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest*,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    Note(*context);
    v1::GenerateResponse message;
    message.mutable_finish();
    writer->Write(message);
    return grpc::Status::OK;
  }
  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest*,
                        v1::GetModelResponse*) override {
    Note(*context);
    return grpc::Status::OK;
  }
  // The authorization of the last call.
  std::string authorization() {
    const MutexLock lock(&mutex_);
    return authorization_;
  }

 private:
  void Note(const grpc::ServerContext& context) {
    const auto found = context.client_metadata().find("authorization");
    const MutexLock lock(&mutex_);
    authorization_ = found == context.client_metadata().end()
                         ? "none"
                         : std::string(found->second.data(), found->second.size());
  }
  Mutex mutex_;
  std::string authorization_ ABSL_GUARDED_BY(mutex_);
};

class CredentialsTest : public ::testing::Test {
 protected:
  ~CredentialsTest() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }
  std::string Serve(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    return absl::StrCat("127.0.0.1:", port);
  }
  WatchingService service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CredentialsTest, ARenewedCertificateIsReadAgain) {
  transport::TestAuthority former("former"), latter("latter");
  const transport::TlsFiles theirs = latter.Issue("service", "IP:127.0.0.1", "none");
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = ReadFile(theirs.authority);
  options.pem_key_cert_pairs = {{ReadFile(theirs.key), ReadFile(theirs.certificate)}};
  const std::string address = Serve(grpc::SslServerCredentials(options));
  const transport::TlsFiles ours = former.Issue("gateway", "DNS:gateway", "none");
  auto client = Client::Create({.address = address,
                                .tls_authority = ours.authority,
                                .tls_certificate = ours.certificate,
                                .tls_key = ours.key});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE((*client)->GetModel({.timeout = kCallTimeout}).ok());
  const transport::TlsFiles renewed = latter.Issue("gateway", "DNS:gateway", "none");
  std::filesystem::rename(renewed.key, ours.key);
  std::filesystem::rename(renewed.certificate, ours.certificate);
  std::filesystem::copy_file(renewed.authority, ours.authority,
                             std::filesystem::copy_options::overwrite_existing);
  const SystemClock clock;
  const Instant until = clock.Now() + kPatience;
  absl::Status said;
  do {
    said = (*client)->GetModel({.timeout = kCallTimeout}).status();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (!said.ok() && clock.Now() < until);
  EXPECT_TRUE(said.ok()) << said;
}

TEST_F(CredentialsTest, TheKeyIsToldWithEveryCall) {
  const std::string address = Serve(grpc::InsecureServerCredentials());
  auto client = Client::Create({.address = address, .api_key = "secret-1"});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->GetModel({}).ok());
  EXPECT_EQ(service_.authorization(), "Bearer secret-1");
  auto without = Client::Create({.address = address});
  EXPECT_TRUE((*without)->GetModel({}).ok());
  EXPECT_EQ(service_.authorization(), "none");
  const auto heard =
      (*client)->Generate({}, {}, [](const v1::GenerateResponse&) { return absl::OkStatus(); });
  EXPECT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(service_.authorization(), "Bearer secret-1");
}

TEST_F(CredentialsTest, TheKeyGoesToNoOtherMachineInTheClear) {
  const auto made = [](ClientOptions options) {
    options.address = "127.0.0.1:1,gateway.example:1";
    const absl::Status status = Client::Create(options).status();
    EXPECT_FALSE(absl::StrContains(status.message(), "secret-1")) << status;
    return status;
  };
  const absl::Status refused = made({.api_key = "secret-1"});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(refused.message(), "gateway.example:1 in the clear")) << refused;
  EXPECT_TRUE(made({.api_key = "secret-1", .api_key_in_clear = true}).ok());
  transport::TestAuthority authority("of keys");
  const transport::TlsFiles files = authority.Issue("gateway", "DNS:gateway", "none");
  EXPECT_TRUE(made({.tls_authority = files.authority, .api_key = "secret-1"}).ok());
  for (const char* key : {"secret-1 ", "secret-1\n", "secret-1\x80"}) {
    EXPECT_EQ(made({.api_key = key, .api_key_in_clear = true}).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tutti::client
