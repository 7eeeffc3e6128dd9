#include "door/tenant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "door/limits.h"

namespace tutti::door {
namespace {

using ::testing::HasSubstr;

const std::string kAnyBytes("\0\xff/../ \n", 8);

const AskerRights kGateway = RightsOf({.roles = {transport::Role::kGateway}});

TEST(TenantOf, TakesTheFieldOrTheMetadataOfAGateway) {
  EXPECT_EQ(*TenantOf("", {}, kGateway), "");
  EXPECT_EQ(*TenantOf(kAnyBytes, {}, kGateway), kAnyBytes);
  EXPECT_EQ(*TenantOf("", {"acme"}, kGateway), "acme");
  EXPECT_EQ(*TenantOf("acme", {"acme"}, kGateway), "acme");
  EXPECT_EQ(*TenantOf("acme", {""}, kGateway), "acme");
  EXPECT_EQ(TenantOf(std::string(kTenantBytesMax, 'x'), {}, kGateway)->size(), 256u);
}

transport::Caller CallerNamed(transport::Role role, const std::string& name) {
  return {.has_certificate = true, .identities = {{role, name}}, .roles = {role}};
}

TEST(TenantOf, AClientAsksForItself) {
  const AskerRights nobody = RightsOf({.roles = {transport::Role::kClient}});
  EXPECT_EQ(*TenantOf("", {}, nobody), "");
  EXPECT_EQ(*TenantOf("", {""}, nobody), "");
  const AskerRights acme = RightsOf(CallerNamed(transport::Role::kClient, "acme"));
  EXPECT_EQ(*TenantOf("", {}, acme), "acme") << "its certificate's name";
  EXPECT_EQ(*TenantOf("acme", {}, acme), "acme");
  EXPECT_EQ(*TenantOf("", {"acme"}, acme), "acme");
  for (const AskerRights* rights : {&nobody, &acme}) {
    for (const auto& [field, metadata] :
         {std::pair<std::string, std::vector<std::string>>{"other", {}}, {"", {"other"}}}) {
      const auto tenant = TenantOf(field, metadata, *rights);
      EXPECT_EQ(tenant.status().code(), absl::StatusCode::kPermissionDenied);
      EXPECT_THAT(std::string(tenant.status().message()), HasSubstr("--public-role"));
    }
  }
  const AskerRights gateway = RightsOf(CallerNamed(transport::Role::kGateway, "front"));
  EXPECT_EQ(*TenantOf("", {}, gateway), "front");
  EXPECT_EQ(*TenantOf("acme", {}, gateway), "acme");
}

TEST(CheckHurry, OnlyAGatewayGoesBeforeOthers) {
  const AskerRights client = RightsOf({.roles = {transport::Role::kClient}});
  EXPECT_TRUE(CheckHurry(0, client).ok());
  EXPECT_TRUE(CheckHurry(100, client).ok());
  EXPECT_EQ(CheckHurry(-1, client).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(CheckHurry(-100, kGateway).ok());
  const AskerRights operators = RightsOf({.roles = {transport::Role::kOperator}});
  EXPECT_FALSE(CheckHurry(-1, operators).ok()) << "who looks does not ask";
}

TEST(TenantOf, RefusesContradictionsAndLongNames) {
  for (const auto& [field, metadata, words] :
       {std::tuple<std::string, std::vector<std::string>, std::string>{
            "acme", {"other"}, "two different tenants"},
        {"", {"a", "a"}, "x-tutti-tenant: given 2 times"},
        {std::string(kTenantBytesMax + 1, 'x'), {}, "tenant is longer than 256"},
        {"", {std::string(kTenantBytesMax + 1, 'x')}, "x-tutti-tenant is longer than 256"}}) {
    const auto tenant = TenantOf(field, metadata, kGateway);
    EXPECT_EQ(tenant.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tenant.status().message()), HasSubstr(words));
  }
}

TEST(AccountOf, OnlyAGatewayNamesOne) {
  const AskerRights client = RightsOf({.roles = {transport::Role::kClient}});
  EXPECT_EQ(*AccountOf({}, client), "");
  EXPECT_EQ(*AccountOf({}, kGateway), "");
  EXPECT_EQ(*AccountOf({"at 10.1.0.1"}, kGateway), "at 10.1.0.1");
  EXPECT_EQ(AccountOf({"at 10.1.0.1"}, client).status().code(),
            absl::StatusCode::kPermissionDenied);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"a", "a"}, {std::string(kTenantBytesMax + 1, 'x')}}) {
    const auto account = AccountOf(wrong, kGateway);
    EXPECT_EQ(account.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(account.status().message()), HasSubstr("x-tutti-account"));
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

TEST(TenantHasher, ASaltMakesADomainOfItsOwnInATenants) {
  const TenantHasher hasher;
  const Hash128 acme = hasher.Hash("acme");
  EXPECT_TRUE(hasher.HashSalt(acme, "") == acme);
  const Hash128 salted = hasher.HashSalt(acme, "s");
  EXPECT_TRUE(salted == hasher.HashSalt(acme, "s"));
  for (const Hash128& other : {acme, Hash128{}, hasher.HashSalt(acme, "t"), hasher.Hash("s"),
                               hasher.HashSalt({}, "s"), hasher.HashSalt(hasher.Hash("b"), "s")}) {
    EXPECT_FALSE(salted == other);
  }
}

TEST(TenantHasher, NamesBelongToTheTenantOrElseToTheHost) {
  const TenantHasher hasher;
  const Hash128 acme = hasher.Hash("acme");
  const char* const here = "ipv4:10.0.0.7:4001";
  EXPECT_TRUE(hasher.HashOwner(acme, "", here) == acme);
  const Hash128 host = hasher.HashOwner({}, "", here);
  EXPECT_TRUE(host == hasher.HashOwner({}, "", "ipv4:10.0.0.7:4002")) << "another connection";
  EXPECT_FALSE(host == hasher.HashOwner({}, "", "ipv4:10.0.0.8:4001"));
  EXPECT_FALSE(host == hasher.HashOwner({}, "", "unix:"));
  EXPECT_FALSE(hasher.HashOwner({}, "", "ipv6:%5B2001:db8::1%5D:80") ==
               hasher.HashOwner({}, "", "ipv6:%5B2001:db9::1%5D:80"));
  EXPECT_TRUE(host == hasher.HashOwner({}, "", "ipv6:%5B::ffff:10.0.0.7%5D:80"));
  EXPECT_FALSE(host == hasher.Hash("ipv4:10.0.0.7")) << "no tenant of that name";
}

// As a gateway has it (transport::AccountOf): who has an address of IPv6 has 2^64 of them, and
// would be as many owners.
TEST(TenantHasher, AHostIsSixtyFourBitsOfAnIPv6Address) {
  const TenantHasher hasher;
  const Hash128 one = hasher.HashOwner({}, "", "ipv6:%5B2001:db8:1:2::1%5D:80");
  EXPECT_TRUE(one == hasher.HashOwner({}, "", "ipv6:%5B2001:db8:1:2:abcd::77%5D:81"));
  EXPECT_FALSE(one == hasher.HashOwner({}, "", "ipv6:%5B2001:db8:1:3::1%5D:80"));
}

TEST(TenantHasher, AccountsAreOwnersWithinATenant) {
  const TenantHasher hasher;
  const Hash128 acme = hasher.Hash("acme");
  const char* const here = "ipv4:10.0.0.7:4001";
  const Hash128 account = hasher.HashOwner({}, "at 10.1.0.1", here);
  EXPECT_TRUE(account == hasher.HashOwner({}, "at 10.1.0.1", "ipv4:10.0.0.8:4001"))
      << "by another gateway";
  for (const Hash128& other :
       {hasher.HashOwner({}, "at 10.1.0.2", here), hasher.HashOwner({}, "", here),
        hasher.HashOwner(acme, "at 10.1.0.1", here), acme, hasher.Hash("at 10.1.0.1")}) {
    EXPECT_FALSE(account == other);
  }
}

}  // namespace
}  // namespace tutti::door
