#include "placement/cluster_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/partition.h"
#include "placement/place_pipeline.h"
#include "placement/placement_cost.h"
#include "placement/placement_modes.h"
#include "placement/placement_refusal.h"
#include "placement/placement_split.h"

namespace tutti::placement {
namespace {

// Pipelines looked at while layouts are compared.
constexpr int64_t kPipelinesSampled = 8;
// Layers dealt while one layout is looked at, and for the final plan: about 100 ns each.
constexpr int64_t kLayersDealtPerLayout = 20'000;
constexpr int64_t kLayersDealtAtEnd = 1'000'000;

// Everything a search needs. Devices are referred to by their index.
class Search {
 public:
  Search(const model::ModelConfig& model, const std::vector<DeviceSpec>& devices,
         const ClusterOptions& options, int estimate)
      : model_(model),
        devices_(WithComparableSpeeds(devices)),
        given_(devices),
        options_(options.placement),
        pipelines_asked_(options.num_pipelines),
        wanted_(BlocksWanted(model, options.placement)),
        costs_(model, options_, estimate) {
    const auto count = static_cast<int64_t>(devices.size());
    as_given_.resize(count);
    std::iota(as_given_.begin(), as_given_.end(), 0);
    largest_first_ = LargestFirst(devices_);
  }

  // Nothing: what was chosen does not fit when each layer's own bytes are counted.
  absl::StatusOr<std::optional<ClusterPlan>> Run();

 private:
  std::vector<int32_t> RanksToTry() const;
  std::vector<int32_t> StagesToTry(int32_t ranks) const;
  LayoutTried Try(Layout layout, bool largest_first);
  std::vector<StageGroup> GroupsOf(const Layout& layout, int64_t pipeline,
                                   bool largest_first) const;
  bool PipelineFits(const Layout& layout, int64_t pipeline, bool largest_first);
  void NoteLack(const std::vector<StageGroup>& groups, LayoutTried* tried);
  double PaceOfPipeline(const std::vector<StageGroup>& groups, const ModeSplit& split);
  std::optional<ClusterPlan> Write(const LayoutTried& chosen);
  int32_t BusySequences(int64_t pipelines) const {
    return static_cast<int32_t>(std::max<int64_t>(1, options_.max_sequences / pipelines));
  }

