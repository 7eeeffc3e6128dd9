#include "coordinator/service/resume_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

class ResumeTokensTest : public ::testing::Test {
 protected:
  static ResumeClaims Claims() {
    ResumeClaims claims;
    claims.seed = ~uint64_t{0} - 5;
    claims.max_tokens = 131072;
    claims.body = {1, 2};
    claims.meaning = {3, 4};
    claims.tenant = {5, 6};
    claims.model = {7, ~uint64_t{0}};
    claims.numerics = "cpu-f32";
    return claims;
  }
  ResumeTokens Keyed(const std::string& key) {
    return ResumeTokens(key, [this] { return now_; });
  }

  int64_t now_ = 1'800'000'000;
  const ResumeTokens tokens_ = Keyed(std::string(32, 'k'));
};

TEST_F(ResumeTokensTest, ClaimsComeBackAsTheyWere) {
  ResumeClaims claims = Claims();
  for (const std::string& numerics :
       {std::string(), std::string("cpu-f32"), std::string(kNumericsClassBytesMax, 'n')}) {
    claims.numerics = numerics;
    const auto opened = tokens_.Open(tokens_.Issue(claims));
    ASSERT_TRUE(opened.ok()) << opened.status();
    claims.issued_s = now_;
    EXPECT_EQ(*opened, claims);
  }
  claims.numerics.push_back('n');
  EXPECT_EQ(tokens_.Issue(claims), "") << "too long a name for a token";
}

TEST_F(ResumeTokensTest, ARestartedCoordinatorTakesThemAndAStrangerDoesNot) {
  const std::string token = tokens_.Issue(Claims());
  EXPECT_TRUE(Keyed(std::string(32, 'k')).Open(token).ok());
  const auto foreign = Keyed(std::string(32, 'l')).Open(token);
  EXPECT_EQ(foreign.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(foreign.status().message()), HasSubstr("not given by this service"));
}

TEST_F(ResumeTokensTest, EveryChangedBitAndEveryOtherLengthIsRefused) {
  const std::string token = tokens_.Issue(Claims());
  for (size_t at = 0; at < token.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = token;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      EXPECT_EQ(tokens_.Open(changed).status().code(), absl::StatusCode::kInvalidArgument) << at;
    }
    EXPECT_EQ(tokens_.Open(token.substr(0, at)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const size_t more : {size_t{1}, size_t{100}, size_t{1} << 20}) {
    EXPECT_EQ(tokens_.Open(token + std::string(more, '\0')).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(ResumeTokensTest, ExpireAfterAnHour) {
  const std::string token = tokens_.Issue(Claims());
  now_ += kResumeTokenLifeSeconds;
  EXPECT_TRUE(tokens_.Open(token).ok());
  ++now_;
  const auto expired = tokens_.Open(token);
  EXPECT_EQ(expired.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(expired.status().message()), HasSubstr("expired"));
  now_ -= 2 * kResumeTokenLifeSeconds;  // a clock that was set back, or that of another machine
  EXPECT_TRUE(tokens_.Open(token).ok());
}

TEST_F(ResumeTokensTest, TheBodyIsAllThatMakesTheAnswer) {
  v1::GenerateRequest message;
  message.set_text("hello");
  (*message.mutable_sampling()->mutable_logit_bias())[7] = 1;
  (*message.mutable_sampling()->mutable_logit_bias())[-9] = 2;
  const Hash128 body = tokens_.HashBody(&message);
  message.set_request_id("a");
  message.set_tenant("b");
  message.mutable_resume()->set_token("c");
  message.mutable_speculation()->set_mode(v1::Speculation::MODE_LOOKUP);
  EXPECT_EQ(tokens_.HashBody(&message), body);
  EXPECT_EQ(message.speculation().mode(), v1::Speculation::MODE_LOOKUP);
  EXPECT_EQ(message.request_id(), "a");
  EXPECT_EQ(message.tenant(), "b");
  EXPECT_EQ(message.resume().token(), "c");
  v1::GenerateRequest other = message;
  other.set_text("hellp");
  EXPECT_NE(tokens_.HashBody(&other), body);
  other = message;
  other.mutable_sampling()->set_seed(0);
  EXPECT_NE(tokens_.HashBody(&other), body);
  other = message;
  other.set_n(1);
  EXPECT_NE(tokens_.HashBody(&other), body);
}

TEST_F(ResumeTokensTest, TheMeaningIsWhatIsComputed) {
  Request request;
  request.prompt = {1, 2, 3};
  request.stop_token_ids = {4};
  const Hash128 meaning = tokens_.HashMeaning(request);
  request.sampling.set_seed(9);
  EXPECT_EQ(tokens_.HashMeaning(request), meaning) << "the claims have the seed";
  Request other = request;
  other.prompt = {1, 2};
  other.stop_token_ids = {3, 4};
  EXPECT_NE(tokens_.HashMeaning(other), meaning);
  other = request;
  other.sampling.set_temperature(1);
  EXPECT_NE(tokens_.HashMeaning(other), meaning);
}

TEST_F(ResumeTokensTest, WhatDiffersIsNamed) {
  const ResumeClaims claims = Claims();
  EXPECT_TRUE(CheckSameRequest(claims, claims).ok());
  const auto refusal = [&](Hash128 ResumeClaims::*member) {
    ResumeClaims other = claims;
    (other.*member).low ^= 1;
    const absl::Status status = CheckSameRequest(claims, other);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(&ResumeClaims::tenant), HasSubstr("tenant"));
  EXPECT_THAT(refusal(&ResumeClaims::model), HasSubstr("checkpoint"));
  EXPECT_THAT(refusal(&ResumeClaims::body), HasSubstr("request"));
  EXPECT_TRUE(CheckSameMeaning(claims, claims.meaning).ok());
  EXPECT_EQ(CheckSameMeaning(claims, {}).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tutti::coordinator
