#include "coordinator/fleet/first_speeds.h"

#include "coordinator/limits.h"

namespace tutti::coordinator {

FirstSpeeds::Speeds FirstSpeeds::Of(const v1::Hello& hello) {
  First now{hello.device(), hello.threads(), {{}, hello.speed_others_share()}};
  auto& told = now.speeds.by_class;
  told[hello.numerics_class()] = {hello.read_bytes_per_second(), hello.flops_per_second()};
  for (const v1::NumericsOffer& offer : hello.numerics()) {
    told[offer.numerics_class()] = {offer.read_bytes_per_second(), offer.flops_per_second()};
  }
  const bool known = told[hello.numerics_class()].known();
  const auto found = first_.find(hello.worker_id());
  if (found == first_.end()) {
    if (known && first_.size() < kDeviceNumbersMax) first_.emplace(hello.worker_id(), now);
    return now.speeds;
  }
  First& first = found->second;
  const bool quieter = known && now.speeds.others_share < first.speeds.others_share;
  if (quieter || first.device != now.device || first.threads != now.threads) first = now;
  for (auto& [name, speed] : told) {
    if (!speed.known()) continue;
    const auto [before, added] = first.speeds.by_class.emplace(name, speed);
    if (!before->second.known()) before->second = speed;
    speed = before->second;
  }
  // Else a worker that names others each time would fill the memory.
  std::erase_if(first.speeds.by_class, [&](const auto& one) { return !told.contains(one.first); });
  now.speeds.others_share = first.speeds.others_share;
  return now.speeds;
}

}  // namespace tutti::coordinator
