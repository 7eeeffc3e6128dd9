#include "quant/spare_codes.h"

#include <algorithm>
#include <utility>

namespace tutti::quant {

std::vector<uint8_t> SpareCodes::Take(size_t size) {
  const auto smaller = [&](const auto& a, const auto& b) {
    return std::pair(a.capacity() < size, a.capacity()) <
           std::pair(b.capacity() < size, b.capacity());
  };
  // The smallest that is large enough; if none is, one makes room for the new one.
  const auto best = std::min_element(spare_.begin(), spare_.end(), smaller);
  if (best == spare_.end()) return std::vector<uint8_t>(size);
  std::vector<uint8_t> found = std::move(*best);
  spare_.erase(best);
  if (found.capacity() < size) return std::vector<uint8_t>(size);
  found.resize(size);
  return found;
}

}  // namespace tutti::quant
