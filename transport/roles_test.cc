#include "transport/roles.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

TEST(RolesTest, IdentitiesAreReadFromUris) {
  EXPECT_EQ(*ParseIdentity("tutti://worker/w1"), (Identity{Role::kWorker, "w1"}));
  EXPECT_EQ(*ParseIdentity("tutti://coordinator"), (Identity{Role::kCoordinator, ""}));
  EXPECT_EQ(*ParseIdentity("tutti://client/a.b-c_D9"), (Identity{Role::kClient, "a.b-c_D9"}));
  for (const Role role : kAllRoles) {
    const Identity identity = {role, role == Role::kCoordinator ? "" : "x"};
    EXPECT_EQ(*ParseIdentity(IdentityUri(identity)), identity);
  }
}

TEST(RolesTest, AnythingElseIsNoIdentity) {
  for (const std::string uri :
       {"", "tutti://", "tutti://worker", "tutti://worker/", "tutti://worker/a/b", "worker/w1",
        "TUTTI://worker/w1", "tutti://Worker/w1", "tutti://admin/x", "tutti://coordinator/x",
        "tutti://coordinator/", "tutti:///w1", "tutti://worker/w 1", "https://worker/w1",
        " tutti://worker/w1", "tutti://worker/w1?x"}) {
    EXPECT_FALSE(ParseIdentity(uri).has_value()) << uri;
  }
  EXPECT_FALSE(ParseIdentity("tutti://worker/" + std::string(129, 'w')).has_value());
  EXPECT_FALSE(ParseIdentity(std::string("tutti://worker/w1\0", 18)).has_value());
}

TEST(RolesTest, EveryMethodOfOurServicesHasRoles) { EXPECT_TRUE(CheckMethodTable().ok()); }

TEST(RolesTest, AMethodWithoutRolesIsNamed) {
  google::protobuf::FileDescriptorProto file;
  file.set_name("new.proto");
  file.set_package("tutti.v1");
  file.add_message_type()->set_name("Nothing");
  auto* const service = file.add_service();
  service->set_name("Admin");
  for (const char* name : {"GetStatus", "Restart"}) {
    auto* const method = service->add_method();
    method->set_name(name);
    method->set_input_type(".tutti.v1.Nothing");
    method->set_output_type(".tutti.v1.Nothing");
  }
  google::protobuf::DescriptorPool pool;
  const google::protobuf::FileDescriptor* const files[] = {pool.BuildFile(file)};
  const absl::Status checked = CheckMethodTable(files);
  EXPECT_EQ(checked.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(checked.message()), HasSubstr("/tutti.v1.Admin/Restart"));
}

TEST(RolesTest, WhoMayCallWhat) {
  EXPECT_TRUE(CheckCall("/tutti.v1.Admin/GetStatus", {Role::kOperator}).ok());
  EXPECT_TRUE(CheckCall("/tutti.v1.Admin/GetStatus", {Role::kClient, Role::kOperator}).ok());
  for (const Role role : kAllRoles) {
    if (role == Role::kOperator) continue;
    EXPECT_TRUE(absl::IsPermissionDenied(CheckCall("/tutti.v1.Admin/LookupPrefix", {role})));
  }
  EXPECT_TRUE(absl::IsPermissionDenied(CheckCall("/tutti.peer.v1.Peer/Connect", {Role::kClient})));
  EXPECT_TRUE(absl::IsPermissionDenied(CheckCall("/tutti.v1.Inference/Generate", {})));
  EXPECT_TRUE(absl::IsUnimplemented(CheckCall("/tutti.v1.Inference/Other", {Role::kClient})));
  EXPECT_TRUE(absl::IsUnimplemented(CheckCall("", {Role::kOperator})));
}

}  // namespace
}  // namespace tutti::transport
