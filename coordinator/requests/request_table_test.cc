#include "coordinator/requests/request_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;

Request MakeRequest(uint64_t id, int64_t deadline_ms = -1) {
  Request request;
  request.id = RequestId(id);
  request.prompt = {1, 2, 3};
  request.max_tokens = 5;
  if (deadline_ms >= 0) request.deadline = Instant() + std::chrono::milliseconds(deadline_ms);
  return request;
}

std::vector<uint64_t> Ids(const std::vector<Sequence*>& sequences) {
  std::vector<uint64_t> ids;
  for (const Sequence* sequence : sequences) ids.push_back(sequence->request.id.value());
  return ids;
}

TEST(RequestTableTest, ARequestEndsOnce) {
  RequestTable table;
  std::vector<Action> actions;
  Sequence* const sequence = table.Add(MakeRequest(4), Instant());
  EXPECT_EQ(table.Find(RequestId(4)), sequence);
  EXPECT_EQ(sequence->prompt_tokens, 3);
  EXPECT_TRUE(sequence->request.prompt.empty()) << "moved, not copied";
  sequence->tokens.push_back(9);
  sequence->first_planned_at = Instant() + std::chrono::milliseconds(7);
  table.Finish(sequence, FinishCause::kLength, absl::OkStatus(), &actions);
  EXPECT_EQ(table.Find(RequestId(4)), nullptr);
  EXPECT_EQ(table.size(), 0u);
  ASSERT_EQ(actions.size(), 1u);
  const auto& finish = std::get<FinishRequest>(actions[0]);
  EXPECT_EQ(finish.request, RequestId(4));
  EXPECT_EQ(finish.prompt_tokens, 3);
  EXPECT_EQ(finish.completion_tokens, 1);
  EXPECT_EQ(finish.queue_time, std::chrono::milliseconds(7));
}

TEST(RequestTableTest, DeadlinesComeInOrderAndGoWithTheirRequests) {
  RequestTable table;
  std::vector<Action> actions;
  EXPECT_EQ(table.next_deadline(), kInstantNever);
  table.Add(MakeRequest(1, 30), Instant());
  table.Add(MakeRequest(2, 10), Instant());
  table.Add(MakeRequest(3), Instant());
  table.Add(MakeRequest(4, 20), Instant());
  const auto at = [](int64_t ms) { return Instant() + std::chrono::milliseconds(ms); };
  EXPECT_EQ(table.next_deadline(), at(10));
  EXPECT_THAT(Ids(table.Expired(at(9))), ElementsAre());
  EXPECT_THAT(Ids(table.Expired(at(20))), ElementsAre(2, 4));
  EXPECT_THAT(Ids(table.All()), ElementsAre(1, 2, 3, 4));
  table.Finish(table.Find(RequestId(2)), FinishCause::kStopToken, absl::OkStatus(), &actions);
  EXPECT_EQ(table.next_deadline(), at(20));
  EXPECT_THAT(Ids(table.Expired(at(99))), ElementsAre(4, 1));
}

TEST(RequestTableTest, CountsEachEndOnce) {
  RequestTable table;
  std::vector<Action> actions;
  for (const uint64_t id : {1, 2, 3, 4, 6, 7}) table.Add(MakeRequest(id), Instant());
  table.Refuse(MakeRequest(5), absl::ResourceExhaustedError("full"), &actions);
  table.Refuse(MakeRequest(8), absl::InvalidArgumentError("n is 99"), &actions);
  const auto finish = [&](uint64_t id, FinishCause cause, absl::Status status) {
    table.Finish(table.Find(RequestId(id)), cause, std::move(status), &actions);
  };
  finish(1, FinishCause::kStopString, absl::OkStatus());
  finish(2, FinishCause::kError, absl::CancelledError("gone"));
  finish(3, FinishCause::kError, absl::UnavailableError("lost"));
  finish(6, FinishCause::kError, absl::DeadlineExceededError("late"));
  finish(7, FinishCause::kError, absl::ResourceExhaustedError("gave way"));
  table.CountGenerated(12);
  v1::RequestCounters counters;
  table.FillCounters(&counters);
  EXPECT_EQ(counters.accepted(), 6u);
  EXPECT_EQ(counters.finished(), 1u);
  EXPECT_EQ(counters.cancelled(), 1u);
  EXPECT_EQ(counters.failed(), 2u);
  EXPECT_EQ(counters.refused(), 1u);
  EXPECT_EQ(counters.deadline_exceeded(), 1u);
  EXPECT_EQ(counters.invalid(), 1u);
  EXPECT_EQ(table.places_freed(), 4u) << "who gave way made no room";
  EXPECT_EQ(counters.prompt_tokens(), 18u);
  EXPECT_EQ(counters.generated_tokens(), 12u);
}

TEST(RequestTableDeathTest, OwnMistakesEndTheProcess) {
  RequestTable table;
  std::vector<Action> actions;
  Sequence* const sequence = table.Add(MakeRequest(1), Instant());
  EXPECT_DEATH(table.Add(MakeRequest(1), Instant()), "request 1 came twice");
  EXPECT_DEATH(table.Finish(sequence, FinishCause::kError, absl::OkStatus(), &actions), "");
  sequence->stay.blocks.push_back(BlockId(1));
  EXPECT_DEATH(table.Finish(sequence, FinishCause::kLength, absl::OkStatus(), &actions),
               "ends with blocks");
}

}  // namespace
}  // namespace tutti::coordinator
