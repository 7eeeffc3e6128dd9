// The links between the workers of one pipeline: which there are, and how they stand as the workers
// report them. A step passes over all of them, so a pipeline does not serve before each is up.
//
// Shards are numbered stage by stage, within a stage rank by rank.
//
// Thread: the engine's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "coordinator/fleet/planned_links.h"
#include "proto/peer_messages.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class PipelineLinks {
 public:
  // `names`: the worker of each shard.
  PipelineLinks() = default;
  PipelineLinks(const std::vector<size_t>& ranks_of_stage, std::vector<std::string> names);

  struct Link {
    PlannedLink planned;
    bool up = false;
    std::string error;  // why it is not; empty: nobody has said
  };

  // The worker of `shard` reports one of its links. INVALID_ARGUMENT: it has no such link.
  absl::Status OnState(size_t shard, const v1::LinkState& state);
  // The first link that this shard, or any, has reported to be down.
  const Link* FindFailed(size_t shard) const;
  const Link* FindFailed() const;
  // The first link that nobody has reported to be up.
  const Link* FindMissing() const;
  // The link by which `to` is fed; null: its shard is of the first stage.
  const Link* FindFeeding(size_t to) const;
  // The link between two ranks of a stage, either way round; null: there is none.
  const Link* FindBetween(size_t a, size_t b) const;

  const std::vector<Link>& all() const { return links_; }
  const std::string& NameOf(size_t shard) const { return names_[shard]; }
  // "the activation link from w0 to w1"
  std::string Describe(const Link& link) const;
  void FillStatus(v1::PipelineStatus* status) const;

 private:
  struct Reported {
    size_t link = 0;
    size_t by = 0;
  };

  std::vector<Link> links_;
  std::vector<std::string> names_;
  std::vector<Reported> failed_;  // in the order of the reports
};

}  // namespace tutti::coordinator
