#include "gateway/caller_rules.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

TEST(CallerRules, NobodyGoesBeforeOthers) {
  EXPECT_TRUE(CheckPriority(0).ok());
  EXPECT_TRUE(CheckPriority(100).ok());
  for (const int32_t priority : {-1, -100, INT32_MIN}) {
    const absl::Status refused = CheckPriority(priority);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
    // The field comes first: front ends name it as their clients write it.
    EXPECT_TRUE(absl::StartsWith(refused.message(), "priority is ")) << refused;
  }
}

TEST(CallerRules, ATenantIsWhatTheKeySays) {
  EXPECT_TRUE(CheckTenant("", {}, "").ok());
  EXPECT_TRUE(CheckTenant("", {}, "acme").ok());
  EXPECT_TRUE(CheckTenant("acme", {"acme", ""}, "acme").ok());
  EXPECT_EQ(CheckTenant("beta", {}, "acme").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CheckTenant("", {"acme", "beta"}, "acme").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CheckTenant("acme", {}, "").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CheckTenant("", {"acme"}, "").code(), absl::StatusCode::kPermissionDenied);
}

TEST(CallerRules, NamesOfHostsAreApart) {
  EXPECT_EQ(NameForService("", "", "ipv4:10.0.0.1"), "");
  EXPECT_EQ(NameForService("mine", "acme", "ipv4:10.0.0.1"), "mine");
  const std::string here = NameForService("mine", "", "ipv4:10.0.0.1");
  EXPECT_EQ(here, NameForService("mine", "", "ipv4:10.0.0.1"));
  EXPECT_TRUE(absl::StartsWith(here, "mine@")) << here;
  EXPECT_NE(here, NameForService("mine", "", "ipv4:10.0.0.2"));
  // Long ones too, and those that differ at their end only.
  std::set<std::string> names;
  for (const char last : {'a', 'b'}) {
    names.insert(NameForService(std::string(kServiceNameBytesMax - 1, 'x') + last, "", "host"));
  }
  EXPECT_EQ(names.size(), 2u);
  EXPECT_LE(names.begin()->size(), kServiceNameBytesMax);
  const std::string too_long(kServiceNameBytesMax + 1, 'x');
  EXPECT_EQ(NameForService(too_long, "", "host"), too_long) << "the service says what is wrong";
}

}  // namespace
}  // namespace tutti::gateway
