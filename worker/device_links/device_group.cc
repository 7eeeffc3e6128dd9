#include "worker/device_links/device_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace tutti::worker {
namespace {

// Blocks of one size from each rank.
struct Blocks {
  std::span<std::byte> all;
  std::vector<int64_t> begin;  // [ranks + 1]
  std::span<std::byte> of(int rank) const {
    return all.subspan(begin[rank], begin[rank + 1] - begin[rank]);
  }
};

absl::StatusOr<Blocks> AcquireBlocks(LinkCollective* collective, int ranks, int64_t bytes) {
  Blocks blocks;
  TUTTI_ASSIGN_OR_RETURN(blocks.all, collective->Acquire(ranks * bytes));
  for (int rank = 0; rank <= ranks; ++rank) blocks.begin.push_back(rank * bytes);
  return blocks;
}

}  // namespace

absl::Status DeviceGroup::Form(LinkCollective* collective, RankFrameChannel* channel, int ranks,
                               int rank, const std::function<void()>& progress) {
  if (options_.devices == nullptr || ranks == 1) return absl::OkStatus();
  const Instant begin = clock_->Now();
  TUTTI_ASSIGN_OR_RETURN(const std::string why,
                         TryToForm(collective, channel, ranks, rank, progress));
  if (!why.empty()) {
    spdlog::info("ranks exchange through the host: {}", why);
    return absl::OkStatus();
  }
  spdlog::info("ranks exchange from GPU to GPU, formed in {:.1f} s",
               Seconds(clock_->Now() - begin));
  collective->UseDevices(options_.devices, options_.exchange_patience);
  return absl::OkStatus();
}

// "" when the group stands at every rank; else why at none.
absl::StatusOr<std::string> DeviceGroup::TryToForm(LinkCollective* collective,
                                                   RankFrameChannel* channel, int ranks, int rank,
                                                   const std::function<void()>& progress) {
  kernels::DeviceMembership& devices = *options_.devices->membership();
  TUTTI_ASSIGN_OR_RETURN(const Blocks blocks,
                         AcquireBlocks(collective, ranks, devices.description_bytes()));
  const absl::Status able = devices.Describe(options_.scope, rank == 0, blocks.of(rank));
  if (!able.ok()) spdlog::warn("{}", std::string(able.message()));
  TUTTI_RETURN_IF_ERROR(collective->Gather(blocks.begin));
  std::vector<std::string> names;
  for (int other = 0; other < ranks; ++other) names.push_back(absl::StrCat("rank ", other));
  if (std::string why = devices.WhyNot(blocks.all, names); !why.empty()) return why;

  absl::Status formed = devices.Form(blocks.all, ranks, rank);
  if (formed.ok()) formed = WaitUntilFormed(channel, progress);
  absl::Cleanup leave = [&devices] { devices.Leave(); };
  if (absl::IsAborted(formed)) return formed;
  if (!formed.ok()) spdlog::warn("{}", std::string(formed.message()));
  TUTTI_ASSIGN_OR_RETURN(const std::string failed,
                         WhoFailed(collective, channel, ranks, rank, formed.ok()));
  if (failed.empty()) std::move(leave).Cancel();
  return failed;
}

absl::Status DeviceGroup::WaitUntilFormed(RankFrameChannel* channel,
                                          const std::function<void()>& progress) {
  const Instant give_up = clock_->Now() + options_.form_patience;
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(const bool formed, options_.devices->membership()->Formed());
    if (formed) return absl::OkStatus();
    const Instant now = clock_->Now();
    if (now >= give_up) {
      return absl::DeadlineExceededError(
          absl::StrCat("the ranks' devices have not found each other after ",
                       Milliseconds(options_.form_patience), " ms"));
    }
    progress();
    TUTTI_RETURN_IF_ERROR(channel->Pause(std::min(give_up, now + kFormLookInterval)));
  }
}

// "" when all ranks have joined the group.
absl::StatusOr<std::string> DeviceGroup::WhoFailed(LinkCollective* collective,
                                                   RankFrameChannel* channel, int ranks, int rank,
                                                   bool formed) {
  // A rank that fails at once has to wait for those that still try.
  channel->AllowSilence(options_.form_patience);
  const absl::Cleanup no_more = [channel] { channel->AllowSilence({}); };
  TUTTI_ASSIGN_OR_RETURN(const Blocks blocks, AcquireBlocks(collective, ranks, 8));
  std::fill(blocks.of(rank).begin(), blocks.of(rank).end(), std::byte(formed ? 1 : 0));
  TUTTI_RETURN_IF_ERROR(collective->Gather(blocks.begin));
  for (int other = 0; other < ranks; ++other) {
    if (blocks.of(other)[0] == std::byte(1)) continue;
    return other == rank ? std::string("this rank's GPU could not join the others")
                         : channel->NameOf(other) + "'s GPU could not join the others";
  }
  return std::string();
}

}  // namespace tutti::worker
