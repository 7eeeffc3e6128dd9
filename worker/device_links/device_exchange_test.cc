// The collective's side of exchanges between devices: agreement, deadlines, blame.
#include "kernels/device_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/device_links/device_group.h"
#include "worker/links/link_collective.h"
#include "worker/ranks_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kReserved = 4096;

// Devices that do what the test says.
class ScriptedDevices : public kernels::DeviceExchange, public kernels::DeviceMembership {
 public:
  DeviceMembership* membership() override { return this; }
  int64_t description_bytes() const override { return 16; }
  absl::Status Describe(kernels::DeviceExchangeScope, bool founder,
                        std::span<std::byte> description) override {
    description[0] = std::byte(founder ? 1 : 2);
    return absl::OkStatus();
  }
  std::string WhyNot(std::span<const std::byte> all,
                     std::span<const std::string> names) const override {
    EXPECT_EQ(names[1], "rank 1");
    EXPECT_EQ(all[0], std::byte(1));
    EXPECT_EQ(all[16], std::byte(2));
    return why_not;
  }
  absl::Status Form(std::span<const std::byte>, int, int) override {
    ++formed;
    return form_status;
  }
  absl::StatusOr<bool> Formed() override { return --looks_until_formed < 0; }
  void Leave() override { ++left; }
  absl::StatusOr<int64_t> Reserve() override { return 0; }
  void GiveBack() override {}
  absl::Status Sum(kernels::TensorView) override { return queue_status; }
  absl::Status Gather(kernels::TensorView, std::span<const int64_t>) override {
    return queue_status;
  }
  absl::StatusOr<bool> AllDone() override { return --looks_until_done < 0; }

  std::string why_not;
  absl::Status form_status, queue_status;
  int64_t looks_until_formed = 0, looks_until_done = 0;
  int formed = 0, left = 0;
};

class DeviceExchangeTest : public ::testing::Test {
 protected:
  void Use(int rank, Duration patience = std::chrono::seconds(20)) {
    ASSERT_TRUE(ranks_.collective(rank)->Reserve(2, kReserved).ok());
    ranks_.collective(rank)->UseDevices(&devices_[rank], patience);
  }
  absl::Status Queue(int rank, int times = 1) {
    const kernels::TensorView x = {.rows = 3, .cols = 10, .row_stride = 10};
    for (int i = 0; i < times; ++i) {
      TUTTI_RETURN_IF_ERROR(ranks_.collective(rank)->SumOnDevice(x));
    }
    return absl::OkStatus();
  }
  absl::Status Form(int rank, Duration patience = std::chrono::seconds(20)) {
    TUTTI_RETURN_IF_ERROR(ranks_.collective(rank)->Reserve(2, kReserved));
    return DeviceGroup({.devices = &devices_[rank], .form_patience = patience}, ranks_.clock())
        .Form(ranks_.collective(rank), ranks_.channel(rank), 2, rank, [&] { ++progress_[rank]; });
  }

  TestRanks ranks_{2};
  ScriptedDevices devices_[2];
  int progress_[2] = {};
};

TEST_F(DeviceExchangeTest, WaitsUntilAllHaveQueuedAndTheDeviceIsThrough) {
  devices_[0].looks_until_done = 5;
  ranks_.Run([&](int rank) {
    Use(rank);
    LinkCollective& collective = *ranks_.collective(rank);
    EXPECT_TRUE(collective.on_device());
    EXPECT_TRUE(collective.WaitForDevices().ok());  // nothing queued: no rank is asked
    EXPECT_EQ(collective.traffic().frames_out, 0);
    EXPECT_TRUE(Queue(rank, 3).ok());
    EXPECT_TRUE(collective.WaitForDevices().ok());
    EXPECT_GE(collective.traffic().bytes_out, 3 * 120);
    EXPECT_EQ(devices_[rank].left, 0);
  });
  EXPECT_LT(devices_[0].looks_until_done, 0);
}

TEST_F(DeviceExchangeTest, ARankThatDoesNotComeIsNamedAndItsDevicesAreLeft) {
  ranks_.patience = std::chrono::milliseconds(50);
  Use(0);
  ASSERT_TRUE(Queue(0).ok());
  const absl::Status status = ranks_.collective(0)->WaitForDevices();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  EXPECT_EQ(devices_[0].left, 1);
  EXPECT_FALSE(ranks_.collective(0)->on_device());
}

TEST_F(DeviceExchangeTest, RanksThatQueuedDifferentlyFindOut) {
  ranks_.Run([&](int rank) {
    Use(rank);
    ASSERT_TRUE(Queue(rank, 2 + rank).ok());
    const absl::Status status = ranks_.collective(rank)->WaitForDevices();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(),
                HasSubstr(rank == 0 ? "rank 1 has queued 3" : "rank 0 has queued 2"));
    EXPECT_EQ(devices_[rank].left, 1);
  });
}

