// The meaning of an epoch's number: the upper half is the incarnation of the coordinator that began
// it, the lower half counts its epochs over all pipelines. So whatever a later coordinator of the
// cluster begins is newer than all of an earlier one's.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"

namespace tutti {

inline constexpr int kEpochNumberBits = 32;

inline uint32_t IncarnationOf(Epoch epoch) {
  return static_cast<uint32_t>(epoch.value() >> kEpochNumberBits);
}

// The first epoch of an incarnation is the one after this.
inline Epoch EpochBefore(uint32_t incarnation) {
  return Epoch(uint64_t{incarnation} << kEpochNumberBits);
}

// The epoch for people: "1790000000.4", or "4" where no incarnation is told.
inline std::string EpochName(Epoch epoch) {
  const std::string number = std::to_string(static_cast<uint32_t>(epoch.value()));
  const uint32_t incarnation = IncarnationOf(epoch);
  return incarnation == 0 ? number : std::to_string(incarnation) + "." + number;
}

}  // namespace tutti
