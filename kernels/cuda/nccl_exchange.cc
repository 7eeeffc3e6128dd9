#include "kernels/cuda/nccl_exchange.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/cuda/tree_sum.h"

namespace tutti::kernels::cuda {
namespace {

// A send to and a receive from every other rank, as one operation; part(r) is what rank r gets,
// or gives.
absl::Status SwapWithAll(NcclGroup* group, int ranks, int rank,
                         const std::function<std::pair<const float*, int64_t>(int)>& given,
                         const std::function<std::pair<float*, int64_t>(int)>& taken,
                         Stream stream) {
  TUTTI_RETURN_IF_ERROR(group->Begin());
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    const auto [from, sent] = given(peer);
    if (sent > 0) TUTTI_RETURN_IF_ERROR(group->Send(from, sent, peer, stream));
    const auto [to, received] = taken(peer);
    if (received > 0) TUTTI_RETURN_IF_ERROR(group->Receive(to, received, peer, stream));
  }
  return group->End();
}

// NCCL connects ranks when an operation first needs it, and then waits for them. Operations of the
// smallest and the largest size, here where waiting is allowed.
absl::Status Connect(NcclGroup* group, int ranks, int rank, Runtime* runtime) {
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

// A group in the making, shared with the thread that makes it. The thread may outlive everything
// but this object: NCCL can wait for ranks that never come, and has no way to be called back
// before a group exists.
class NcclExchange::Attempt {
 public:
  static std::shared_ptr<Attempt> Start(std::shared_ptr<Nccl> nccl, RuntimeOpener open_runtime,
                                        const NcclGroupId& id, int ranks, int rank, int device) {
    auto attempt = std::make_shared<Attempt>();
    std::thread([=] {
      attempt->End(attempt->Make(nccl.get(), open_runtime, id, ranks, rank, device));
    }).detach();
    return attempt;
  }

  bool ended() {
    std::lock_guard lock(mutex_);
    return result_.has_value();
  }
  // REQUIRES: ended
  absl::StatusOr<std::shared_ptr<NcclGroup>> Take() {
    std::lock_guard lock(mutex_);
    TUTTI_RETURN_IF_ERROR(*result_);
    return std::move(group_);
  }
  // Nobody waits for it any more.
  void Abandon() {
    std::lock_guard lock(mutex_);
    abandoned_ = true;
    if (group_ != nullptr) group_->Abort();
  }

 private:
  absl::Status Make(Nccl* nccl, const RuntimeOpener& open_runtime, const NcclGroupId& id, int ranks,
                    int rank, int device) {
    TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, open_runtime());
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<NcclGroup> group, nccl->Join(id, ranks, rank, device));
    {
      std::lock_guard lock(mutex_);
      if (abandoned_) {
        group->Abort();
        return absl::AbortedError("nobody waits for the group any more");
      }
      group_ = group;
    }
    return Connect(group.get(), ranks, rank, runtime.get());
  }
  void End(absl::Status status) {
    std::lock_guard lock(mutex_);
    if (!status.ok()) group_.reset();
    result_ = std::move(status);
  }

  std::mutex mutex_;
  // Guarded by mutex_:
  std::shared_ptr<NcclGroup> group_;
  std::optional<absl::Status> result_;
  bool abandoned_ = false;
};

NcclExchange::NcclExchange(Runtime* runtime, Options options)
    : runtime_(runtime), options_(std::move(options)) {}

NcclExchange::~NcclExchange() { Leave(); }

const absl::StatusOr<std::shared_ptr<Nccl>>& NcclExchange::Library() {
  if (!library_.has_value()) library_ = options_.open_nccl();
  return *library_;
}

absl::Status NcclExchange::Describe(DeviceExchangeScope scope, bool founder,
                                    std::span<std::byte> to) {
  ExchangeFacts facts = {.scope = scope, .machine = options_.machine, .device = options_.device_id};
  absl::Status status;
  if (scope != DeviceExchangeScope::kOff) {
    status = Library().status();
    if (status.ok()) facts.nccl_version = (*Library())->version();
    if (status.ok() && founder) {
      const auto id = (*Library())->NewGroup();
      status = id.status();
      facts.founded = id.ok();
      if (id.ok()) facts.group = *id;
    }
  }
  WriteFacts(facts, to);
  return status;
}

std::string NcclExchange::WhyNot(std::span<const std::byte> descriptions) const {
  std::vector<ExchangeFacts> ranks;
  for (size_t at = 0; at < descriptions.size(); at += kExchangeFactsBytes) {
    const auto facts = ReadFacts(descriptions.subspan(at, kExchangeFactsBytes));
    if (!facts.ok()) {
      return absl::StrCat("rank ", ranks.size(), " sent ", std::string(facts.status().message()));
    }
    ranks.push_back(*facts);
  }
  return WhyNoGroup(ranks);
}

