#include "coordinator/fleet/planned_links.h"

namespace tutti::coordinator {

std::vector<PlannedLink> LinksOf(const std::vector<size_t>& ranks_of_stage) {
  std::vector<PlannedLink> links;
  size_t first = 0;
  for (size_t stage = 0; stage < ranks_of_stage.size(); ++stage) {
    const size_t ranks = ranks_of_stage[stage];
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t distance = 1; distance < ranks; distance *= 2) {
        const size_t other = rank ^ distance;
        if (other > rank && other < ranks) {
          links.push_back({first + rank, first + other, v1::LINK_PURPOSE_COLLECTIVE});
        }
      }
    }
    if (stage + 1 < ranks_of_stage.size()) {
      const size_t next = first + ranks;
      for (size_t rank = 0; rank < ranks_of_stage[stage + 1]; ++rank) {
        links.push_back({first + rank % ranks, next + rank, v1::LINK_PURPOSE_ACTIVATION});
      }
    }
    first += ranks;
  }
  return links;
}

}  // namespace tutti::coordinator
