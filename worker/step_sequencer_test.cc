#include "worker/step_sequencer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/crc32c.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTinyRowBytes = 4;

StepSequencer::Options Options(bool takes_activations) {
  return {.takes_activations = takes_activations,
          .activation_row_bytes = kTinyRowBytes,
          .max_batch_tokens = 8,
          .max_steps_ahead = 3};
}

v1::StepPlan Plan(uint64_t step, int32_t rows) {
  v1::StepPlan plan;
  plan.set_step(step);
  plan.set_total_rows(rows);
  return plan;
}

// Rows of one byte value, in two pieces of memory as a network may deliver them.
struct Chunk {
  v1::Activation message;
  std::vector<std::byte> bytes;
  transport::Payload payload;

  Chunk(uint64_t step, int32_t first, int32_t rows, int32_t total, int value)
      : bytes(rows > 0 ? rows * kTinyRowBytes : 0, std::byte(value)) {
    message.set_step(step);
    message.set_first_row(first);
    message.set_rows(rows);
    message.set_total_rows(total);
    message.set_row_bytes(kTinyRowBytes);
    message.set_checksum(transport::Crc32c(bytes));
    const std::span<const std::byte> all(bytes);
    payload.chunks = {all.first(all.size() / 3), all.subspan(all.size() / 3)};
  }
};

class StepSequencerTest : public ::testing::Test {
 protected:
  absl::Status Give(const Chunk& chunk) {
    return sequencer_.OnActivation(chunk.message, chunk.payload, clock_.Now());
  }
  absl::Status GivePlan(uint64_t step, int32_t rows) {
    return sequencer_.OnPlan(Plan(step, rows), clock_.Now());
  }
  std::optional<ReadyStep> Next() {
    std::optional<ReadyStep> ready;
    const absl::Status status = sequencer_.Next(&ready);
    EXPECT_TRUE(status.ok()) << status;
    return ready;
  }

  ManualClock clock_;
  StepSequencer sequencer_{Options(true)};
};

TEST(StepSequencer, TheFirstStageNeedsPlansOnly) {
  StepSequencer sequencer(Options(false));
  std::optional<ReadyStep> ready;
  ASSERT_TRUE(sequencer.Next(&ready).ok());
  EXPECT_FALSE(ready.has_value());
  ASSERT_TRUE(sequencer.OnPlan(Plan(1, 2), Instant()).ok());
  ASSERT_TRUE(sequencer.Next(&ready).ok());
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->plan.step(), 1u);
  EXPECT_EQ(ready->activation, nullptr);
  const Chunk chunk(2, 0, 1, 1, 1);
  EXPECT_EQ(sequencer.OnActivation(chunk.message, chunk.payload, Instant()).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StepSequencerTest, PairsPlanAndActivationInWhicheverOrderTheyCome) {
  ASSERT_TRUE(GivePlan(1, 2).ok());
  EXPECT_FALSE(Next().has_value());
  clock_.Advance(std::chrono::milliseconds(5));
  ASSERT_TRUE(Give(Chunk(1, 0, 2, 2, 7)).ok());
  auto ready = Next();
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->activation->bytes.size(), 2u * kTinyRowBytes);
  EXPECT_EQ(ready->activation->bytes[7], std::byte{7});
  EXPECT_EQ(ready->wait, std::chrono::milliseconds(5));

  ASSERT_TRUE(Give(Chunk(2, 0, 1, 1, 8)).ok());
  EXPECT_FALSE(Next().has_value());
  clock_.Advance(std::chrono::milliseconds(5));
  ASSERT_TRUE(GivePlan(2, 1).ok());
  ready = Next();
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->wait, Duration::zero());
}

TEST_F(StepSequencerTest, AssemblesChunks) {
  ASSERT_TRUE(GivePlan(1, 5).ok());
  ASSERT_TRUE(Give(Chunk(1, 0, 2, 5, 1)).ok());
  EXPECT_FALSE(Next().has_value());
  ASSERT_TRUE(Give(Chunk(1, 2, 3, 5, 2)).ok());
  const auto ready = Next();
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->activation->bytes.size(), 5u * kTinyRowBytes);
  EXPECT_EQ(ready->activation->bytes[7], std::byte{1});
  EXPECT_EQ(ready->activation->bytes[8], std::byte{2});
}