absl::Status NcclExchange::Form(std::span<const std::byte> descriptions, int ranks, int rank) {
  CHECK(group_ == nullptr && ranks <= kTreeRanksMax);
  if (attempt_ != nullptr && !attempt_->ended()) {
    return absl::UnavailableError("NCCL still waits for the ranks of an earlier group");
  }
  TUTTI_ASSIGN_OR_RETURN(const ExchangeFacts founder,
                         ReadFacts(descriptions.first(kExchangeFactsBytes)));
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<Nccl> nccl, Library());
  TUTTI_RETURN_IF_ERROR(Reserve().status());
  ranks_ = ranks;
  rank_ = rank;
  broken_ = absl::OkStatus();
  attempt_ = Attempt::Start(nccl, options_.open_runtime, founder.group, ranks, rank,
                            options_.device_index);
  return absl::OkStatus();
}

absl::StatusOr<bool> NcclExchange::Formed() {
  if (group_ != nullptr) return true;
  CHECK(attempt_ != nullptr) << "Formed without Form";
  if (!attempt_->ended()) return false;
  TUTTI_ASSIGN_OR_RETURN(group_, std::exchange(attempt_, nullptr)->Take());
  watchdog_ = std::make_unique<CallWatchdog>(options_.call_patience);
  return true;
}

void NcclExchange::Leave() {
  if (attempt_ != nullptr) attempt_->Abandon();
  watchdog_.reset();
  if (group_ != nullptr) group_->Abort();
  group_.reset();
}

absl::StatusOr<int64_t> NcclExchange::Reserve() {
  TUTTI_RETURN_IF_ERROR(work_.Reserve(kExchangeWorkBytes));
  return work_.bytes();
}

absl::Status NcclExchange::Call(const char* name, const std::function<absl::Status()>& call) {
  CHECK(group_ != nullptr) << name << ": no group stands";
  if (broken_.ok()) broken_ = watchdog_->Run(name, call, [this] { group_->Abort(); });
  return broken_;
}

absl::Status NcclExchange::Sum(TensorView x) {
  CHECK(x.dtype == DType::kF32 && (x.rows == 1 || x.row_stride == x.cols));
  const int64_t total = x.rows * x.cols;
  const int64_t slice = SliceValuesMax(ranks_);
  for (int64_t first = 0; first < total; first += slice) {
    const int64_t count = std::min(slice, total - first);
    TUTTI_RETURN_IF_ERROR(count <= kWholeValuesMax ? SumWhole(x.f32() + first, count)
                                                   : SumByParts(x.f32() + first, count));
  }
  return absl::OkStatus();
}

absl::Status NcclExchange::SumWhole(float* x, int64_t count) {
  const Stream stream = runtime_->stream();
  TUTTI_RETURN_IF_ERROR(Call("an all-gather", [&] {
    return group_->AllGather(x, work_.Of<float>(count * ranks_), count, stream);
  }));
  AddUp(x, count, {.begin = 0, .size = count});
  return absl::OkStatus();
}

absl::Status NcclExchange::SumByParts(float* x, int64_t count) {
  const int64_t slot = SlotValues(count, ranks_);
  const Part own = PartOf(count, ranks_, rank_);
  const auto part = [&](int rank) {
    const Part of_rank = PartOf(count, ranks_, rank);
    return std::pair(x + of_rank.begin, of_rank.size);
  };
  float* const others = work_.Of<float>(slot * ranks_);
  Stream stream = runtime_->stream();
  TUTTI_RETURN_IF_ERROR(Call("an exchange of parts", [&] {
    return SwapWithAll(
        group_.get(), ranks_, rank_, part,
        [&](int peer) { return std::pair(others + peer * slot, own.size); }, stream);
  }));
  AddUp(x, slot, own);
  stream = runtime_->stream();
  return Call("an exchange of sums", [&] {
    return SwapWithAll(
        group_.get(), ranks_, rank_,
        [&](int) { return std::pair<const float*, int64_t>(x + own.begin, own.size); }, part,
        stream);
  });
}

// x's part becomes the sum of all ranks', the others' in the work space.
void NcclExchange::AddUp(float* x, int64_t slot, Part part) {
  LaunchTreeSum({.others = work_.Of<float>(slot * ranks_),
                 .slot = slot,
                 .own = x + part.begin,
                 .out = x + part.begin,
                 .count = part.size,
                 .ranks = ranks_,
                 .rank = rank_},
                runtime_);
}

absl::Status NcclExchange::Gather(TensorView x, std::span<const int64_t> begin) {
  CHECK(x.dtype == DType::kF32 && (x.rows == 1 || x.row_stride == x.cols));
  CHECK(static_cast<int>(begin.size()) == ranks_ + 1 && begin.back() <= x.rows);
  const auto block = [&](int rank) {
    return std::pair(x.f32() + begin[rank] * x.cols, (begin[rank + 1] - begin[rank]) * x.cols);
  };
  const Stream stream = runtime_->stream();
  return Call("an exchange of rows", [&] {
    return SwapWithAll(
        group_.get(), ranks_, rank_, [&](int) { return block(rank_); }, block, stream);
  });
}

absl::StatusOr<bool> NcclExchange::Settled() {
  if (broken_.ok()) broken_ = group_->Health();
  TUTTI_RETURN_IF_ERROR(broken_);
  return runtime_->Idle();
}

}  // namespace tutti::kernels::cuda
