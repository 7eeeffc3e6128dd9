// The details that clients are told of errors beside the words, and how errors are counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/support/in_process_cluster.h"
#include "tutti/v1/cluster.grpc.pb.h"

namespace tutti::tests {
namespace {

v1::GenerateRequest AskTokens(uint32_t max_tokens = 4) {
  v1::GenerateRequest request;
  request.set_text("12+30=");
  request.mutable_sampling()->set_max_tokens(max_tokens);
  request.mutable_sampling()->set_ignore_eos(true);
  return request;
}

// The first detail of its type; empty: there is none.
template <typename Detail>
Detail Find(const std::string& rich_bytes) {
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(rich_bytes));
  Detail detail;
  for (const auto& any : rich.details()) {
    if (any.UnpackTo(&detail)) return detail;
  }
  return Detail();
}

std::string FieldOf(const std::string& rich_bytes) {
  const auto bad = Find<google::rpc::BadRequest>(rich_bytes);
  return bad.field_violations_size() == 1 ? bad.field_violations(0).field() : "";
}

class ErrorTest : public ::testing::Test {
 protected:
  InProcessCluster cluster_{
      {.model_dir = DemoDir(), .engine = {.max_sequences = 2, .max_waiting = 0}}};
};

TEST_F(ErrorTest, AnInvalidRequestNamesItsFieldAndForbidsARetry) {
  v1::GenerateRequest request = AskTokens();
  request.mutable_sampling()->set_top_p(2);
  const Answer refused = cluster_.Generate(request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  const std::string& rich = refused.trailing_metadata.at("grpc-status-details-bin");
  EXPECT_EQ(FieldOf(rich), "sampling.top_p");
  EXPECT_EQ(Find<google::rpc::ErrorInfo>(rich).reason(), "INVALID_REQUEST");
  EXPECT_EQ(Find<google::rpc::ErrorInfo>(rich).domain(), "tutti");
  EXPECT_EQ(refused.trailing_metadata.at("grpc-retry-pushback-ms"), "-1");
  EXPECT_FALSE(refused.trailing_metadata.contains("retry-after-ms"));

  grpc::ClientContext tokenize, detokenize, lookup;
  v1::TokenizeRequest text;
  text.set_model("other");
  v1::TokenizeResponse tokens;
  grpc::Status status = cluster_.inference()->Tokenize(&tokenize, text, &tokens);
  EXPECT_EQ(Find<google::rpc::ErrorInfo>(status.error_details()).reason(), "NOT_FOUND");
  v1::DetokenizeRequest ids;
  ids.add_ids(1 << 30);
  v1::DetokenizeResponse words;
  status = cluster_.inference()->Detokenize(&detokenize, ids, &words);
  EXPECT_EQ(FieldOf(status.error_details()), "ids[0]") << status.error_message();
  v1::LookupPrefixResponse found;
  status = v1::Admin::NewStub(cluster_.admin_channel())->LookupPrefix(&lookup, {}, &found);
  EXPECT_EQ(FieldOf(status.error_details()), "prompt") << status.error_message();
}

TEST_F(ErrorTest, ARefusalForNowSaysWhenInEveryWay) {
  v1::GenerateRequest request = AskTokens();
  request.set_n(3);
  const Answer refused = cluster_.Generate(request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
  const std::string& ms = refused.trailing_metadata.at("retry-after-ms");
  EXPECT_EQ(refused.trailing_metadata.at("grpc-retry-pushback-ms"), ms);
  const auto delay =
      Find<google::rpc::RetryInfo>(refused.trailing_metadata.at("grpc-status-details-bin"))
          .retry_delay();
  EXPECT_EQ(absl::StrCat(delay.seconds() * 1000 + delay.nanos() / 1'000'000), ms);
  EXPECT_GE(std::atoi(ms.c_str()), 5000) << "nothing was measured yet";
  EXPECT_LE(std::atoi(ms.c_str()), 6250) << "and a quarter at random";
  cluster_.WaitIdle();
}

TEST(Counters, MistakesAndDeadlinesOfClientsAreNoFailures) {
  InProcessCluster cluster({.model_dir = DemoDir()});
  v1::GenerateRequest wrong = AskTokens();
  wrong.set_n(1000);
  EXPECT_EQ(cluster.Generate(wrong).status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(cluster.Generate(AskTokens()).status.ok());
  // It waits until its time is over.
  cluster.StopWorker(0);
  for (int tries = 0; tries < 1000 && cluster.Status().degraded().empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(400));
  const auto reader = cluster.inference()->Generate(&context, AskTokens());
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  v1::RequestCounters counters;
  for (int tries = 0; tries < 1000; ++tries) {
    counters = cluster.Status().requests();
    if (counters.deadline_exceeded() + counters.cancelled() > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(counters.invalid(), 1u);
  // A machine that stands still may see the client leave well before its own clock says why.
  EXPECT_EQ(counters.deadline_exceeded() + counters.cancelled(), 1u) << counters.ShortDebugString();
  EXPECT_EQ(counters.failed(), 0u);
  EXPECT_EQ(counters.refused(), 0u);
  EXPECT_EQ(counters.accepted(), 2u);
  EXPECT_EQ(counters.finished(), 1u);
}

TEST_F(ErrorTest, IdsGoBackToTheirText) {
  grpc::ClientContext tokenize, detokenize;
  v1::TokenizeRequest text;
  text.set_text("12+30=42, naïve 🙂");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(cluster_.inference()->Tokenize(&tokenize, text, &tokens).ok());
  v1::DetokenizeRequest ids;
  *ids.mutable_ids() = tokens.ids();
  v1::DetokenizeResponse words;
  ASSERT_TRUE(cluster_.inference()->Detokenize(&detokenize, ids, &words).ok());
  EXPECT_EQ(words.text(), text.text());
  EXPECT_EQ(words.tokens_size(), tokens.tokens_size());
}

}  // namespace
}  // namespace tutti::tests
