#include "coordinator/service/running_requests.h"

#include <utility>

namespace tutti::coordinator {

class RunningRequests::Entry {
 public:
  Entry(std::shared_ptr<RunningRequests> all, Name name, RequestId first)
      : all_(std::move(all)), name_(std::move(name)), first_(first) {}
  ~Entry() { all_->Remove(name_, first_); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  const std::shared_ptr<RunningRequests> all_;
  const Name name_;
  const RequestId first_;
};

absl::StatusOr<std::optional<RunningRequests::Running>> RunningRequests::Find(
    const Name& name, const Hash128& body) const {
  const auto found = running_.find(name);
  if (found == running_.end()) return std::optional<Running>();
  if (found->second.body == body) return std::optional<Running>(found->second);
  return absl::AlreadyExistsError(
      "request_id: a request of this name runs, and it is another; give each its own name, or "
      "none");
}

std::shared_ptr<const void> RunningRequests::Add(const Name& name, const Running& running) {
  running_[name] = running;
  return std::make_shared<const Entry>(shared_from_this(), name, running.first);
}

void RunningRequests::Remove(const Name& name, RequestId first) {
  const MutexLock lock(&mutex_);
  const auto found = running_.find(name);
  if (found != running_.end() && found->second.first == first) running_.erase(found);
}

size_t RunningRequests::size() const {
  const MutexLock lock(&mutex_);
  return running_.size();
}

}  // namespace tutti::coordinator