// A device holds about a thousand operations; a host that queues on behind a lost rank would be
// stuck in its driver.
TEST_F(DeviceExchangeTest, NobodyQueuesFarAheadOfARankThatIsGone) {
  ranks_.patience = std::chrono::milliseconds(50);
  Use(0);
  EXPECT_EQ(Queue(0, 10'000).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ranks_.collective(0)->traffic().frames_out, kExchangesUnagreedMax + 1);
}

TEST_F(DeviceExchangeTest, ADeviceThatNeverEndsHasADeadline) {
  devices_[1].looks_until_done = INT64_MAX;
  ranks_.Run([&](int rank) {
    Use(rank, std::chrono::milliseconds(50));
    ASSERT_TRUE(Queue(rank).ok());
    const absl::Status status = ranks_.collective(rank)->WaitForDevices();
    EXPECT_EQ(status.code(),
              rank == 0 ? absl::StatusCode::kOk : absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(devices_[rank].left, rank);
  });
}

TEST_F(DeviceExchangeTest, TheEndOfTheEpochEndsTheWait) {
  devices_[0].looks_until_done = INT64_MAX;
  ranks_.over = true;
  ranks_.Run([&](int rank) {
    Use(rank);
    ASSERT_TRUE(Queue(rank).ok());
    EXPECT_EQ(ranks_.collective(rank)->WaitForDevices().code(),
              rank == 0 ? absl::StatusCode::kAborted : absl::StatusCode::kOk);
  });
  EXPECT_EQ(devices_[0].left, 1);
}

TEST_F(DeviceExchangeTest, AfterAnErrorTheDevicesAreLeft) {
  devices_[0].queue_status = absl::InternalError("NCCL, all-gather: remote error");
  Use(0);
  EXPECT_EQ(Queue(0), devices_[0].queue_status);
  EXPECT_EQ(devices_[0].left, 1);
  EXPECT_TRUE(ranks_.collective(0)->WaitForDevices().ok());  // nothing is waited for any more
}

TEST_F(DeviceExchangeTest, AGroupThatAllJoinIsUsed) {
  for (ScriptedDevices& devices : devices_) devices.looks_until_formed = 3;
  ranks_.Run([&](int rank) {
    EXPECT_TRUE(Form(rank).ok());
    EXPECT_TRUE(ranks_.collective(rank)->on_device());
    EXPECT_EQ(progress_[rank], 3);
    EXPECT_EQ(devices_[rank].left, 0);
  });
}

TEST_F(DeviceExchangeTest, WithoutAGroupEverythingGoesThroughTheHost) {
  for (ScriptedDevices& devices : devices_) devices.why_not = "ranks 0 and 1 share a GPU";
  ranks_.Run([&](int rank) {
    EXPECT_TRUE(Form(rank).ok());
    EXPECT_FALSE(ranks_.collective(rank)->on_device());
    EXPECT_EQ(devices_[rank].formed, 0);
  });
}

// Either all use the group or none: here one cannot join, and the other would wait for ever.
TEST_F(DeviceExchangeTest, AGroupThatOneCannotJoinIsUsedByNone) {
  devices_[1].form_status = absl::InternalError("NCCL, joining a group: system error");
  devices_[0].looks_until_formed = INT64_MAX;
  ranks_.Run([&](int rank) {
    EXPECT_TRUE(Form(rank, std::chrono::milliseconds(50)).ok());
    EXPECT_FALSE(ranks_.collective(rank)->on_device());
    EXPECT_EQ(devices_[rank].left, 1);
  });
}

TEST_F(DeviceExchangeTest, OneThatStoodAlreadyIsLeftWhenAnotherFails) {
  devices_[1].form_status = absl::InternalError("NCCL, joining a group: system error");
  ranks_.Run([&](int rank) {
    EXPECT_TRUE(Form(rank).ok());
    EXPECT_FALSE(ranks_.collective(rank)->on_device());
    EXPECT_EQ(devices_[rank].left, 1);
  });
}

TEST_F(DeviceExchangeTest, TheEndOfTheEpochEndsForming) {
  for (ScriptedDevices& devices : devices_) devices.looks_until_formed = INT64_MAX;
  ranks_.over = true;
  ranks_.Run([&](int rank) {
    EXPECT_EQ(Form(rank).code(), absl::StatusCode::kAborted);
    EXPECT_EQ(devices_[rank].left, 1);
  });
}

}  // namespace
}  // namespace tutti::worker
