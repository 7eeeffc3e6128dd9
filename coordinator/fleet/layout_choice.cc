#include "coordinator/fleet/layout_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tutti::coordinator {
namespace {

// Rejected layouts that are worth a place in the log; the status has all.
constexpr size_t kRejectedLogged = 4;

PipelineShape ShapeOfMap(const placement::DeviceMap& map) {
  PipelineShape shape{.num_stages = static_cast<int32_t>(map.stages.size()), .stage_ranks = {}};
  for (const placement::MappedStage& stage : map.stages) {
    shape.stage_ranks.push_back(stage.ranks());
    shape.num_workers += stage.ranks();
  }
  return shape;
}

void FillTried(const placement::LayoutTried& tried, v1::LayoutTried* status) {
  status->set_stages(tried.layout.stages);
  status->set_ranks(tried.layout.ranks);
  status->set_pipelines(tried.layout.pipelines);
  status->set_largest_first(tried.largest_first);
  status->set_fits(tried.fits);
  status->set_kv_tokens(tried.kv_tokens);
  status->set_tokens_per_second(tried.tokens_per_second);
  status->set_lacking_bytes(tried.lacking_bytes);
  status->set_lacking_worker(tried.lacking_device);
}

}  // namespace

LayoutChoice::LayoutChoice(const EngineOptions* options) : options_(options) {
  if (!options->device_map.stages.empty()) {
    shape_ = ShapeOfMap(options->device_map);
    return;
  }
  if (options->stage_ranks.empty() && (options->num_stages == 0 || options->num_ranks == 0)) {
    open_ = true;
    return;
  }
  shape_ = PipelineShape{.num_stages = options->num_stages,
                         .num_ranks = options->num_ranks,
                         .stage_ranks = options->stage_ranks};
  for (int32_t stage = 0; stage < shape_->num_stages; ++stage) {
    shape_->num_workers += shape_->ranks_of(stage);
  }
}

bool LayoutChoice::orders_devices() const {
  return placement::NamesNumbers(options_->device_map) || !options_->max_memory.empty() ||
         options_->device_map.mode != placement::DeviceMapMode::kAuto;
}

absl::Status LayoutChoice::Choose(const std::vector<placement::DeviceSpec>& devices) {
  const placement::ClusterOptions asked{.placement = PlacementOptionsOf(*options_),
                                        .num_pipelines = options_->num_pipelines};
  TUTTI_ASSIGN_OR_RETURN(plan_, placement::PlanCluster(options_->model, devices, asked));
  plan_.pipelines.clear();
  num_devices_ = devices.size();
  const placement::Layout& layout = plan_.chosen.layout;
  if (asked.placement.mode == placement::DeviceMapMode::kAuto) {
    shape_ = PipelineShape{.num_stages = layout.stages,
                           .num_ranks = layout.ranks,
                           .stage_ranks = {},
                           .num_workers = layout.stages * layout.ranks,
                           .largest_first = plan_.chosen.largest_first};
  } else {
    const auto count = static_cast<int32_t>(devices.size());
    const int32_t ranks = std::max(1, options_->num_ranks);
    shape_ = PipelineShape{.num_stages = options_->num_stages,
                           .num_ranks = ranks,
                           .stage_ranks = {},
                           .num_workers = count / std::max(1, options_->num_pipelines)};
    if (shape_->num_stages > 0) shape_->num_workers = shape_->num_stages * ranks;
  }
  return absl::OkStatus();
}

void LayoutChoice::FillStatus(v1::LayoutChoice* status) const {
  status->set_workers(static_cast<int32_t>(num_devices_));
  status->set_speeds_known(plan_.speeds_known);
  FillTried(plan_.chosen, status->mutable_chosen());
  for (const placement::LayoutTried& one : plan_.rejected) {
    v1::LayoutTried* const rejected = status->add_rejected();
    FillTried(one, rejected);
    rejected->set_why_rejected(WhyRejected(one, plan_.chosen));
  }
}

std::string LayoutChoice::Describe() const {
  std::string text =
      absl::StrCat("layout: ", placement::DescribeLayout(plan_.chosen.layout), " chosen for ",
                   num_devices_, num_devices_ == 1 ? " worker" : " workers",
                   plan_.chosen.largest_first ? ", quick and large ones first" : "");
  std::vector<std::string> rejected;
  for (size_t i = 0; i < std::min(plan_.rejected.size(), kRejectedLogged); ++i) {
    const placement::LayoutTried& one = plan_.rejected[i];
    rejected.push_back(absl::StrCat(placement::DescribeLayout(one.layout),
                                    one.largest_first ? " largest first" : "", " (",
                                    WhyRejected(one, plan_.chosen), ")"));
  }
  if (rejected.empty()) return text;
  absl::StrAppend(&text, "; rejected: ", absl::StrJoin(rejected, ", "));
  if (plan_.rejected.size() > rejected.size()) {
    absl::StrAppend(&text, " and ", plan_.rejected.size() - rejected.size(), " more");
  }
  return text;
}

std::string WhyRejected(const placement::LayoutTried& rejected,
                        const placement::LayoutTried& chosen) {
  if (!rejected.fits) {
    return absl::StrCat("lacks ", rejected.lacking_bytes, " bytes on ", rejected.lacking_device);
  }
  const double share = rejected.tokens_per_second / chosen.tokens_per_second;
  if (share >= 1) return "no faster by 3 %, and more to run";
  return absl::StrFormat("%.0f %% of its speed", share * 100);
}

}  // namespace tutti::coordinator
