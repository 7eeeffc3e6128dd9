#include "client/resuming_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/id_digest.h"
#include "base/retry_delay.h"
#include "client/limits.h"

namespace tutti::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Duration kWithin = std::chrono::seconds(10);

v1::GenerateResponse MessageOf(uint32_t index, std::vector<int32_t> ids, uint32_t output = 0) {
  v1::GenerateResponse message;
  message.set_output(output);
  message.set_index(index);
  for (const int32_t id : ids) message.add_tokens()->set_id(id);
  return message;
}
v1::GenerateResponse First(std::vector<int32_t> ids) {
  v1::GenerateResponse message = MessageOf(0, std::move(ids));
  message.mutable_started()->set_resume_token("token");
  return message;
}

class ResumingAnswerTest : public ::testing::Test {
 protected:
  static v1::GenerateRequest Request(uint32_t n = 1) {
    v1::GenerateRequest request;
    request.set_text("hello");
    request.set_n(n);
    return request;
  }
  void Hear(v1::GenerateResponse message) {
    ASSERT_TRUE(answer_.Check(&message).ok());
    answer_.Take(message);
  }
  ResumingAnswer::End Break(absl::Status status = absl::UnavailableError("gone")) {
    return answer_.OnStreamEnd(status, /*broke=*/false, now_);
  }
  bool GoesOn(absl::Status status) { return Break(std::move(status)).pause.has_value(); }

  Instant now_ = Instant() + std::chrono::hours(1);
  ResumingAnswer answer_{Request(2), {.within = kWithin, .random = 5}};
};

TEST(ResumingAnswer, AgreesToAnotherRestOnlyWhereItIsTold) {
  for (const bool allowed : {false, true}) {
    v1::GenerateRequest request;
    request.set_text("hello");
    ResumingAnswer answer{request, {.within = kWithin, .random = 5, .allow_inexact = allowed}};
    v1::GenerateResponse message = First({4});
    ASSERT_TRUE(answer.Check(&message).ok());
    answer.Take(message);
    const Instant now = Instant() + std::chrono::hours(1);
    ASSERT_TRUE(answer.OnStreamEnd(absl::UnavailableError("gone"), true, now).pause.has_value());
    EXPECT_EQ(answer.request().resume().allow_inexact(), allowed);
    // And is not sent again where it was refused for that.
    EXPECT_FALSE(answer.OnStreamEnd(absl::FailedPreconditionError("not exact"), false, now)
                     .pause.has_value());
  }
}

TEST(ResumingAnswer, KeepsWhereItsCallerGoesOnUntilItHasMore) {
  v1::GenerateRequest request;
  request.mutable_resume()->set_token("of the caller");
  request.mutable_resume()->add_outputs();
  ResumingAnswer answer{request, {.within = kWithin, .addresses = 2, .random = 5}};
  const Instant now = Instant() + std::chrono::hours(1);
  ASSERT_TRUE(answer.OnStreamEnd(absl::UnavailableError("gone"), true, now).pause.has_value());
  EXPECT_EQ(answer.request().resume().token(), "of the caller");
  v1::GenerateResponse message = First({4});
  ASSERT_TRUE(answer.Check(&message).ok());
  answer.Take(message);
  ASSERT_TRUE(answer.OnStreamEnd(absl::UnavailableError("gone"), true, now).pause.has_value());
  EXPECT_EQ(answer.request().resume().token(), "token");
  EXPECT_THAT(answer.request().resume().outputs(0).ids(), ElementsAre(4));
}

// An answer goes on by its ids, by their count, not at all; one is finished.
TEST(ResumingAnswer, GoesOnBehindWhatItsCallerHasAlready) {
  v1::GenerateRequest request;
  request.set_n(4);
  v1::Resume& given = *request.mutable_resume();
  given.set_token("of the caller");
  given.add_outputs()->add_ids(7);
  given.mutable_outputs(0)->add_ids(8);
  IdDigest digest;
  for (const int32_t id : {5, 6, 7}) digest.Add(id);
  given.add_outputs()->set_count(3);
  given.mutable_outputs(1)->set_digest(digest.value());
  given.add_outputs();
  given.add_outputs()->set_finished(true);
  ResumingAnswer answer{request, {.within = kWithin, .addresses = 2, .random = 5}};
  v1::GenerateResponse repeats = First({7});
  EXPECT_EQ(answer.Check(&repeats).code(), absl::StatusCode::kInternal);
  v1::GenerateResponse first = First({4});
  first.set_output(2);
  for (v1::GenerateResponse message : {first, MessageOf(2, {9}), MessageOf(3, {8}, 1)}) {
    const absl::Status checked = answer.Check(&message);
    ASSERT_TRUE(checked.ok()) << checked;
    answer.Take(message);
  }
  const Instant now = Instant() + std::chrono::hours(1);
  ASSERT_TRUE(answer.OnStreamEnd(absl::UnavailableError("gone"), true, now).pause.has_value());
  const v1::Resume& resume = answer.request().resume();
  EXPECT_EQ(resume.token(), "token");
  EXPECT_THAT(resume.outputs(0).ids(), ElementsAre(7, 8, 9));
  EXPECT_EQ(resume.outputs(1).ids_size(), 0);
  EXPECT_EQ(resume.outputs(1).count(), 4u);
  digest.Add(8);
  EXPECT_EQ(resume.outputs(1).digest(), digest.value());
  EXPECT_THAT(resume.outputs(2).ids(), ElementsAre(4));
  EXPECT_TRUE(resume.outputs(3).finished());
}