  const model::ModelConfig& model_;
  const std::vector<DeviceSpec> devices_;  // with speeds to compare by
  const std::vector<DeviceSpec>& given_;
  PlacementOptions options_;
  const int32_t pipelines_asked_;
  const BlockRange wanted_;
  StageCosts costs_;
  StageSlot slot_;  // scratch of PipelineFits
  std::vector<int64_t> as_given_;
  std::vector<int64_t> largest_first_;
};

std::vector<int32_t> Search::RanksToTry() const {
  if (options_.num_ranks > 0) return {options_.num_ranks};
  std::vector<int32_t> ranks;
  for (int32_t count = 1; count <= model::kLeaves; count *= 2) {
    if (model::CheckRanks(model_, count).ok()) ranks.push_back(count);
  }
  return ranks;
}

// All small numbers of stages, then fewer and fewer of the large ones.
std::vector<int32_t> Search::StagesToTry(int32_t ranks) const {
  if (options_.num_stages > 0) return {options_.num_stages};
  const auto pipelines = std::max(1, pipelines_asked_);
  const auto most = std::min<int64_t>(
      model_.num_layers, static_cast<int64_t>(devices_.size()) / (int64_t{ranks} * pipelines));
  std::vector<int32_t> stages;
  for (int64_t count = 1; count < most; count += std::max<int64_t>(1, count / 4)) {
    stages.push_back(static_cast<int32_t>(count));
  }
  if (most >= 1) stages.push_back(static_cast<int32_t>(most));
  return stages;
}

std::vector<StageGroup> Search::GroupsOf(const Layout& layout, int64_t pipeline,
                                         bool largest_first) const {
  const std::vector<int64_t>& order = largest_first ? largest_first_ : as_given_;
  auto next = order.begin() + pipeline * layout.stages * layout.ranks;
  std::vector<StageGroup> groups;
  for (int32_t stage = 0; stage < layout.stages; ++stage, next += layout.ranks) {
    groups.emplace_back(next, next + layout.ranks);
  }
  return groups;
}

// Fits() of the pipeline's slots, without making them: this is asked for every device in every
// layout.
bool Search::PipelineFits(const Layout& layout, int64_t pipeline, bool largest_first) {
  const std::vector<int64_t>& order = largest_first ? largest_first_ : as_given_;
  auto next = order.begin() + pipeline * layout.stages * layout.ranks;
  slot_.ranks.resize(layout.ranks);
  int64_t held = 0;
  for (int32_t stage = 0; stage < layout.stages; ++stage) {
    for (size_t rank = 0; rank < slot_.ranks.size(); ++rank) {
      const DeviceSpec& device = devices_[*next++];
      const bool last = stage + 1 == layout.stages;
      const StageCost& cost = costs_.Of(layout.ranks, stage == 0, last, device.kind);
      slot_.ranks[rank] = {&cost.ranks[rank], UsableBytes(device)};
    }
    const int64_t layers = LayersThatFit(slot_, wanted_.least);
    if (layers < 1) return false;
    held += std::min(layers, model_.num_layers);
  }
  return held >= model_.num_layers;
}

double Search::PaceOfPipeline(const std::vector<StageGroup>& groups, const ModeSplit& split) {
  return PaceOf(SlotsOf(groups, devices_, &costs_), split.split, options_,
                model_.max_position_embeddings);
}

// Records the device that lacks most for an even share of the layers, and how much.
void Search::NoteLack(const std::vector<StageGroup>& groups, LayoutTried* tried) {
  const std::vector<StageSlot> slots = SlotsOf(groups, devices_, &costs_);
  const auto count = static_cast<int64_t>(slots.size());
  const int64_t share = (model_.num_layers + count - 1) / count;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Lack lack = LackFor(slots[i], share, wanted_.least);
    if (lack.bytes <= tried->lacking_bytes) continue;
    tried->lacking_bytes = lack.bytes;
    tried->lacking_device = devices_[groups[i][lack.rank]].name;
  }
}

// `layout.pipelines` is the most there may be; those that do not fit are left out, unless their
// number was asked for.
LayoutTried Search::Try(Layout layout, bool largest_first) {
  LayoutTried tried{.layout = layout, .largest_first = largest_first};
  int32_t fitting = 0;
  while (fitting < layout.pipelines && PipelineFits(layout, fitting, largest_first)) {
    ++fitting;
  }
  if (fitting == 0 || fitting < pipelines_asked_) {
    NoteLack(GroupsOf(layout, fitting, largest_first), &tried);
    return tried;
  }
  tried.layout.pipelines = fitting;
  tried.fits = true;
  options_.busy_sequences = BusySequences(fitting);
  const int64_t sampled = std::min<int64_t>(fitting, kPipelinesSampled);
  const int64_t rooms = std::clamp<int64_t>(kLayersDealtPerLayout / (sampled * model_.num_layers),
                                            2, kSplitsTriedMax);
  double pace = 0;
  double blocks = 0;
  for (int64_t i = 0; i < sampled; ++i) {
    const std::vector<StageGroup> groups = GroupsOf(layout, i * fitting / sampled, largest_first);
    const auto split = SplitByMode(model_, devices_, groups, options_, wanted_, &costs_, rooms);
    pace += PaceOfPipeline(split->groups, *split);
    blocks += static_cast<double>(split->split.blocks);
  }
  const double scale = static_cast<double>(fitting) / static_cast<double>(sampled);
  tried.tokens_per_second = pace * scale;
  tried.kv_tokens = static_cast<int64_t>(blocks * scale) * options_.block_size;
  return tried;
}

std::optional<ClusterPlan> Search::Write(const LayoutTried& chosen) {
  ClusterPlan plan{.pipelines = {}, .chosen = chosen, .rejected = {}, .speeds_known = true};
  const Layout& layout = chosen.layout;
  options_.busy_sequences = BusySequences(layout.pipelines);
  const int64_t rooms = std::clamp<int64_t>(
      kLayersDealtAtEnd / (layout.pipelines * model_.num_layers), 1, kSplitsTriedMax);
  plan.chosen.kv_tokens = 0;
  plan.chosen.tokens_per_second = 0;
  for (int32_t i = 0; i < layout.pipelines; ++i) {
    auto split = SplitByMode(model_, devices_, GroupsOf(layout, i, chosen.largest_first), options_,
                             wanted_, &costs_, rooms);
    if (!CountLayers(given_, wanted_, &costs_, &*split)) return std::nullopt;
    plan.chosen.tokens_per_second += PaceOfPipeline(split->groups, *split);
    plan.pipelines.push_back(WritePlacement(given_, *split, options_, &costs_));
    plan.chosen.kv_tokens += plan.pipelines.back().kv_tokens();
  }
  for (const DeviceSpec& device : given_) plan.speeds_known &= device.speed.known();
  return plan;
}

absl::StatusOr<std::optional<ClusterPlan>> Search::Run() {
  const auto count = static_cast<int64_t>(devices_.size());
  const bool equal = as_given_ == largest_first_;
  std::vector<LayoutTried> tried;
  for (const int32_t ranks : RanksToTry()) {
    TUTTI_RETURN_IF_ERROR(model::CheckRanks(model_, ranks));
    for (const int32_t stages : StagesToTry(ranks)) {
      Layout layout{.stages = stages, .ranks = ranks, .pipelines = std::max(1, pipelines_asked_)};
      if (pipelines_asked_ == 0) {
        layout.pipelines = static_cast<int32_t>(
            std::clamp<int64_t>(count / (int64_t{stages} * ranks), 1, options_.max_sequences));
      }
      if (stages > model_.num_layers || layout.devices() > count) continue;
      tried.push_back(Try(layout, false));
      if (!equal) tried.push_back(Try(layout, true));
    }
  }
  const LayoutTried* best = nullptr;
  for (const LayoutTried& one : tried) {
    if (!one.fits) continue;
    const double needed = best == nullptr ? 0 : best->tokens_per_second * (1 + kSimplerLayoutShare);
    if (one.tokens_per_second > needed) best = &one;
  }
  if (best == nullptr) {
    // The refusal of the largest possible pipeline names the lack, or numbers that contradict each
    // other.
    PlacementOptions one = options_;
    one.num_ranks = RanksToTry().empty() ? 1 : RanksToTry().back();
    while (options_.num_ranks == 0 && one.num_ranks > count) one.num_ranks /= 2;
    if (one.num_stages == 0) {
      const std::vector<int32_t> stages = StagesToTry(one.num_ranks);
      one.num_stages = stages.empty() ? 1 : stages.back();
    }
    const auto refused = PlacePipeline(model_, given_, one);
    if (!refused.ok()) return refused.status();
    return absl::ResourceExhaustedError(absl::StrCat(
        count, " devices do not hold ",
        DescribeLayout({one.num_stages, one.num_ranks, std::max(1, pipelines_asked_)})));
  }
  std::optional<ClusterPlan> plan = Write(*best);
  if (!plan.has_value()) return plan;
  const LayoutTried chosen = *best;
  for (LayoutTried& one : tried) {
    if (one.layout == chosen.layout && one.largest_first == chosen.largest_first) continue;
    plan->rejected.push_back(std::move(one));
  }
  std::stable_sort(plan->rejected.begin(), plan->rejected.end(),
                   [](const LayoutTried& a, const LayoutTried& b) {
                     if (a.fits != b.fits) return a.fits;
                     if (a.fits) return a.tokens_per_second > b.tokens_per_second;
                     return a.lacking_bytes < b.lacking_bytes;
                   });
  return plan;
}

// A pipeline whose shape is given: by the layers or ranks of each stage, or by one of Accelerate's
// modes, which use all devices as stages of one pipeline unless told otherwise.
bool ShapeIsGiven(const PlacementOptions& placement) {
  return !placement.layers.empty() || !placement.stage_ranks.empty() ||
         placement.mode != DeviceMapMode::kAuto;
}

absl::StatusOr<ClusterPlan> PlanGiven(const model::ModelConfig& model,
                                      const std::vector<DeviceSpec>& devices,
                                      const ClusterOptions& options) {
  ClusterPlan plan{.speeds_known = true};
  for (const DeviceSpec& device : devices) plan.speeds_known &= device.speed.known();
  const int32_t pipelines = std::max(1, options.num_pipelines);
  if (static_cast<size_t>(pipelines) > devices.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(devices.size(), " devices for ", pipelines, " pipelines"));
  }
  const size_t each = devices.size() / pipelines;
  for (int32_t i = 0; i < pipelines; ++i) {
    const std::vector<DeviceSpec> part(devices.begin() + i * each,
                                       devices.begin() + (i + 1) * each);
    TUTTI_ASSIGN_OR_RETURN(Placement one, PlacePipeline(model, part, options.placement));
    for (StagePlacement& stage : one.stages) {
      for (RankPlacement& rank : stage.ranks) rank.device_index += static_cast<int64_t>(i * each);
    }
    plan.chosen.kv_tokens += one.kv_tokens();
    plan.pipelines.push_back(std::move(one));
  }
  const Placement& first = plan.pipelines.front();
  plan.chosen.fits = true;
  plan.chosen.layout = {.stages = static_cast<int32_t>(first.stages.size()),
                        .ranks = static_cast<int32_t>(first.stages.front().ranks.size()),
                        .pipelines = pipelines};
  return plan;
}

}  // namespace

