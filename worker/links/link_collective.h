// The collective of a stage's ranks over a RankFrameChannel: sums and blocks.
//
// Recursive doubling: in exchange d = 1, 2, 4, ... rank r and rank r ^ d send each other all they
// have. Sums of d neighbours become sums of 2 d neighbours, the lower half on the left: a binary
// tree in rank order, the same on every rank. A rank sends and receives its vector log2(ranks)
// times (Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH,
// 2005).
//
// Values are sent from where they lie, so a buffer is written again only after the transport has
// let go of it; buffers are allocated once (Reserve) and used in turn.
//
// Where the ranks' devices exchange directly (DeviceExchange), this class still finds the rank to
// blame: before any rank waits for its device, the ranks agree over their links that all of them
// have queued the same exchanges. A rank that does not come is named as for any other exchange, and
// the devices then wait for no host.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "kernels/collective.h"
#include "kernels/device_exchange.h"
#include "worker/buffer_pool.h"
#include "worker/links/rank_frame_channel.h"

namespace tutti::worker {

class LinkCollective : public kernels::Collective {
 public:
  // REQUIRES: the clock outlives this.
  explicit LinkCollective(const Clock* clock) : clock_(clock) {}

  // Counts frames from 1 again.  REQUIRES: 0 <= rank < ranks, a power of two; the channel lives
  // until the next BeginEpoch or exchange
  void BeginEpoch(RankFrameChannel* channel, Epoch epoch, int ranks, int rank);

  // From now until the next BeginEpoch or LeaveDevices, exchanges of device memory go through
  // `devices`, whose group stands and which lives so long. `patience`: for their exchanges.
  void UseDevices(kernels::DeviceExchange* devices, Duration patience);
  void LeaveDevices();

  absl::Status Reserve(int ranks, int64_t bytes) override;
  void BeginStep(uint64_t step) override { step_ = step; }
  absl::StatusOr<std::span<std::byte>> Acquire(int64_t bytes) override;
  absl::StatusOr<std::span<const float>> Sum() override;
  absl::Status Gather(std::span<const int64_t> begin) override;
  bool on_device() const override { return devices_ != nullptr; }
  absl::Status SumOnDevice(kernels::TensorView x) override;
  absl::Status GatherOnDevice(kernels::TensorView x, std::span<const int64_t> begin) override;
  absl::Status WaitForDevices() override;
  kernels::CollectiveTraffic traffic() const override { return traffic_; }

 private:
  using Buffer = std::shared_ptr<ActivationBuffer>;

  // Waits for the transport to let go of one when all are in use; DEADLINE_EXCEEDED.
  absl::StatusOr<Buffer> AllocateBuffer(int64_t bytes);
  void Send(int peer, const Buffer& buffer, int64_t begin, int64_t end);
  // Calls use(offset, payload) for pieces of an exchange of `total` bytes until all are here.
  template <class Fn>
  absl::Status Receive(int peer, int64_t total, const Fn& use);
  absl::Status Check(int peer, const RankFrameChannel::Received& received, int64_t offset,
                     int64_t total);

  absl::Status OnDevice(const absl::Status& queued, int64_t bytes_out, int64_t bytes_in);
  absl::Status Agree();
  absl::Status PollDevices();
  // The devices' group is of no use after an error: they must not wait in it.
  absl::Status LeaveAfter(absl::Status status);

  const Clock* const clock_;

  RankFrameChannel* channel_ = nullptr;
  Epoch epoch_;
  int ranks_ = 1;
  int rank_ = 0;
  uint64_t step_ = 0;
  std::vector<uint64_t> sent_;      // [ranks]: frames to that rank
  std::vector<uint64_t> received_;  // [ranks]
  kernels::CollectiveTraffic traffic_;

  std::optional<BufferPool> pool_;
  int64_t buffers_max_ = 0;
  Buffer current_;

  kernels::DeviceExchange* devices_ = nullptr;
  Duration device_patience_{};
  int64_t queued_ = 0;           // exchanges of devices in this epoch
  int64_t queued_unagreed_ = 0;  // since the ranks last agreed on that number
  bool devices_done_ = true;
};

}  // namespace tutti::worker
