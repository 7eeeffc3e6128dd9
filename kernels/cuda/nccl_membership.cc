#include "kernels/cuda/nccl_membership.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace tutti::kernels::cuda {

// A group in the making, shared with the thread that makes it. The thread may outlive everything
// but this object: NCCL can wait for members that never come, and has no way to be called back
// before a group exists.
class NcclMembership::Attempt {
 public:
  struct Made {
    std::shared_ptr<NcclGroup> group;
    std::unique_ptr<Runtime> runtime;
  };

  static std::shared_ptr<Attempt> Start(std::shared_ptr<Nccl> nccl, const NcclOptions& options,
                                        Connect connect, const NcclGroupId& id, int members,
                                        int member) {
    auto attempt = std::make_shared<Attempt>();
    auto thread = TryStartThread("NCCL", [=, open_runtime = options.open_runtime,
                                          device = options.device_index] {
      attempt->End(attempt->Make(nccl.get(), open_runtime, connect, id, members, member, device));
    });
    if (thread.ok()) {
      thread->detach();
    } else {
      attempt->End(thread.status());
    }
    return attempt;
  }

  bool ended() {
    MutexLock lock(&mutex_);
    return result_.has_value();
  }
  // REQUIRES: ended
  absl::StatusOr<Made> ReleaseResult() {
    MutexLock lock(&mutex_);
    TUTTI_RETURN_IF_ERROR(*result_);
    return std::move(made_);
  }
  // The group is not wanted any more.
  void Abandon() {
    MutexLock lock(&mutex_);
    abandoned_ = true;
    if (made_.group != nullptr) made_.group->Abort();
  }

 private:
  absl::Status Make(Nccl* nccl, const RuntimeOpener& open_runtime, const Connect& connect,
                    const NcclGroupId& id, int members, int member, int device) {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Runtime> runtime, open_runtime());
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<NcclGroup> group,
                           nccl->Join(id, members, member, device));
    {
      MutexLock lock(&mutex_);
      if (abandoned_) {
        group->Abort();
        return absl::AbortedError("the group is not wanted any more");
      }
      made_.group = group;
    }
    TUTTI_RETURN_IF_ERROR(connect(group.get(), members, member, runtime.get()));
    MutexLock lock(&mutex_);
    made_.runtime = std::move(runtime);
    return absl::OkStatus();
  }
  void End(absl::Status status) {
    MutexLock lock(&mutex_);
    if (!status.ok()) made_ = Made();
    result_ = std::move(status);
  }

  Mutex mutex_;
  Made made_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(mutex_);
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
};

NcclMembership::NcclMembership(NcclOptions options, Connect connect)
    : options_(std::move(options)), connect_(std::move(connect)) {}

NcclMembership::~NcclMembership() { Leave(); }

const absl::StatusOr<std::shared_ptr<Nccl>>& NcclMembership::Library() {
  if (!library_.has_value()) library_ = options_.open_nccl();
  return *library_;
}

absl::Status NcclMembership::Describe(DeviceExchangeScope scope, bool founder,
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

std::string NcclMembership::WhyNot(std::span<const std::byte> descriptions,
                                   std::span<const std::string> names) const {
  if (descriptions.size() != names.size() * kExchangeFactsBytes) {
    return absl::StrCat(descriptions.size(), " bytes of descriptions of ", names.size(), " GPUs");
  }
  std::vector<ExchangeFacts> members;
  for (const std::string& name : names) {
    const auto facts =
        ReadFacts(descriptions.subspan(members.size() * kExchangeFactsBytes, kExchangeFactsBytes));
    if (!facts.ok()) return absl::StrCat(name, " sent ", std::string(facts.status().message()));
    members.push_back(*facts);
  }
  return WhyNoGroup(members, names);
}

absl::Status NcclMembership::Form(std::span<const std::byte> descriptions, int members,
                                  int member) {
  CHECK(group_ == nullptr);
  if (attempt_ != nullptr && !attempt_->ended()) {
    return absl::UnavailableError("NCCL still waits for the members of an earlier group");
  }
  TUTTI_ASSIGN_OR_RETURN(const ExchangeFacts founder,
                         ReadFacts(descriptions.first(kExchangeFactsBytes)));
  if (!founder.founded) return absl::FailedPreconditionError("its founder could not found a group");
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<Nccl> nccl, Library());
  members_ = members;
  member_ = member;
  broken_ = absl::OkStatus();
  attempt_ = Attempt::Start(nccl, options_, connect_, founder.group, members, member);
  return absl::OkStatus();
}

absl::StatusOr<bool> NcclMembership::Formed() {
  if (group_ != nullptr) return true;
  CHECK(attempt_ != nullptr) << "Formed without Form";
  if (!attempt_->ended()) return false;
  TUTTI_ASSIGN_OR_RETURN(Attempt::Made made, std::exchange(attempt_, nullptr)->ReleaseResult());
  group_ = std::move(made.group);
  runtime_ = std::move(made.runtime);
  watchdog_ = std::make_unique<CallWatchdog>(options_.call_patience);
  ++group_number_;
  return true;
}

void NcclMembership::Leave() {
  if (attempt_ != nullptr) attempt_->Abandon();
  watchdog_.reset();
  if (group_ != nullptr) group_->Abort();
  group_.reset();
  runtime_.reset();
}

absl::Status NcclMembership::Call(const char* name,
                                  const std::function<absl::Status(NcclGroup*)>& call) {
  CHECK(group_ != nullptr) << name << ": no group stands";
  if (broken_.ok()) {
    broken_ = watchdog_->Run(
        name, [&] { return call(group_.get()); }, [this] { group_->Abort(); });
  }
  return broken_;
}

absl::Status NcclMembership::Health() {
  if (broken_.ok()) broken_ = group_->Health();
  return broken_;
}

}  // namespace tutti::kernels::cuda
