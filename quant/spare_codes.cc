#include "quant/spare_codes.h"

#include <algorithm>
#include <utility>

namespace tutti::quant {
namespace {

// Whatever is smaller may be kept for anything. Matrices of which less than 32 MiB are read, so of
// up to 64 MiB of codes, come in the order of their files, large and small by turns
// (worker/weights.cc): they would lose their memory each time.
constexpr size_t kSmallBytes = size_t{64} << 20;

}  // namespace

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
  // What is far too large is of a matrix that comes once, such as the head, and comes first: kept,
  // it would be held beside all others.
  const bool too_large = found.capacity() > std::max(kSmallBytes, 2 * size);
  if (found.capacity() < size || too_large) {
    std::vector<uint8_t>().swap(found);  // before there is another
  }
  found.resize(size);
  return found;
}

}  // namespace tutti::quant
