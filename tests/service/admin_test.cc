// The requests of an operator to a running service.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/in_process_cluster.h"
#include "tutti/v1/cluster.grpc.pb.h"

namespace tutti::tests {
namespace {

using ::testing::HasSubstr;

class AdminTest : public ::testing::Test {
 protected:
  AdminTest() : cluster_({.model_dir = DemoDir(), .layers = {2, 2}}) {}

  grpc::Status Lookup(const v1::LookupPrefixRequest& request, v1::LookupPrefixResponse* found) {
    grpc::ClientContext context;
    return v1::Admin::NewStub(cluster_.admin_channel())->LookupPrefix(&context, request, found);
  }

  InProcessCluster cluster_;
};

TEST_F(AdminTest, SaysWhichWorkersHoldAPrompt) {
  v1::GenerateRequest request;
  v1::LookupPrefixRequest lookup;
  for (int32_t id = 1; id <= 40; ++id) {
    request.mutable_token_ids()->add_ids(id);
    lookup.mutable_token_ids()->add_ids(id);
  }
  request.set_tenant("somebody");
  request.mutable_sampling()->set_max_tokens(2);
  ASSERT_TRUE(cluster_.Generate(request).status.ok());
  lookup.set_tenant("somebody");
  v1::LookupPrefixResponse found;
  const grpc::Status status = Lookup(lookup, &found);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(found.prompt_tokens(), 40);
  ASSERT_EQ(found.holdings_size(), 1);
  EXPECT_EQ(found.holdings(0).tokens(), 32) << "whole blocks of 16";
  ASSERT_EQ(found.holdings(0).shards_size(), 2);
  EXPECT_EQ(found.holdings(0).shards(0).num_layers(), 2);
  EXPECT_EQ(found.holdings(0).shards(1).first_layer(), 2);
  EXPECT_GT(found.holdings(0).shards(1).kv_bytes(), 0);
  EXPECT_NE(found.holdings(0).shards(0).worker_id(), found.holdings(0).shards(1).worker_id());

  lookup.set_tenant("somebody else");
  ASSERT_TRUE(Lookup(lookup, &found).ok());
  EXPECT_EQ(found.holdings_size(), 0) << "no tenant finds another's";
}

TEST_F(AdminTest, TextsAndConversationsAreLookedUpToo) {
  v1::LookupPrefixRequest lookup;
  lookup.set_text("12+30=");
  v1::LookupPrefixResponse found;
  ASSERT_TRUE(Lookup(lookup, &found).ok());
  EXPECT_GT(found.prompt_tokens(), 0);
  v1::ChatMessage& message = *lookup.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("What is 12 + 30?");
  ASSERT_TRUE(Lookup(lookup, &found).ok());
  EXPECT_GT(found.prompt_tokens(), 5);
}

TEST_F(AdminTest, BadLookupsAreNamed) {
  v1::LookupPrefixRequest lookup;
  v1::LookupPrefixResponse found;
  EXPECT_THAT(Lookup(lookup, &found).error_message(), HasSubstr("text, token_ids and chat"));
  lookup.set_text("x");
  lookup.set_tenant(std::string(100'000, '\xff'));
  EXPECT_EQ(Lookup(lookup, &found).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  lookup.set_tenant("");
  lookup.mutable_token_ids()->add_ids(-7);
  EXPECT_TRUE(Lookup(lookup, &found).ok());
  EXPECT_EQ(found.holdings_size(), 0);
  lookup.mutable_token_ids()->clear_ids();
  EXPECT_TRUE(Lookup(lookup, &found).ok()) << "no worker holds an empty prompt";
}

}  // namespace
}  // namespace tutti::tests
