#include "coordinator/service/lease_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;

class LeaseFlagsTest : public testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<LeaderLease>> Make() const {
    return MakeLease(flags_, "mine", &clock_);
  }
  std::string Refusal() const { return std::string(Make().status().message()); }

  const SystemClock clock_{};
  LeaseFlags flags_;
};

TEST_F(LeaseFlagsTest, WithoutFlagsThereIsNoLease) {
  const auto lease = Make();
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(*lease, nullptr);
}

TEST_F(LeaseFlagsTest, ALockOrEtcdSaysWhatIsAsked) {
  flags_.lock_file = "/run/leader";
  EXPECT_EQ((*Make())->about(), "the lock /run/leader");
  flags_ = {};
  flags_.etcd = {"a:2379", "b:2379"};
  EXPECT_EQ((*Make())->about(), "the lease tutti/mine in etcd at a:2379,b:2379");
  flags_.etcd_prefix = "prod/llm";
  EXPECT_EQ((*Make())->about(), "the lease prod/llm in etcd at a:2379,b:2379");
}

TEST_F(LeaseFlagsTest, WrongOnesAreNamed) {
  flags_.name = "c 0";
  EXPECT_THAT(Refusal(), HasSubstr("--coordinator-name c 0"));
  flags_.name = "c0";
  for (const char* other : {"c1", "=a:1", "c1=", "c/1=a:1"}) {
    flags_.others = {other};
    EXPECT_THAT(Refusal(), HasSubstr(std::string("--other-coordinator ") + other));
  }
  flags_.others = {"c1=a:1", "c1=b:1"};
  EXPECT_THAT(Refusal(), HasSubstr("given twice"));
  flags_.others = {"c1=a:1"};
  EXPECT_THAT(Refusal(), HasSubstr("--etcd, which is missing"));
  flags_.etcd = {"a:2379"};
  EXPECT_TRUE(Make().ok());
  flags_.etcd_tls.certificate = "/nowhere.pem";
  EXPECT_THAT(Refusal(), HasSubstr("--etcd-ca"));
  flags_.etcd_tls = {.authority = "/nowhere.pem"};
  EXPECT_THAT(Refusal(), HasSubstr("/nowhere.pem"));
}

}  // namespace
}  // namespace tutti::coordinator
