// Answers that cannot go on, and calls that come again under the same name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/service/resume_testing.h"

namespace tutti::tests {
namespace {

using ::testing::HasSubstr;

class ResumeRefusalsTest : public ::testing::Test {
 protected:
  ResumeRefusalsTest() : cluster_({.model_dir = DemoDir()}) {
    request_.set_text("Tell me something: ");
    request_.mutable_sampling()->set_max_tokens(8);
    request_.mutable_sampling()->set_ignore_eos(true);
    whole_ = ReadTokenByToken(cluster_.inference(), request_);
    CHECK(whole_.status.ok()) << whole_.status.error_message();
  }
  v1::GenerateRequest Resuming(size_t cut = 3) {
    return GoOn(request_, whole_.messages, cut, false);
  }
  void ExpectRefused(grpc::StatusCode code, const std::string& words,
                     const v1::GenerateRequest& request) {
    const CutStream refused = ReadStream(cluster_.inference(), request);
    EXPECT_EQ(refused.status.error_code(), code) << refused.status.error_message();
    EXPECT_THAT(refused.status.error_message(), HasSubstr(words));
    EXPECT_TRUE(refused.messages.empty());
  }

  InProcessCluster cluster_;
  v1::GenerateRequest request_;
  CutStream whole_;
};

TEST_F(ResumeRefusalsTest, SayWhatIsWrong) {
  v1::GenerateRequest request = Resuming();
  request.mutable_resume()->mutable_token()->back() ^= 1;
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "resume.token was not given", request);
  request.mutable_resume()->clear_token();
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "resume.token was not given", request);
  request = Resuming();
  request.set_text("Tell me something else: ");
  ExpectRefused(grpc::StatusCode::FAILED_PRECONDITION, "another request", request);
  request = Resuming();
  request.set_tenant("another");
  ExpectRefused(grpc::StatusCode::FAILED_PRECONDITION, "another tenant", request);
  request = Resuming();
  request.mutable_resume()->mutable_outputs(0)->mutable_ids()->Resize(9, 1);
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "max_tokens of the answer is 8", request);
  request = Resuming();
  request.mutable_resume()->mutable_outputs(0)->set_ids(1, -1);
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "resume.outputs[0].ids[1]", request);
  request = GoOn(request_, whole_.messages, 3, true);
  request.mutable_resume()->mutable_outputs(0)->set_digest(1);
  ExpectRefused(grpc::StatusCode::DATA_LOSS, "not those of its digest", request);
  EXPECT_TRUE(ReadStream(cluster_.inference(), Resuming()).status.ok());
}

TEST_F(ResumeRefusalsTest, TwiceAtOnceBothGoOnWhereTheyHaveNoName) {
  std::future<CutStream> other = std::async(
      std::launch::async, [this] { return ReadStream(cluster_.inference(), Resuming()); });
  const CutStream one = ReadStream(cluster_.inference(), Resuming());
  EXPECT_TRUE(one.status.ok());
  EXPECT_TRUE(other.get().status.ok());
}

// A call that runs for long under a name.
class NamedCallTest : public ResumeRefusalsTest {
 protected:
  NamedCallTest() {
    request_.set_request_id("mine");
    request_.mutable_sampling()->set_temperature(2);
    request_.mutable_sampling()->clear_max_tokens();
    reader_ = cluster_.inference()->Generate(&context_, request_);
    v1::GenerateResponse message;
    while (got_.size() < 3 && reader_->Read(&message)) got_.push_back(message);
  }
  ~NamedCallTest() override { context_.TryCancel(); }
  // The end of the first call.
  grpc::Status End() {
    v1::GenerateResponse message;
    while (reader_->Read(&message)) {
    }
    return reader_->Finish();
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  std::vector<v1::GenerateResponse> got_;
};

TEST_F(NamedCallTest, TheSameTakesItOverWithTheSameSeed) {
  const CutStream again = ReadStream(cluster_.inference(), request_, 3);
  ASSERT_EQ(again.messages.size(), 3u);
  EXPECT_EQ(again.messages[0].started().seed(), got_[0].started().seed());
  EXPECT_EQ(again.messages[0].index(), 0u);
  EXPECT_EQ(again.messages[0].tokens(0).id(), got_[0].tokens(0).id());
  const grpc::Status end = End();
  // Where it was over before: it took the whole context while the second began.
  if (!end.ok()) {
    EXPECT_EQ(end.error_code(), grpc::StatusCode::ABORTED) << end.error_message();
  }
}

TEST_F(NamedCallTest, ItGoesOnOverAnotherCall) {
  const CutStream rest = ReadStream(cluster_.inference(), GoOn(request_, got_, 3, false), 3);
  ASSERT_EQ(rest.messages.size(), 3u);
  uint32_t tokens = 0;
  for (const auto& message : got_) tokens += static_cast<uint32_t>(message.tokens_size());
  EXPECT_EQ(rest.messages[0].index(), tokens);
}

TEST_F(NamedCallTest, AnotherBodyOfTheSameNameIsRefused) {
  v1::GenerateRequest other = request_;
  other.set_text("hello");
  ExpectRefused(grpc::StatusCode::ALREADY_EXISTS, "request_id", other);
  other.set_tenant("another");  // has names of its own
  EXPECT_TRUE(ReadStream(cluster_.inference(), other, 1).messages.size() == 1);
}

TEST_F(NamedCallTest, IdsThatTheModelDidNotSayAreFound) {
  v1::GenerateRequest request = GoOn(request_, got_, 3, false);
  auto& ids = *request.mutable_resume()->mutable_outputs(0)->mutable_ids();
  ids.Set(0, ids.Get(0) == 1 ? 2 : 1);
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "the model said", request);
}

}  // namespace
}  // namespace tutti::tests
