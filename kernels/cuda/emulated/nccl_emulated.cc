#include "kernels/cuda/emulated/nccl_emulated.h"

#include <cstring>
#include <deque>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/emulated/device_arena.h"

namespace tutti::kernels::cuda {
namespace {

using emulated::DeviceArena;
using Bytes = std::vector<std::byte>;

Bytes Read(const void* from, int64_t count) {
  CHECK(DeviceArena::The().Holds(from, count)) << "NCCL was given memory of the host";
  const DeviceArena::Access access;
  const auto* const bytes = static_cast<const std::byte*>(from);
  return Bytes(bytes, bytes + count);
}

void Write(const Bytes& bytes, void* to) {
  CHECK(DeviceArena::The().Holds(to, static_cast<int64_t>(bytes.size())));
  const DeviceArena::Access access;
  std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace

struct EmulatedNccl::Meeting {
  explicit Meeting(int count) : ranks(count) {}

  const int ranks;
  Mutex mutex;
  ConditionVariable changed;
  int joined ABSL_GUARDED_BY(mutex) = 0;
  // By sender and receiver.
  std::map<std::pair<int, int>, std::deque<Bytes>> letters ABSL_GUARDED_BY(mutex);
};

class EmulatedNccl::Group : public NcclGroup {
 public:
  Group(EmulatedNccl* nccl, std::shared_ptr<Meeting> meeting, int rank)
      : nccl_(nccl), meeting_(std::move(meeting)), rank_(rank) {}

  // Returns when all are here.
  absl::Status Join() {
    MutexLock lock(&meeting_->mutex);
    ++meeting_->joined;
    meeting_->changed.NotifyAll();
    while (!aborted_ && meeting_->joined != meeting_->ranks) {
      meeting_->changed.Wait(&meeting_->mutex);
    }
    return aborted_ ? GivenUp() : absl::OkStatus();
  }

  absl::Status AllGather(const float* from, float* to, int64_t count, Stream stream) override {
    TUTTI_RETURN_IF_ERROR(Begin());
    for (int peer = 0; peer < meeting_->ranks; ++peer) {
      TUTTI_RETURN_IF_ERROR(Send(from, count * 4, peer, stream));
      TUTTI_RETURN_IF_ERROR(Receive(to + peer * count, count * 4, peer, stream));
    }
    return End();
  }
  absl::Status Begin() override {
    CHECK(!std::exchange(open_, true)) << "a group of operations within another";
    ++nccl_->operations_;
    return absl::OkStatus();
  }
  absl::Status Send(const void* from, int64_t bytes, int peer, Stream) override {
    CHECK(open_ && bytes > 0);
    Bytes letter = Read(from, bytes);
    MutexLock lock(&meeting_->mutex);
    meeting_->letters[{rank_, peer}].push_back(std::move(letter));
    meeting_->changed.NotifyAll();
    return absl::OkStatus();
  }
  absl::Status Receive(void* to, int64_t bytes, int peer, Stream) override {
    CHECK(open_ && bytes > 0);
    wanted_.push_back({to, bytes, peer});
    return absl::OkStatus();
  }
  // Everything sent was read before anything is written, as NCCL asks for of in-place operations.
  absl::Status End() override {
    CHECK(std::exchange(open_, false));
    for (const Wanted& wanted : std::exchange(wanted_, {})) {
      TUTTI_ASSIGN_OR_RETURN(const Bytes letter, PopLetter(wanted.peer));
      CHECK(static_cast<int64_t>(letter.size()) == wanted.bytes)
          << "rank " << wanted.peer << " sent " << letter.size() << " bytes, rank " << rank_
          << " wants " << wanted.bytes;
      Write(letter, wanted.to);
    }
    return absl::OkStatus();
  }

  absl::Status Health() override {
    MutexLock lock(&nccl_->mutex_);
    if (nccl_->background_error_.empty()) return absl::OkStatus();
    return absl::InternalError(nccl_->background_error_);
  }
  void Abort() override {
    MutexLock lock(&meeting_->mutex);
    aborted_ = true;
    meeting_->changed.NotifyAll();
  }

 private:
  struct Wanted {
    void* to;
    int64_t bytes;
    int peer;
  };

  static absl::Status GivenUp() { return absl::InternalError("the group was given up"); }

  // Waits for the next letter of `peer`.
  absl::StatusOr<Bytes> PopLetter(int peer) {
    MutexLock lock(&meeting_->mutex);
    auto& letters = meeting_->letters[{peer, rank_}];
    while (!aborted_ && letters.empty()) meeting_->changed.Wait(&meeting_->mutex);
    if (aborted_) return GivenUp();
    Bytes letter = std::move(letters.front());
    letters.pop_front();
    return letter;
  }

  EmulatedNccl* const nccl_;
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  bool open_ = false;
  std::vector<Wanted> wanted_;
  bool aborted_ ABSL_GUARDED_BY(meeting_->mutex) = false;
};

absl::StatusOr<NcclGroupId> EmulatedNccl::NewGroup() {
  MutexLock lock(&mutex_);
  NcclGroupId id = {};
  ++groups_;
  std::memcpy(id.data(), &groups_, sizeof(groups_));
  return id;
}

absl::StatusOr<std::unique_ptr<NcclGroup>> EmulatedNccl::Join(const NcclGroupId& id, int ranks,
                                                              int rank, int /*device_index*/) {
  std::shared_ptr<Meeting> meeting;
  {
    MutexLock lock(&mutex_);
    if (!join_error_.empty()) return absl::InternalError(join_error_);
    auto& known = meetings_[id];
    if (known == nullptr) known = std::make_shared<Meeting>(ranks);
    meeting = known;
  }
  auto group = std::make_unique<Group>(this, std::move(meeting), rank);
  TUTTI_RETURN_IF_ERROR(group->Join());
  return group;
}

void EmulatedNccl::set_background_error(std::string error) {
  MutexLock lock(&mutex_);
  background_error_ = std::move(error);
}

void EmulatedNccl::set_join_error(std::string error) {
  MutexLock lock(&mutex_);
  join_error_ = std::move(error);
}

}  // namespace tutti::kernels::cuda
