// A worker of the protocol's version before, or after, over a real link: refused by name, with what
// to do, and `tutti status` tells it.
#include "base/protocol.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/files_testing.h"
#include "coordinator/service/coordinator.h"
#include "transport/link_testing.h"
#include "tutti/v1/cluster.grpc.pb.h"

namespace tutti::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ProtocolTest : public ::testing::Test {
 protected:
  ProtocolTest() {
    const char* source = std::getenv("TUTTI_SOURCE_DIR");
    auto model = coordinator::ServedModel::Load(
        std::string(source != nullptr ? source : ".") + "/models/demo", "test", 0);
    EXPECT_TRUE(model.ok()) << model.status();
    coordinator::CoordinatorOptions options;
    options.listen = "unix:" + folder_.File("api");
    options.peer_listen = "unix:" + folder_.File("peers");
    options.admin_listen = "unix:" + folder_.File("admin");
    options.engine.build = BuildStamp();
    coordinator_ = std::make_unique<coordinator::Coordinator>(*std::move(model), options);
    const absl::Status started = coordinator_->Start();
    EXPECT_TRUE(started.ok()) << started;
  }
  ~ProtocolTest() override { coordinator_->Shutdown(Duration::zero()); }

  // The refusal of a worker of that version.
  absl::Status Refusal(uint32_t version) {
    transport::Inbox inbox;
    const auto dialer = *transport::GrpcDialer::Create();
    const auto link = dialer->Dial("unix:" + folder_.File("peers"), inbox.MakeHandler());
    v1::Frame frame;
    frame.mutable_hello()->set_protocol_version(version);
    frame.mutable_hello()->set_worker_id("w0");
    frame.mutable_hello()->set_purpose(v1::LINK_PURPOSE_CONTROL);
    frame.mutable_hello()->set_memory_bytes(int64_t{1} << 30);
    EXPECT_TRUE(link->Send(std::move(frame)).ok());
    EXPECT_TRUE(inbox.WaitForClosed());
    return inbox.closed();
  }
  std::string StatusText() {
    const auto stub = v1::Admin::NewStub(
        grpc::CreateChannel(coordinator_->admin_address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    EXPECT_TRUE(stub->GetStatus(&context, {}, &response).ok());
    return response.ShortDebugString();
  }

  const TempDir folder_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
};

TEST_F(ProtocolTest, TheVersionBeforeAndTheOneAfterAreRefusedByName) {
  const std::string ours = absl::StrCat("of the coordinator \"", kPeerProtocolVersion, "\"");
  const absl::Status before = Refusal(kPeerProtocolVersion - 1);
  EXPECT_EQ(before.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(before.message()),
              AllOf(HasSubstr(ours), HasSubstr("the worker is of an older build; start the worker "
                                               "from the build of the coordinator")));
  const absl::Status after = Refusal(kPeerProtocolVersion + 1);
  EXPECT_EQ(after.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(after.message()),
              AllOf(HasSubstr(ours), HasSubstr("the coordinator is of an older build")));
  EXPECT_THAT(StatusText(), HasSubstr("the coordinator is of an older build"));
}

}  // namespace
}  // namespace tutti::tests
