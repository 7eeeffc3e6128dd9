#include "coordinator/pipeline/pipeline_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

const char* PurposeName(v1::LinkPurpose purpose) {
  return purpose == v1::LINK_PURPOSE_COLLECTIVE ? "rank" : "activation";
}

}  // namespace

PipelineLinks::PipelineLinks(const std::vector<size_t>& ranks_of_stage,
                             std::vector<std::string> names)
    : names_(std::move(names)) {
  for (const PlannedLink& planned : LinksOf(ranks_of_stage)) {
    links_.push_back({.planned = planned, .error = ""});
  }
}

absl::Status PipelineLinks::OnState(size_t shard, const v1::LinkState& state) {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const Link& link) {
    const PlannedLink& planned = link.planned;
    const bool own = (planned.from == shard && names_[planned.to] == state.worker_id()) ||
                     (planned.to == shard && names_[planned.from] == state.worker_id());
    return own && planned.purpose == state.purpose();
  });
  if (found == links_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("link_state is about a link that ", names_[shard], " has not"));
  }
  const auto number = static_cast<size_t>(found - links_.begin());
  std::erase_if(failed_, [&](const Reported& one) { return one.link == number; });
  found->up = state.up();
  found->error = state.up() ? "" : state.error().substr(0, kLinkErrorBytesMax);
  if (!state.up()) failed_.push_back({.link = number, .by = shard});
  return absl::OkStatus();
}

const PipelineLinks::Link* PipelineLinks::FindFailed(size_t shard) const {
  for (const Reported& one : failed_) {
    if (one.by == shard) return &links_[one.link];
  }
  return nullptr;
}

const PipelineLinks::Link* PipelineLinks::FindFailed() const {
  return failed_.empty() ? nullptr : &links_[failed_.front().link];
}

const PipelineLinks::Link* PipelineLinks::FindMissing() const {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [](const Link& link) { return !link.up; });
  return found == links_.end() ? nullptr : &*found;
}

const PipelineLinks::Link* PipelineLinks::FindFeeding(size_t to) const {
  for (const Link& link : links_) {
    if (link.planned.to == to && link.planned.purpose == v1::LINK_PURPOSE_ACTIVATION) return &link;
  }
  return nullptr;
}

const PipelineLinks::Link* PipelineLinks::FindBetween(size_t a, size_t b) const {
  for (const Link& link : links_) {
    const PlannedLink& planned = link.planned;
    if (planned.purpose != v1::LINK_PURPOSE_COLLECTIVE) continue;
    if ((planned.from == a && planned.to == b) || (planned.from == b && planned.to == a)) {
      return &link;
    }
  }
  return nullptr;
}

std::string PipelineLinks::Describe(const Link& link) const {
  return absl::StrCat("the ", PurposeName(link.planned.purpose), " link from ",
                      names_[link.planned.from], " to ", names_[link.planned.to]);
}

void PipelineLinks::FillStatus(v1::PipelineStatus* status) const {
  for (const Link& link : links_) {
    v1::LinkStatus* const one = status->add_links();
    one->set_from(names_[link.planned.from]);
    one->set_to(names_[link.planned.to]);
    one->set_purpose(PurposeName(link.planned.purpose));
    one->set_up(link.up);
    one->set_error(link.error);
  }
}

}  // namespace tutti::coordinator
