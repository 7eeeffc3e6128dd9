// Every method of every service, called by every role over real TLS connections: exactly those of
// the method table get through.
#include "transport/roles.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/files_testing.h"
#include "coordinator/service/coordinator.h"
#include "transport/grpc/certificates_testing.h"
#include "worker/service/worker.h"

namespace tutti::tests {
namespace {

using transport::Identity;
using transport::Role;
using transport::RoleSet;
using transport::TlsFiles;

std::string NameOf(Role role) { return std::string(transport::RoleName(role)); }

// A coordinator and a worker on TCP with certificates on all ports.
class RolesTest : public ::testing::Test {
 protected:
  RolesTest() : authority_("roles") {
    const TlsFiles own = authority_.Issue("c", "DNS:localhost,IP:127.0.0.1", "tutti://coordinator");
    coordinator::CoordinatorOptions options;
    options.listen = "127.0.0.1:0";
    options.peer_listen = absl::StrCat("127.0.0.1:", 21000 + getpid() % 9000);
    options.admin_listen = "127.0.0.1:0";
    options.tls_certificate = own.certificate;
    options.tls_key = own.key;
    options.tls_client_ca = own.authority;
    options.peer_tls = own;
    options.engine.cluster_id = "roles";
    options.engine.build = BuildStamp();
    peer_address_ = options.peer_listen;
    auto model = coordinator::ServedModel::Load(DemoDir(), "test", 0);
    EXPECT_TRUE(model.ok()) << model.status();
    coordinator_ = std::make_unique<coordinator::Coordinator>(*std::move(model), options);
    const absl::Status started = coordinator_->Start();
    EXPECT_TRUE(started.ok()) << started;
    worker::WorkerOptions worker;
    worker.model_dir = DemoDir();
    worker.coordinators = {"127.0.0.1:1"};  // it need not join
    worker.listen = "127.0.0.1:0";
    worker.worker_id = "w0";
    worker.threads = 1;
    worker.memory_bytes = 1 << 28;
    worker.tls = authority_.Issue("w0", "DNS:localhost,IP:127.0.0.1");
    auto started_worker = worker::Worker::Start(worker);
    EXPECT_TRUE(started_worker.ok()) << started_worker.status();
    worker_ = *std::move(started_worker);
  }
  ~RolesTest() override { coordinator_->Shutdown(Duration::zero()); }

  // The ports that serve a method.
  std::vector<std::string> PortsOf(std::string_view path) const {
    if (path.starts_with("/tutti.v1.Inference/")) return {coordinator_->address()};
    if (path.starts_with("/tutti.v1.Admin/")) return {coordinator_->admin_address()};
    if (path.starts_with("/tutti.peer.v1.Peer/")) return {peer_address_, worker_->address()};
    return {coordinator_->address(), coordinator_->admin_address()};
  }

  std::shared_ptr<grpc::Channel> Channel(const std::string& port, const TlsFiles& files) const {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = ReadWholeFile(files.authority);
    tls.pem_cert_chain = ReadWholeFile(files.certificate);
    tls.pem_private_key = ReadWholeFile(files.key);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(port, grpc::SslCredentials(tls), arguments);
  }

