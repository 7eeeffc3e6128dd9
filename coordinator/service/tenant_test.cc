#include "coordinator/service/tenant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

const std::string kAnyBytes("\0\xff/../ \n", 8);

TEST(TenantOf, TakesTheFieldOrTheMetadata) {
  EXPECT_EQ(*TenantOf("", {}), "");
  EXPECT_EQ(*TenantOf(kAnyBytes, {}), kAnyBytes);
  EXPECT_EQ(*TenantOf("", {"acme"}), "acme");
  EXPECT_EQ(*TenantOf("acme", {"acme"}), "acme");
  EXPECT_EQ(*TenantOf("acme", {""}), "acme");
  EXPECT_EQ(TenantOf(std::string(kTenantBytesMax, 'x'), {})->size(), 256u);
}

TEST(TenantOf, RefusesContradictionsAndLongNames) {
  for (const auto& [field, metadata, words] :
       {std::tuple<std::string, std::vector<std::string>, std::string>{
            "acme", {"other"}, "two different tenants"},
        {"", {"a", "a"}, "x-tutti-tenant: given 2 times"},
        {std::string(kTenantBytesMax + 1, 'x'), {}, "tenant is longer than 256"},
        {"", {std::string(kTenantBytesMax + 1, 'x')}, "x-tutti-tenant is longer than 256"}}) {
    const auto tenant = TenantOf(field, metadata);
    EXPECT_EQ(tenant.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tenant.status().message()), HasSubstr(words));
  }
}

TEST(TenantHasher, TellsTenantsApartUnderItsOwnKey) {
  const TenantHasher hasher, other;
  EXPECT_TRUE(hasher.Hash("") == Hash128{});
  EXPECT_TRUE(hasher.Hash("acme") == hasher.Hash("acme"));
  EXPECT_FALSE(hasher.Hash("acme") == hasher.Hash("acme2"));
  EXPECT_FALSE(hasher.Hash(std::string("\0", 1)) == Hash128{});
  EXPECT_FALSE(hasher.Hash("acme") == other.Hash("acme"));
}

}  // namespace
}  // namespace tutti::coordinator
