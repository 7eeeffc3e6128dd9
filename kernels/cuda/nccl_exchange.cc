#include "kernels/cuda/nccl_exchange.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/tree_sum.h"

namespace tutti::kernels::cuda {
namespace {

// A send to and a receive from every other rank, as one operation; part(r) is the part of rank r,
// got or given, in values.
absl::Status SwapWithAll(NcclGroup* group, int ranks, int rank,
                         const std::function<std::pair<const float*, int64_t>(int)>& given,
                         const std::function<std::pair<float*, int64_t>(int)>& taken,
                         Stream stream) {
  TUTTI_RETURN_IF_ERROR(group->Begin());
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    const auto [from, sent] = given(peer);
    if (sent > 0) TUTTI_RETURN_IF_ERROR(group->Send(from, sent * 4, peer, stream));
    const auto [to, received] = taken(peer);
    if (received > 0) TUTTI_RETURN_IF_ERROR(group->Receive(to, received * 4, peer, stream));
  }
  return group->End();
}

// NCCL connects ranks when an operation first needs it, and then waits for them. Operations of the
// smallest and the largest size, here where waiting is allowed.
absl::Status Connect(NcclGroup* group, int ranks, int rank, Runtime* runtime) {
  CHECK(ranks <= kTreeRanksMax);
  WorkSpace from(runtime), to(runtime);
  const int64_t largest = SlotValues(SliceValuesMax(ranks), ranks);
  TUTTI_RETURN_IF_ERROR(from.Reserve(std::max(largest, kWholeValuesMax) * 4));
  TUTTI_RETURN_IF_ERROR(to.Reserve(std::max(largest, kWholeValuesMax) * ranks * 4));
  float* const values = from.Of<float>(largest);
  float* const others = to.Of<float>(largest * ranks);
  for (const int64_t count : {int64_t{1}, kWholeValuesMax}) {
    TUTTI_RETURN_IF_ERROR(group->AllGather(values, others, count, runtime->stream()));
  }
  for (const int64_t count : {int64_t{1}, largest}) {
    TUTTI_RETURN_IF_ERROR(SwapWithAll(
        group, ranks, rank, [&](int) { return std::pair<const float*, int64_t>(values, count); },
        [&](int peer) { return std::pair(others + peer * largest, count); }, runtime->stream()));
  }
  float last = 0;
  runtime->Download(&last, 4, others, 4, 4, 1);  // waits
  return group->Health();
}

}  // namespace

NcclExchange::NcclExchange(Runtime* runtime, NcclOptions options)
    : runtime_(runtime), membership_(std::move(options), Connect) {}

absl::StatusOr<int64_t> NcclExchange::Reserve() {
  TUTTI_RETURN_IF_ERROR(work_.Reserve(kExchangeWorkBytes));
  return work_.bytes();
}

absl::Status NcclExchange::Sum(TensorView x) {
  CHECK(x.dtype == DType::kF32 && (x.rows == 1 || x.row_stride == x.cols));
  const int64_t total = x.rows * x.cols;
  const int64_t slice = SliceValuesMax(ranks());
  for (int64_t first = 0; first < total; first += slice) {
    const int64_t count = std::min(slice, total - first);
    TUTTI_RETURN_IF_ERROR(count <= kWholeValuesMax ? SumWhole(x.f32() + first, count)
                                                   : SumByParts(x.f32() + first, count));
  }
  return absl::OkStatus();
}

absl::Status NcclExchange::SumWhole(float* x, int64_t count) {
  const Stream stream = runtime_->stream();
  TUTTI_RETURN_IF_ERROR(membership_.Call("an all-gather", [&](NcclGroup* group) {
    return group->AllGather(x, work_.Of<float>(count * ranks()), count, stream);
  }));
  AddUp(x, count, {.begin = 0, .size = count});
  return absl::OkStatus();
}

absl::Status NcclExchange::SumByParts(float* x, int64_t count) {
  const int64_t slot = SlotValues(count, ranks());
  const Part own = PartOf(count, ranks(), rank());
  const auto part = [&](int rank) {
    const Part of_rank = PartOf(count, ranks(), rank);
    return std::pair(x + of_rank.begin, of_rank.size);
  };
  float* const others = work_.Of<float>(slot * ranks());
  Stream stream = runtime_->stream();
  TUTTI_RETURN_IF_ERROR(membership_.Call("an exchange of parts", [&](NcclGroup* group) {
    return SwapWithAll(
        group, ranks(), rank(), part,
        [&](int peer) { return std::pair(others + peer * slot, own.size); }, stream);
  }));
  AddUp(x, slot, own);
  stream = runtime_->stream();
  return membership_.Call("an exchange of sums", [&](NcclGroup* group) {
    return SwapWithAll(
        group, ranks(), rank(),
        [&](int) { return std::pair<const float*, int64_t>(x + own.begin, own.size); }, part,
        stream);
  });
}

// x's part becomes the sum of all ranks', the others' in the work space.
void NcclExchange::AddUp(float* x, int64_t slot, Part part) {
  LaunchTreeSum({.others = work_.Of<float>(slot * ranks()),
                 .slot = slot,
                 .own = x + part.begin,
                 .out = x + part.begin,
                 .count = part.size,
                 .ranks = ranks(),
                 .rank = rank()},
                runtime_);
}

absl::Status NcclExchange::Gather(TensorView x, std::span<const int64_t> begin) {
  CHECK(x.dtype == DType::kF32 && (x.rows == 1 || x.row_stride == x.cols));
  CHECK(static_cast<int>(begin.size()) == ranks() + 1 && begin.back() <= x.rows);
  const auto block = [&](int rank) {
    return std::pair(x.f32() + begin[rank] * x.cols, (begin[rank + 1] - begin[rank]) * x.cols);
  };
  const Stream stream = runtime_->stream();
  return membership_.Call("an exchange of rows", [&](NcclGroup* group) {
    return SwapWithAll(
        group, ranks(), rank(), [&](int) { return block(rank()); }, block, stream);
  });
}

absl::StatusOr<bool> NcclExchange::AllDone() {
  TUTTI_RETURN_IF_ERROR(membership_.Health());
  return runtime_->Idle();
}

}  // namespace tutti::kernels::cuda