TEST(ResumingAnswer, WhoHasAllHearsOfItsMistakeAllTheSame) {
  v1::GenerateRequest request;
  request.mutable_resume()->set_token("not one");
  request.mutable_resume()->add_outputs()->set_finished(true);
  ResumingAnswer answer{request, {.within = kWithin, .random = 5}};
  const auto end = answer.OnStreamEnd(absl::InvalidArgumentError("no token"), false, Instant());
  EXPECT_EQ(end.status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ResumingAnswerTest, AsksForWhatIsMissing) {
  EXPECT_FALSE(answer_.request().has_resume());
  EXPECT_FALSE(answer_.request().request_id().empty());
  const std::string name = answer_.request().request_id();
  Hear(First({1, 2}));
  Hear(MessageOf(0, {7}, 1));
  v1::GenerateResponse end = MessageOf(1, {}, 1);
  end.mutable_finish();
  Hear(end);
  ASSERT_TRUE(Break().pause.has_value());
  EXPECT_EQ(answer_.request().request_id(), name);
  EXPECT_EQ(answer_.request().text(), "hello");
  const v1::Resume& resume = answer_.request().resume();
  EXPECT_EQ(resume.token(), "token");
  ASSERT_EQ(resume.outputs_size(), 2);
  EXPECT_THAT(resume.outputs(0).ids(), ElementsAre(1, 2));
  EXPECT_TRUE(resume.outputs(1).finished());
  // The next stream's first message renews the token; the caller has been told.
  v1::GenerateResponse more = MessageOf(2, {3});
  more.mutable_started()->set_resume_token("token 2");
  ASSERT_TRUE(answer_.Check(&more).ok());
  EXPECT_FALSE(more.has_started());
  answer_.Take(more);
  ASSERT_TRUE(Break().pause.has_value());
  EXPECT_EQ(answer_.request().resume().token(), "token 2");
  EXPECT_THAT(answer_.request().resume().outputs(0).ids(), ElementsAre(1, 2, 3));
}

TEST_F(ResumingAnswerTest, WhatTheCallerHasNotTakenIsAskedForAgain) {
  Hear(First({1}));
  v1::GenerateResponse lost = MessageOf(1, {2});
  ASSERT_TRUE(answer_.Check(&lost).ok());
  ASSERT_TRUE(Break().pause.has_value());
  EXPECT_THAT(answer_.request().resume().outputs(0).ids(), ElementsAre(1));
}

TEST_F(ResumingAnswerTest, TokensThatComeTwiceAreTheServicesFault) {
  Hear(First({1, 2}));
  ASSERT_TRUE(Break().pause.has_value());
  v1::GenerateResponse again = MessageOf(1, {2});
  EXPECT_EQ(answer_.Check(&again).code(), absl::StatusCode::kInternal);
}

TEST_F(ResumingAnswerTest, ARequestAtFaultIsNotSentAgain) {
  Hear(First({1}));
  for (const auto code : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
                          absl::StatusCode::kInternal, absl::StatusCode::kDeadlineExceeded,
                          absl::StatusCode::kAborted, absl::StatusCode::kDataLoss,
                          absl::StatusCode::kNotFound, absl::StatusCode::kPermissionDenied,
                          absl::StatusCode::kAlreadyExists, absl::StatusCode::kResourceExhausted}) {
    const auto end = Break(absl::Status(code, "fault"));
    EXPECT_FALSE(end.pause.has_value()) << code;
    EXPECT_EQ(end.status.code(), code);
  }
  EXPECT_TRUE(GoesOn(absl::CancelledError("the server went")));
  EXPECT_TRUE(GoesOn(absl::UnknownError("Stream removed")));
}

TEST_F(ResumingAnswerTest, AServiceThatIsFullIsWaitedForAsLongAsItSays) {
  const absl::Status full =
      WithRetryDelay(absl::ResourceExhaustedError("full"), std::chrono::seconds(5));
  EXPECT_FALSE(GoesOn(full)) << "nothing has begun";
  Hear(First({1}));
  const auto end = Break(full);
  ASSERT_TRUE(end.pause.has_value());
  EXPECT_GE(*end.pause, std::chrono::seconds(5));
}

