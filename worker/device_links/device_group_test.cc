// Ranks whose emulated GPUs find each other through emulated NCCL.
#include "worker/device_links/device_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/nccl_emulated.h"
#include "worker/ranks_testing.h"

namespace tutti::worker {
namespace {

using kernels::DeviceExchangeScope;
using kernels::cuda::EmulatedNccl;
using kernels::cuda::MakeEmulatedBackend;

class DeviceGroupTest : public ::testing::Test {
 protected:
  // One value of nccl for each rank; null: it has none.
  void Form(std::vector<std::shared_ptr<EmulatedNccl>> nccl,
            DeviceExchangeScope last_scope = DeviceExchangeScope::kMachine) {
    const int count = static_cast<int>(nccl.size());
    ranks_ = std::make_unique<TestRanks>(count);
    for (const auto& library : nccl) backends_.push_back(MakeEmulatedBackend({}, library));
    ranks_->Run([&](int rank) {
      ASSERT_TRUE(ranks_->collective(rank)->Reserve(count, 4096).ok());
      const DeviceGroup::Options options = {
          .devices = backends_[rank]->device_exchange(),
          .scope = rank == count - 1 ? last_scope : DeviceExchangeScope::kMachine};
      const absl::Status formed =
          DeviceGroup(options, ranks_->clock())
              .Form(ranks_->collective(rank), ranks_->channel(rank), count, rank, [] {});
      EXPECT_TRUE(formed.ok()) << formed;
    });
  }
  int OnDevice() const {
    int count = 0;
    for (int rank = 0; rank < ranks_->ranks(); ++rank) {
      count += ranks_->collective(rank)->on_device() ? 1 : 0;
    }
    return count;
  }

  std::vector<std::unique_ptr<kernels::Backend>> backends_;
  std::unique_ptr<TestRanks> ranks_;
};

TEST_F(DeviceGroupTest, FormsWhereAllHaveNccl) {
  const auto nccl = std::make_shared<EmulatedNccl>();
  Form({nccl, nccl, nccl, nccl});
  EXPECT_EQ(OnDevice(), 4);
  // A new epoch begins without it.
  for (int rank = 0; rank < 4; ++rank) {
    ranks_->collective(rank)->BeginEpoch(ranks_->channel(rank), Epoch(8), 4, rank);
  }
  EXPECT_EQ(OnDevice(), 0);
}

TEST_F(DeviceGroupTest, OneWithoutNcclKeepsAllOnTheHost) {
  const auto nccl = std::make_shared<EmulatedNccl>();
  Form({nccl, nullptr});
  EXPECT_EQ(OnDevice(), 0);
}

TEST_F(DeviceGroupTest, VersionsMustAgree) {
  Form({std::make_shared<EmulatedNccl>(21803), std::make_shared<EmulatedNccl>(22005)});
  EXPECT_EQ(OnDevice(), 0);
}

TEST_F(DeviceGroupTest, ARankMayBeToldNotTo) {
  const auto nccl = std::make_shared<EmulatedNccl>();
  Form({nccl, nccl}, DeviceExchangeScope::kOff);
  EXPECT_EQ(OnDevice(), 0);
}

TEST_F(DeviceGroupTest, ALibraryThatFailsKeepsAllOnTheHost) {
  const auto nccl = std::make_shared<EmulatedNccl>();
  nccl->set_join_error("NCCL, joining a group: unhandled system error (2)");
  Form({nccl, nccl});
  EXPECT_EQ(OnDevice(), 0);
}

}  // namespace
}  // namespace tutti::worker
