#include "gateway/door_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "gateway/http/host_name.h"

namespace tutti::gateway {
namespace {

// printf %s secret-1 | sha256sum
constexpr char kKeys[] =
    "# who may call\n"
    "acme f7e7c36e458e80e6b6a2c67d0a9ec09bd718dadd7bfa8d6bf6e7ad526e46c2f7  # theirs\n"
    "\n"
    "beta\tf4b6bb6548129dacf11c1a9c4dffffefd4aa6b21fcf4e9754cc03b731cbe7c25\r\n";

HttpRequest From(HttpFields fields, bool is_local = true) {
  HttpRequest request;
  request.peer.is_local = is_local;
  request.method = "POST";
  request.fields = std::move(fields);
  return request;
}

int StatusOf(const DoorRules& rules, HttpFields fields, bool is_local = true) {
  const auto admitted = Admit(rules, From(std::move(fields), is_local), /*open=*/false);
  const auto* error = std::get_if<ApiError>(&admitted);
  return error == nullptr ? 200 : error->status;
}

TEST(ApiKeys, KnowTheTenantOfAKey) {
  const auto keys = ApiKeys::Parse(kKeys, "keys");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->TenantOf("secret-1"), "acme");
  EXPECT_EQ(keys->TenantOf("secret-2"), "beta");
  EXPECT_FALSE(keys->TenantOf("secret-3").has_value());
  EXPECT_FALSE(keys->TenantOf("").has_value());
  EXPECT_FALSE(keys->TenantOf(std::string(10000, 'x')).has_value());
}

// printf %s secret-3 | sha256sum
constexpr char kOperatorKey[] =
    "ops 2c7d3470d617514ede9f8b07e2912811351e6efe42cdc07b661a790b6659d486 operator\n";

TEST(ApiKeys, KnowOperators) {
  const auto keys = ApiKeys::Parse(std::string(kKeys) + kOperatorKey, "keys");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->TenantOf("secret-3"), "ops");
  EXPECT_TRUE(keys->IsOperator("secret-3"));
  EXPECT_FALSE(keys->IsOperator("secret-1"));
  EXPECT_FALSE(keys->IsOperator("secret-4"));
  EXPECT_FALSE(keys->IsOperator(""));
}

TEST(AdmitOperator, LetsInWhoMaySeeTheState) {
  const auto status_of = [](const DoorRules& rules, HttpFields fields) {
    const auto error = AdmitOperator(rules, From(std::move(fields)));
    return error.has_value() ? error->status : 200;
  };
  DoorRules rules;
  rules.cors_origins = {"*"};
  EXPECT_EQ(status_of(rules, {{"host", "127.0.0.1:8000"}}), 200);
  EXPECT_EQ(status_of(rules, {{"host", "evil.example"}}), 403);
  EXPECT_EQ(status_of(rules, {{"host", "localhost"}, {"sec-fetch-site", "same-origin"}}), 200);
  EXPECT_EQ(status_of(rules, {{"host", "localhost"}, {"sec-fetch-site", "none"}}), 200);
  EXPECT_EQ(status_of(rules, {{"host", "localhost"}, {"sec-fetch-site", "cross-site"}}), 403);
  rules.keys = *ApiKeys::Parse(std::string(kKeys) + kOperatorKey, "keys");
  EXPECT_EQ(status_of(rules, {{"host", "a"}}), 401);
  EXPECT_EQ(status_of(rules, {{"host", "a"}, {"authorization", "Bearer secret-1"}}), 403);
  EXPECT_EQ(status_of(rules, {{"host", "a"}, {"authorization", "Bearer secret-3"}}), 200);
}

TEST(ApiKeys, NameTheLineThatIsNone) {
  for (const char* text : {"acme\n", "acme 1234\n", "a b c\n", "a/b 5b11\n"}) {
    const auto keys = ApiKeys::Parse(std::string("# first\n") + text, "keys");
    ASSERT_FALSE(keys.ok());
    EXPECT_TRUE(absl::StrContains(keys.status().message(), "keys:2:")) << keys.status();
  }
  EXPECT_FALSE(ApiKeys::Parse("# nobody\n", "keys").ok());
}

TEST(ApiKeys, ComeAsBearers) {
  EXPECT_EQ(BearerKey("Bearer k"), "k");
  EXPECT_EQ(BearerKey("bearer  k"), "k");
  for (const char* other : {"", "Bearer", "Bearer ", "Basic k"}) EXPECT_EQ(BearerKey(other), "");
}

TEST(AdmitBody, ReadsNoneOfWhoHasNoKey) {
  const auto status_of = [](const DoorRules& rules, HttpFields fields,
                            const char* method = "POST") {
    HttpRequest head = From(std::move(fields));
    head.method = method;
    const auto admitted = AdmitBody(rules, head);
    const auto* error = std::get_if<ApiError>(&admitted);
    return error == nullptr ? 200 : error->status;
  };
  DoorRules rules;
  EXPECT_EQ(status_of(rules, {{"host", "localhost"}}), 200);
  EXPECT_EQ(status_of(rules, {{"host", "evil.example"}}), 403);
  rules.keys = *ApiKeys::Parse(kKeys, "keys");
  EXPECT_EQ(status_of(rules, {{"host", "localhost"}}), 401);
  EXPECT_EQ(status_of(rules, {{"host", "localhost"}}, "OPTIONS"), 401);
  EXPECT_EQ(status_of(rules, {{"host", "a"}, {"authorization", "Bearer wrong"}}), 401);
  EXPECT_EQ(status_of(rules, {{"host", "a"}, {"authorization", "Bearer secret-1"}}), 200);
}

