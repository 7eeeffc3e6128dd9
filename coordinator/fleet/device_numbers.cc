#include "coordinator/fleet/device_numbers.h"

#include <algorithm>

#include "coordinator/fleet/membership.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

void DeviceNumbers::Join(const std::string& worker_id) {
  if (NumberOf(worker_id) < names_.size() || names_.size() >= kDeviceNumbersMax) return;
  auto place = names_.end();
  if (!fixed_) place = std::upper_bound(names_.begin(), names_.end(), worker_id, NaturallyBefore);
  names_.insert(place, worker_id);
}

void DeviceNumbers::Leave(const std::string& worker_id) {
  if (!fixed_) std::erase(names_, worker_id);
}

size_t DeviceNumbers::NumberOf(const std::string& worker_id) const {
  return std::find(names_.begin(), names_.end(), worker_id) - names_.begin();
}

}  // namespace tutti::coordinator
