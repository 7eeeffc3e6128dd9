#include "client/passed_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<ProgramOptions>& Programs() {
  static const auto* const all = new std::vector<ProgramOptions>{
      {"gateway", {"tls-cert", "allow-host", "api-key", "http-plaintext", "coordinator"}},
      {"coordinator", {"tls-cert", "metrics", "chat-template", "certs", "cluster-id"}},
      {"worker", {"metrics", "model-cache", "certs"}}};
  return *all;
}

PassedOn Passed(const std::vector<std::string>& others,
                const std::vector<std::string>& environment = {}) {
  std::string unknown;
  auto passed = PassOn(others, environment, Programs(), &unknown);
  EXPECT_TRUE(passed.ok()) << passed.status();
  return passed.ok() ? *std::move(passed) : PassedOn();
}

TEST(PassOn, AnOptionIsOfTheFirstThatHasIt) {
  const PassedOn passed =
      Passed({"--tls-cert", "c.pem", "--metrics=127.0.0.1:9090", "--allow-host", "a",
              "--allow-host", "b", "--model-cache", "/x", "--http-plaintext"});
  EXPECT_THAT(passed.gateway.arguments, ElementsAre("--tls-cert", "c.pem", "--allow-host", "a",
                                                    "--allow-host", "b", "--http-plaintext"));
  EXPECT_THAT(passed.coordinator.arguments, ElementsAre("--metrics=127.0.0.1:9090"));
  EXPECT_THAT(passed.workers.arguments, ElementsAre("--model-cache", "/x"));
}

TEST(PassOn, AProgramMayBeNamed) {
  const PassedOn passed = Passed({"--coordinator.tls-cert", "c.pem", "--worker.metrics=:9091"});
  EXPECT_THAT(passed.gateway.arguments, IsEmpty());
  EXPECT_THAT(passed.coordinator.arguments, ElementsAre("--tls-cert", "c.pem"));
  EXPECT_THAT(passed.workers.arguments, ElementsAre("--metrics=:9091"));
}

TEST(PassOn, WhatIsOfNobodyIsAnError) {
  for (const std::vector<std::string>& others : std::vector<std::vector<std::string>>{
           {"--no-such", "x"}, {"--worker.tls-cert", "x"}, {"--other.metrics", "x"}, {"word"}}) {
    std::string unknown;
    EXPECT_FALSE(PassOn(others, {}, Programs(), &unknown).ok());
    EXPECT_EQ(unknown, others[0]);
  }
  std::string unknown;
  const auto tied = PassOn({"--cluster-id", "x"}, {}, Programs(), &unknown);
  EXPECT_THAT(std::string(tied.status().message()), HasSubstr("sets it itself"));
  EXPECT_EQ(unknown, "");
}

TEST(PassOn, VariablesToo) {
  const PassedOn passed = Passed({}, {"TUTTI_API_KEY=k", "TUTTI_CHAT_TEMPLATE=t.jinja",
                                      "TUTTI_WGMMA=off", "TUTTI_ADDRESS=a:1", "TUTTI_METRICS="});
  EXPECT_THAT(passed.gateway.environment, ElementsAre("TUTTI_API_KEY=k", "TUTTI_WGMMA=off"));
  EXPECT_THAT(passed.coordinator.environment,
              ElementsAre("TUTTI_CHAT_TEMPLATE=t.jinja", "TUTTI_WGMMA=off"));
  EXPECT_THAT(passed.workers.environment, ElementsAre("TUTTI_WGMMA=off"));
  EXPECT_THAT(passed.notices, IsEmpty());
}

TEST(ExtrasOfWorker, HaveAPortForMetricsEach) {
  const ProgramExtras first = {{"--metrics", "0.0.0.0:9101", "--metrics=[::1]:9101", "--x", "a:1"},
                               {"TUTTI_WORKER_METRICS=:9101", "TUTTI_X=a:1"}};
  EXPECT_EQ(ExtrasOfWorker(first, 0).arguments, first.arguments);
  const ProgramExtras third = ExtrasOfWorker(first, 2);
  EXPECT_THAT(third.arguments,
              ElementsAre("--metrics", "0.0.0.0:9103", "--metrics=[::1]:9103", "--x", "a:1"));
  EXPECT_THAT(third.environment, ElementsAre("TUTTI_WORKER_METRICS=:9103", "TUTTI_X=a:1"));
  EXPECT_THAT(ExtrasOfWorker({{"--metrics", "a:0"}, {}}, 2).arguments,
              ElementsAre("--metrics", "a:0"));
}

TEST(PassOn, WhatIsLeftOutIsSaid) {
  const PassedOn passed = Passed({}, {"TUTTI_TLS_CERT=alice.pem", "TUTTI_CLUSTER_ID=x"});
  EXPECT_THAT(passed.gateway.environment, IsEmpty());
  EXPECT_THAT(passed.coordinator.environment, IsEmpty());
  ASSERT_EQ(passed.notices.size(), 2u);
  EXPECT_THAT(passed.notices[0], HasSubstr("TUTTI_TLS_CERT is left out"));
  EXPECT_THAT(passed.notices[1], HasSubstr("TUTTI_CLUSTER_ID is left out"));
}

}  // namespace
}  // namespace tutti::client