  // The end of a call that sends one message, and what it answers. A method that waits for more is
  // ended by the deadline.
  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, std::string_view path,
                           const std::string& message = "", std::string* answered = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1000));
    grpc::CompletionQueue queue;
    const auto call = grpc::GenericStub(channel).PrepareCall(&context, std::string(path), &queue);
    const auto next = [&queue] {
      void* tag;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    call->StartCall(nullptr);
    next();
    const grpc::Slice slice(message);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    next();
    grpc::ByteBuffer answer;
    for (call->Read(&answer, nullptr); next(); call->Read(&answer, nullptr)) {
      grpc::Slice bytes;
      if (answered == nullptr || !answer.DumpToSingleSlice(&bytes).ok()) continue;
      answered->append(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    next();
    queue.Shutdown();
    while (next()) continue;
    return status;
  }

  transport::TestAuthority authority_;
  std::string peer_address_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<worker::Worker> worker_;
};

TEST_F(RolesTest, EveryMethodAndRoleIsAsTheTableSays) {
  int pairs = 0, open = 0;
  for (const auto& [path, roles] : transport::MethodTable()) {
    for (const Role role : transport::kAllRoles) {
      const Identity identity = {role, role == Role::kCoordinator ? "" : "x"};
      const TlsFiles files =
          authority_.Issue(NameOf(role), "DNS:x", transport::IdentityUri(identity));
      for (const std::string& port : PortsOf(path)) {
        const grpc::Status status = Call(Channel(port, files), path);
        const bool denied = status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
        EXPECT_EQ(denied, !roles.Has(role)) << path << " by " << NameOf(role) << ": "
                                            << status.error_code() << " " << status.error_message();
        EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
      }
      ++pairs;
      open += roles.Has(role) ? 1 : 0;
    }
  }
  RecordProperty("pairs", pairs);
  RecordProperty("open", open);
  EXPECT_EQ(pairs, static_cast<int>(transport::MethodTable().size()) * 5);
}

TEST_F(RolesTest, ACertificateWithoutAnIdentityMayCallNothing) {
  const TlsFiles files = authority_.Issue("nameless", "DNS:x", "none");
  for (const auto& [path, roles] : transport::MethodTable()) {
    for (const std::string& port : PortsOf(path)) {
      EXPECT_EQ(Call(Channel(port, files), path).error_code(), grpc::StatusCode::PERMISSION_DENIED)
          << path;
    }
  }
}

TEST_F(RolesTest, WithoutOurCertificateNoCallIsMade) {
  transport::TestAuthority others("others");
  TlsFiles files = others.Issue("op", "DNS:x", "tutti://operator/op");
  files.authority = authority_.Issue("any", "DNS:x").authority;
  for (const auto& [path, roles] : transport::MethodTable()) {
    for (const std::string& port : PortsOf(path)) {
      const grpc::Status status = Call(Channel(port, files), path);
      EXPECT_TRUE(status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                  status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
          << path << " " << status.error_message();
    }
  }
}

TEST_F(RolesTest, ServicesAreOnTheirOwnPortsOnly) {
  const TlsFiles all = authority_.Issue(
      "all", "DNS:x",
      "tutti://operator/o,URI:tutti://client/c,URI:tutti://worker/w,URI:tutti://gateway/g");
  for (const char* path : {"/tutti.v1.Admin/GetStatus", "/tutti.v1.Admin/LookupPrefix",
                           "/tutti.peer.v1.Peer/Connect"}) {
    EXPECT_EQ(Call(Channel(coordinator_->address(), all), path).error_code(),
              grpc::StatusCode::UNIMPLEMENTED)
        << path;
  }
  for (const std::string& port : {peer_address_, worker_->address()}) {
    for (const char* path : {"/tutti.v1.Inference/Generate", "/tutti.v1.Admin/GetStatus",
                             "/grpc.health.v1.Health/Check"}) {
      EXPECT_EQ(Call(Channel(port, all), path).error_code(), grpc::StatusCode::UNIMPLEMENTED);
    }
  }
  // The services that reflection lists: the request's field 7, empty, asks for the services.
  std::string listed;
  EXPECT_TRUE(Call(Channel(coordinator_->address(), all),
                   "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                   std::string("\x3a\x00", 2), &listed)
                  .ok());
  EXPECT_THAT(listed, testing::HasSubstr("tutti.v1.Inference"));
  EXPECT_THAT(listed, testing::Not(testing::HasSubstr("tutti.v1.Admin")));
  EXPECT_THAT(listed, testing::Not(testing::HasSubstr("tutti.peer.v1.Peer")));
  EXPECT_EQ(Call(Channel(coordinator_->address(), all), "/tutti.v1.Inference/Nothing").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace tutti::tests