TEST_F(StepSequencerTest, KeepsLaterStepsForLater) {
  for (uint64_t step : {1, 2, 3}) ASSERT_TRUE(Give(Chunk(step, 0, 1, 1, step)).ok());
  for (uint64_t step : {1, 2, 3}) ASSERT_TRUE(GivePlan(step, 1).ok());
  for (uint64_t step : {1, 2, 3}) {
    const auto ready = Next();
    ASSERT_TRUE(ready.has_value());
    EXPECT_EQ(ready->plan.step(), step);
    EXPECT_EQ(ready->activation->bytes[0], std::byte(step));
  }
  EXPECT_FALSE(Next().has_value());
}

TEST_F(StepSequencerTest, AStepWithoutRowsNeedsNoActivation) {
  ASSERT_TRUE(GivePlan(1, 0).ok());
  ASSERT_TRUE(GivePlan(2, 1).ok());
  ASSERT_TRUE(Give(Chunk(2, 0, 1, 1, 9)).ok());
  EXPECT_EQ(Next()->activation, nullptr);
  EXPECT_EQ(Next()->activation->bytes[0], std::byte{9});
}

TEST_F(StepSequencerTest, PlansMustCount) {
  EXPECT_THAT(std::string(GivePlan(2, 1).message()), HasSubstr("step 2 came where 1 is next"));
  ASSERT_TRUE(GivePlan(1, 1).ok());
  EXPECT_EQ(GivePlan(1, 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StepSequencerTest, BoundsWhatWaits) {
  for (uint64_t step : {1, 2, 3}) ASSERT_TRUE(GivePlan(step, 1).ok());
  EXPECT_EQ(GivePlan(4, 1).code(), absl::StatusCode::kResourceExhausted);
  for (uint64_t step : {1, 2, 3}) ASSERT_TRUE(Give(Chunk(step, 0, 1, 1, 0)).ok());
  EXPECT_EQ(Give(Chunk(4, 0, 1, 1, 0)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Give(Chunk(~uint64_t{0}, 0, 1, 1, 0)).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(StepSequencerTest, RefusesAWrongChecksum) {
  Chunk chunk(1, 0, 2, 2, 7);
  chunk.bytes[3] ^= std::byte{16};
  EXPECT_EQ(Give(chunk).code(), absl::StatusCode::kDataLoss);
}

TEST_F(StepSequencerTest, RefusesOverlapsAndGaps) {
  ASSERT_TRUE(Give(Chunk(1, 0, 2, 5, 1)).ok());
  EXPECT_THAT(std::string(Give(Chunk(1, 1, 2, 5, 1)).message()),
              HasSubstr("chunk begins at row 1, row 2 is next"));
  EXPECT_EQ(Give(Chunk(1, 3, 2, 5, 1)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StepSequencerTest, RefusesAChunkOfAnotherStepInBetween) {
  ASSERT_TRUE(Give(Chunk(1, 0, 2, 5, 1)).ok());
  EXPECT_THAT(std::string(Give(Chunk(2, 0, 1, 1, 1)).message()),
              HasSubstr("step 2 came after 2 of 5 rows of step 1"));
}

TEST_F(StepSequencerTest, RefusesAStepTwice) {
  ASSERT_TRUE(Give(Chunk(1, 0, 1, 1, 1)).ok());
  EXPECT_EQ(Give(Chunk(1, 0, 1, 1, 1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Give(Chunk(0, 0, 1, 1, 1)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StepSequencerTest, ChecksEverySize) {
  EXPECT_EQ(Give(Chunk(1, 0, 1, 9, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Give(Chunk(1, 0, 1, 0, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Give(Chunk(1, 0, 1, -1, 1)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StepSequencerTest, ChecksChunkSizes) {
  ASSERT_TRUE(Give(Chunk(1, 0, 1, 4, 1)).ok());
  EXPECT_THAT(std::string(Give(Chunk(1, 1, 4, 4, 1)).message()),
              HasSubstr("chunk of 4 rows where 1 to 3 are missing"));
  EXPECT_EQ(Give(Chunk(1, 1, 0, 4, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Give(Chunk(1, 1, -1, 4, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Give(Chunk(1, 1, 1, 5, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Give(Chunk(1, -1, 1, 4, 1)).code(), absl::StatusCode::kFailedPrecondition);
  Chunk short_payload(1, 1, 2, 4, 1);
  short_payload.payload.chunks.pop_back();
  EXPECT_EQ(Give(short_payload).code(), absl::StatusCode::kInvalidArgument);
  Chunk wide(1, 1, 1, 4, 1);
  wide.message.set_row_bytes(8);
  EXPECT_THAT(std::string(Give(wide).message()), HasSubstr("rows of 8 bytes, ours are 4"));
}

// A step's rows that come from device to device: no bytes pass here.
struct OnDevice : Chunk {
  OnDevice(uint64_t step, int32_t rows, int32_t total) : Chunk(step, 0, rows, total, 0) {
    message.set_on_device(true);
    message.clear_checksum();
    payload = {};
  }
};

TEST_F(StepSequencerTest, RowsOnTheDeviceAreOneChunkWithoutBytes) {
  ASSERT_TRUE(GivePlan(1, 3).ok());
  ASSERT_TRUE(GivePlan(2, 2).ok());
  ASSERT_TRUE(Give(OnDevice(1, 3, 3)).ok());
  ASSERT_TRUE(Give(Chunk(2, 0, 2, 2, 7)).ok()) << "steps may differ in how their rows come";
  const auto first = Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->on_device);
  EXPECT_EQ(first->activation, nullptr);
  const auto second = Next();
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->on_device);
  EXPECT_EQ(second->activation->bytes.size(), 2u * kTinyRowBytes);
}

TEST_F(StepSequencerTest, RowsOnTheDeviceAreAllOfAStepOrNone) {
  ASSERT_TRUE(Give(Chunk(1, 0, 1, 3, 1)).ok());
  OnDevice rest(1, 2, 3);
  rest.message.set_first_row(1);
  EXPECT_THAT(std::string(Give(rest).message()), HasSubstr("2 of 3 rows come from device"));
  StepSequencer fresh(Options(true));
  OnDevice some(1, 2, 3);
  EXPECT_FALSE(fresh.OnActivation(some.message, some.payload, clock_.Now()).ok());
}

TEST_F(StepSequencerTest, RowsOnTheDeviceBringNoBytes) {
  OnDevice rows(1, 2, 2);
  const Chunk bytes(1, 0, 2, 2, 1);
  EXPECT_THAT(
      std::string(sequencer_.OnActivation(rows.message, bytes.payload, clock_.Now()).message()),
      HasSubstr("has 8 bytes, not 0"));
  StepSequencer fresh(Options(true));
  OnDevice wide(1, 9, 9);
  EXPECT_FALSE(fresh.OnActivation(wide.message, wide.payload, clock_.Now()).ok());
}

TEST_F(StepSequencerTest, PlanAndActivationMustAgree) {
  ASSERT_TRUE(GivePlan(1, 2).ok());
  ASSERT_TRUE(Give(Chunk(1, 0, 3, 3, 1)).ok());
  std::optional<ReadyStep> ready;
  const absl::Status status = sequencer_.Next(&ready);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step 1 has 2 rows but the activation next in line is of step 1 with 3"));
  EXPECT_FALSE(ready.has_value());
}

TEST_F(StepSequencerTest, ASkippedActivationIsFound) {
  ASSERT_TRUE(GivePlan(1, 1).ok());
  ASSERT_TRUE(Give(Chunk(2, 0, 1, 1, 1)).ok());
  std::optional<ReadyStep> ready;
  EXPECT_EQ(sequencer_.Next(&ready).code(), absl::StatusCode::kFailedPrecondition);
}

v1::StepPlan Probe() {
  v1::StepPlan plan = Plan(0, 1);
  plan.set_probe(true);
  return plan;
}

TEST_F(StepSequencerTest, AProbeIsStepZeroAndComesFirst) {
  ASSERT_TRUE(Give(Chunk(0, 0, 1, 1, 7)).ok()) << "its row may come before it";
  ASSERT_TRUE(sequencer_.OnPlan(Probe(), clock_.Now()).ok());
  ASSERT_TRUE(GivePlan(1, 2).ok());
  ASSERT_TRUE(Give(Chunk(1, 0, 2, 2, 8)).ok());
  EXPECT_TRUE(Next().value().plan.probe());
  EXPECT_EQ(Next().value().plan.step(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Give(Chunk(0, 0, 1, 1, 7))));
}

TEST_F(StepSequencerTest, AProbeThatComesLaterOrTwiceIsRefused) {
  ASSERT_TRUE(sequencer_.OnPlan(Probe(), clock_.Now()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(sequencer_.OnPlan(Probe(), clock_.Now())));
  StepSequencer other(Options(false));
  ASSERT_TRUE(other.OnPlan(Plan(1, 1), clock_.Now()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(other.OnPlan(Probe(), clock_.Now())));
  StepSequencer third(Options(false));
  EXPECT_TRUE(absl::IsFailedPrecondition(third.OnPlan(Plan(0, 1), clock_.Now()))) << "not a probe";
  v1::StepPlan numbered = Plan(1, 1);
  numbered.set_probe(true);
  EXPECT_TRUE(absl::IsFailedPrecondition(third.OnPlan(numbered, clock_.Now())));
}

}  // namespace
}  // namespace tutti::worker