TEST(Admit, WithoutKeysAnswersLoopbackNamesOnly) {
  DoorRules rules;
  rules.allowed_hosts = {"box"};
  EXPECT_EQ(StatusOf(rules, {{"host", "127.0.0.1:8000"}}), 200);
  EXPECT_EQ(StatusOf(rules, {{"host", "localhost:8000"}}), 200);
  EXPECT_EQ(StatusOf(rules, {{"host", "box:8000"}}), 200);
  EXPECT_EQ(StatusOf(rules, {}), 200);  // HTTP/1.0
  EXPECT_EQ(StatusOf(rules, {{"host", "evil.com"}}), 403);
  EXPECT_EQ(StatusOf(rules, {{"host", "localhost"}, {"origin", "http://localhost:3000"}}), 200);
  EXPECT_EQ(StatusOf(rules, {{"host", "localhost"}, {"origin", "https://evil.com"}}), 403);
  EXPECT_EQ(StatusOf(rules, {{"host", "localhost"}, {"origin", "null"}}), 403);
  rules.cors_origins = {"https://chat.example"};
  EXPECT_EQ(StatusOf(rules, {{"host", "localhost"}, {"origin", "https://chat.example"}}), 200);
}

// What a caller writes into its request lets it in nowhere.
TEST(Admit, WithoutKeysAnswersCallersOfThisMachineOnly) {
  DoorRules rules;
  rules.allowed_hosts = {"box"};
  rules.cors_origins = {"*"};
  for (const char* host : {"localhost", "127.0.0.1:8000", "[::1]", "box", "10.0.0.5:8000"}) {
    EXPECT_EQ(StatusOf(rules, {{"host", host}}, /*is_local=*/false), 403) << host;
    EXPECT_TRUE(std::holds_alternative<ApiError>(AdmitBody(rules, From({{"host", host}}, false))));
    EXPECT_TRUE(AdmitOperator(rules, From({{"host", host}}, false)).has_value());
  }
  EXPECT_EQ(StatusOf(rules, {}, /*is_local=*/false), 403);
  // Probes come from anywhere, under whatever name.
  EXPECT_TRUE(std::holds_alternative<std::string>(
      Admit(rules, From({{"host", "10.1.2.3:8000"}}, false), /*open=*/true)));
  rules.without_keys = true;
  for (const char* host : {"localhost", "box", "10.0.0.5:8000", "[fd00::7]:8000"}) {
    EXPECT_EQ(StatusOf(rules, {{"host", host}}, /*is_local=*/false), 200) << host;
    // The state of the service is this machine's all the same.
    EXPECT_TRUE(AdmitOperator(rules, From({{"host", host}}, false)).has_value());
  }
  // Browsers are kept from calling for others' pages as before.
  for (const char* host : {"evil.example", "0.0.0.0:8000", "[::]:8000"}) {
    EXPECT_EQ(StatusOf(rules, {{"host", host}}, /*is_local=*/false), 403) << host;
    EXPECT_EQ(StatusOf(rules, {{"host", host}}), 403) << host;
  }
}

TEST(AccountOfAddress, IsAnAddressOrACustomersNetwork) {
  EXPECT_EQ(AccountOfAddress("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(AccountOfAddress("::ffff:127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(AccountOfAddress("2001:db8::7"), AccountOfAddress("2001:db8::8"));
  EXPECT_NE(AccountOfAddress("2001:db8:0:1::7"), AccountOfAddress("2001:db8::7"));
}

TEST(Admit, WithKeysAnswersTheirHoldersOnly) {
  DoorRules rules;
  rules.keys = *ApiKeys::Parse(kKeys, "keys");
  EXPECT_EQ(StatusOf(rules, {{"host", "evil.com"}}), 401);
  EXPECT_EQ(StatusOf(rules, {{"authorization", "Bearer wrong"}}), 401);
  EXPECT_EQ(StatusOf(rules, {{"host", "a"}, {"authorization", "Bearer secret-1"}}), 200);
  const auto admitted = Admit(rules, From({{"authorization", "Bearer secret-2"}}), false);
  EXPECT_EQ(std::get<std::string>(admitted), "beta");
  EXPECT_TRUE(std::holds_alternative<std::string>(Admit(rules, From({}), /*open=*/true)));
}

TEST(CorsFields, AreForAllowedOrigins) {
  DoorRules rules;
  EXPECT_TRUE(CorsFields(rules, From({{"origin", "https://a"}})).empty());
  rules.cors_origins = {"*"};
  const HttpFields fields = CorsFields(rules, From({{"origin", "https://a"}}));
  ASSERT_FALSE(fields.empty());
  EXPECT_EQ(fields[0].second, "https://a");
  EXPECT_TRUE(CorsFields(rules, From({{"origin", "https://a\x01"}})).empty());
  // OpenAI's SDK in a browser says what it runs on.
  HttpRequest before =
      From({{"origin", "https://a"}, {"access-control-request-headers", "x-stainless-os"}});
  before.method = "OPTIONS";
  const HttpFields allowed = CorsFields(rules, before);
  EXPECT_TRUE(std::count(allowed.begin(), allowed.end(),
                         std::pair<std::string, std::string>("Access-Control-Allow-Headers",
                                                             "x-stainless-os")) == 1);
  EXPECT_TRUE(CorsFields(rules, From({})).empty());
}

}  // namespace
}  // namespace tutti::gateway
