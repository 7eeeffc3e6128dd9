// The links that a pipeline needs between its workers, by the ranks of its stages.
//
// Shards are numbered stage by stage, within a stage rank by rank.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// A link that must stand, between two shards; `from` dials.
struct PlannedLink {
  size_t from = 0;
  size_t to = 0;
  v1::LinkPurpose purpose = v1::LINK_PURPOSE_ACTIVATION;
};

// The links of stages with these many ranks: rank r of a stage is fed by rank r modulo n of the n
// ranks before it, and ranks of a stage exchange with those that differ in one bit of their number.
std::vector<PlannedLink> LinksOf(const std::vector<size_t>& ranks_of_stage);

}  // namespace tutti::coordinator