// A coordinator that is restarted refuses newcomers while it drains, and then nobody listens.
TEST_F(ResumingAnswerTest, ComesAgainWhereTheServiceAsksForIt) {
  const absl::Status draining =
      WithRetryDelay(absl::UnavailableError("shutting down"), std::chrono::seconds(5));
  const ResumingAnswer::End first = Break(draining);
  ASSERT_TRUE(first.pause.has_value());
  EXPECT_GE(*first.pause, std::chrono::seconds(5)) << "as it asked";
  EXPECT_TRUE(GoesOn(NeverConnected(absl::UnavailableError("nobody listens there"))));
  now_ += kWithin;
  const ResumingAnswer::End end = Break(draining);
  EXPECT_FALSE(end.pause.has_value());
  EXPECT_THAT(std::string(end.status.message()), HasSubstr("could not begin for 10 s"));
}

TEST_F(ResumingAnswerTest, NothingIsTriedWhereNothingWasThereAtFirst) {
  EXPECT_FALSE(GoesOn(absl::UnavailableError("not serving")));
  const absl::Status nobody = absl::UnavailableError("nobody listens there");
  const auto end = answer_.OnStreamEnd(NeverConnected(nobody),
                                       /*broke=*/true, now_);
  EXPECT_FALSE(end.pause.has_value());
  // But what was sent and waited for is.
  EXPECT_TRUE(
      answer_.OnStreamEnd(absl::UnavailableError("Socket closed"), true, now_).pause.has_value());
  EXPECT_FALSE(answer_.request().has_resume()) << "there is nothing to go on from";
}

TEST_F(ResumingAnswerTest, WhatServedAMomentAgoIsWaitedFor) {
  ResumingAnswer answer{Request(), {.within = kWithin, .random = 5, .began = now_, .served = true}};
  const auto goes_on = [&](const absl::Status& status, bool broke) {
    return answer.OnStreamEnd(status, broke, now_).pause.has_value();
  };
  const absl::Status nobody = NeverConnected(absl::UnavailableError("nobody listens"));
  EXPECT_TRUE(goes_on(nobody, true));
  now_ += kWithin / 2;
  EXPECT_TRUE(goes_on(absl::UnavailableError("not serving: waiting for workers"), false));
  // Other words of its stand.
  EXPECT_FALSE(goes_on(absl::UnavailableError("nothing has formed within 60 s"), false));
  EXPECT_FALSE(goes_on(absl::InvalidArgumentError("no such model"), false));
  EXPECT_FALSE(goes_on(
      WithRetryDelay(absl::ResourceExhaustedError("full"), std::chrono::seconds(1)), false));
  now_ += kWithin / 2;
  EXPECT_FALSE(goes_on(nobody, true)) << "nothing has come for so long";
}

// It has waited there itself.
TEST_F(ResumingAnswerTest, TheWaitCountsFromTheBeginningOfTheCall) {
  ResumingAnswer answer{Request(), {.within = kWithin, .random = 5, .began = now_, .served = true}};
  now_ += kWithin;
  const absl::Status nobody = NeverConnected(absl::UnavailableError("nobody listens"));
  EXPECT_FALSE(answer.OnStreamEnd(nobody, true, now_).pause.has_value());
}

TEST_F(ResumingAnswerTest, EveryAddressIsTriedOnceAtFirst) {
  ResumingAnswer answer(Request(), {.within = kWithin, .addresses = 3, .random = 5});
  for (const bool next : {true, true, false}) {
    const auto end = answer.OnStreamEnd(absl::UnavailableError("not serving"), false, now_);
    EXPECT_EQ(end.pause.has_value(), next);
  }
}

TEST_F(ResumingAnswerTest, PausesGrowAndEnd) {
  Hear(First({1}));
  Duration longest{};
  const Instant begin = now_;
  int tries = 0;
  ResumingAnswer::End end;
  while ((end = Break()).pause.has_value()) {
    longest = std::max(longest, *end.pause);
    EXPECT_GT(*end.pause, Duration::zero());
    EXPECT_LE(*end.pause, kResumePauseMax);
    now_ += *end.pause;
    ASSERT_LT(++tries, 1000);
  }
  EXPECT_GE(longest, kResumePauseMax / 2);
  EXPECT_LE(now_ - begin, kWithin);
  EXPECT_EQ(end.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end.status.message()), HasSubstr("could not go on for 10 s"));
}

TEST_F(ResumingAnswerTest, AStreamThatBreaksAfterTheLastEndIsWhole) {
  ResumingAnswer answer(Request(), {.within = kWithin});
  v1::GenerateResponse all = First({1});
  all.mutable_finish();
  ASSERT_TRUE(answer.Check(&all).ok());
  answer.Take(all);
  const auto end = answer.OnStreamEnd(absl::UnavailableError("gone"), true, now_);
  EXPECT_FALSE(end.pause.has_value());
  EXPECT_TRUE(end.status.ok());
}

TEST_F(ResumingAnswerTest, SwitchedOffItIsOneStream) {
  ResumingAnswer answer(Request(), {.within = Duration::zero()});
  EXPECT_TRUE(answer.request().request_id().empty());
  v1::GenerateResponse first = First({1});
  ASSERT_TRUE(answer.Check(&first).ok());
  answer.Take(first);
  EXPECT_FALSE(answer.OnStreamEnd(absl::UnavailableError("gone"), true, now_).pause.has_value());
}

}  // namespace
}  // namespace tutti::client