std::string DescribeLayout(const Layout& layout) {
  std::string text;
  if (layout.pipelines != 1) text = absl::StrCat(layout.pipelines, " pipelines of ");
  if (layout.stages != 1 || layout.ranks == 1) {
    absl::StrAppend(&text, layout.stages, layout.stages == 1 ? " stage" : " stages");
  }
  if (layout.ranks == 1) return text;
  return absl::StrCat(text, layout.stages == 1 ? "" : " of ", layout.ranks, " ranks");
}

absl::StatusOr<ClusterPlan> PlanCluster(const model::ModelConfig& model,
                                        const std::vector<DeviceSpec>& devices,
                                        const ClusterOptions& options) {
  if (devices.empty()) return absl::InvalidArgumentError("no devices to plan for");
  TUTTI_RETURN_IF_ERROR(CheckDeviceKinds(model, options.placement, devices));
  if (ShapeIsGiven(options.placement)) return PlanGiven(model, devices, options);
  for (int estimate = 0; estimate < kLayerEstimates; ++estimate) {
    TUTTI_ASSIGN_OR_RETURN(std::optional<ClusterPlan> plan,
                           Search(model, devices, options, estimate).Run());
    if (plan.has_value()) return *std::move(plan);
  }
  return absl::InternalError("layers that all fit by the size of the largest do not fit");
}

}  // namespace tutti::placement
