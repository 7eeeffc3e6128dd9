#include "base/fail_point.h"

#include <functional>
#include <map>

#include "base/check.h"
#include "base/mutex.h"

namespace tutti {
namespace {

// Points register while globals are constructed, so it is made when the first of them does.
struct FailPointRegistry {
  Mutex mutex;
  std::map<std::string, internal::FailPoint*, std::less<>> points ABSL_GUARDED_BY(mutex);
};

FailPointRegistry& Registry() {
  static FailPointRegistry* const registry = new FailPointRegistry;
  return *registry;
}

}  // namespace

namespace internal {

FailPoint::FailPoint(const char* name) : name_(name) {
  FailPointRegistry& registry = Registry();
  const MutexLock lock(&registry.mutex);
  CHECK(registry.points.emplace(name, this).second) << "two fail points \"" << name << "\"";
}

bool FailPoint::HitArmed(std::optional<int64_t> argument) {
  const MutexLock lock(&Registry().mutex);
  if (!armed_.load(std::memory_order_relaxed)) return false;
  if (trigger_.argument.has_value() && argument != trigger_.argument) return false;
  if (trigger_.passes > 0) {
    --trigger_.passes;
    return false;
  }
  if (failed_ >= trigger_.failures) return false;
  ++failed_;
  return true;
}

}  // namespace internal

ScopedFailPoint::ScopedFailPoint(std::string_view name, const FailPointTrigger& trigger)
    : name_(name) {
  FailPointRegistry& registry = Registry();
  const MutexLock lock(&registry.mutex);
  const auto found = registry.points.find(name);
  CHECK(found != registry.points.end()) << "this program has no fail point \"" << name << "\"";
  internal::FailPoint& point = *found->second;
  CHECK(!point.armed_.load()) << "fail point \"" << name << "\" is armed already";
  point.trigger_ = trigger;
  point.failed_ = 0;
  point.armed_ = true;
}

ScopedFailPoint::~ScopedFailPoint() {
  FailPointRegistry& registry = Registry();
  const MutexLock lock(&registry.mutex);
  registry.points.find(name_)->second->armed_ = false;
}

int64_t ScopedFailPoint::failed() const {
  FailPointRegistry& registry = Registry();
  const MutexLock lock(&registry.mutex);
  return registry.points.find(name_)->second->failed_;
}

std::vector<std::string> FailPointNames() {
  FailPointRegistry& registry = Registry();
  const MutexLock lock(&registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, point] : registry.points) names.push_back(name);
  return names;
}

}  // namespace tutti
