#include "coordinator/fleet/forming.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "placement/place_pipeline.h"
#include "placement/placement_modes.h"

namespace tutti::coordinator {
namespace {

std::vector<placement::DeviceSpec> DevicesOf(const std::vector<Offer>& offers) {
  std::vector<placement::DeviceSpec> devices;
  for (const Offer& offer : offers) devices.push_back(offer.device);
  return devices;
}

absl::StatusOr<Formation> PlaceShape(const EngineOptions& options, const PipelineShape& shape,
                                     const std::vector<Offer>& offers) {
  placement::PlacementOptions placement = PlacementOptionsOf(options);
  placement.num_stages = shape.num_stages;
  placement.num_ranks = shape.num_ranks;
  placement.stage_ranks = shape.stage_ranks;
  Formation formation;
  TUTTI_ASSIGN_OR_RETURN(formation.placement,
                         placement::PlacePipeline(options.model, DevicesOf(offers), placement));
  for (const placement::StagePlacement& stage : formation.placement.stages) {
    for (const placement::RankPlacement& rank : stage.ranks) {
      formation.workers.push_back(offers[rank.device_index].worker);
    }
  }
  return formation;
}

absl::StatusOr<Formation> MappedFormation(const EngineOptions& options, const PipelineShape& shape,
                                          const DeviceNumbers& numbers,
                                          const std::vector<Offer>& offers) {
  const absl::StatusOr<std::vector<int64_t>> devices =
      placement::ResolveDevices(options.device_map, numbers.names());
  if (!devices.ok()) return Annotate(devices.status(), "waiting for workers");
  std::vector<Offer> chosen;
  std::vector<std::string> missing;
  for (const int64_t number : *devices) {
    const std::string& name = numbers.names()[number];
    const auto found = std::find_if(offers.begin(), offers.end(),
                                    [&](const Offer& offer) { return offer.worker->id() == name; });
    if (found == offers.end()) {
      missing.push_back(name);
    } else {
      chosen.push_back(*found);
    }
  }
  if (missing.empty()) return PlaceShape(options, shape, chosen);
  return absl::UnavailableError(
      absl::StrCat("waiting for workers of the device map: ", absl::StrJoin(missing, ", "),
                   options.max_memory.empty() ? "" : " (away, or left out by --max-memory)"));
}

// The `count` offers with most memory, in the order of `offers`.
std::vector<Offer> Largest(const std::vector<Offer>& offers, size_t count) {
  std::vector<Offer> largest = offers;
  std::stable_sort(largest.begin(), largest.end(), [](const Offer& a, const Offer& b) {
    return a.device.memory_bytes > b.device.memory_bytes;
  });
  largest.resize(count);
  std::sort(largest.begin(), largest.end(), [](const Offer& a, const Offer& b) {
    return NaturallyBefore(a.worker->id(), b.worker->id());
  });
  return largest;
}

// A worker that holds the shard of a stage and rank keeps them, the others fill up in order.
std::vector<Offer> KeepStages(const PipelineShape& shape, const std::vector<Offer>& offers) {
  std::vector<Offer> kept(offers.size());
  std::vector<Offer> others;
  for (const Offer& offer : offers) {
    const Worker& worker = *offer.worker;
    size_t place = kept.size();
    if (worker.holds_shard && worker.held_stage < shape.num_stages &&
        worker.held_rank < shape.ranks_of(worker.held_stage)) {
      place = static_cast<size_t>(worker.held_rank);
      for (int32_t stage = 0; stage < worker.held_stage; ++stage) {
        place += static_cast<size_t>(shape.ranks_of(stage));
      }
    }
    if (place < kept.size() && kept[place].worker == nullptr) {
      kept[place] = offer;
    } else {
      others.push_back(offer);
    }
  }
  auto next = others.begin();
  for (Offer& offer : kept) {
    if (offer.worker == nullptr) offer = *next++;
  }
  return kept;
}

// The first worker that holds the shard of each place before all others.
void HoldersFirst(const PipelineShape& shape, std::vector<Offer>* offers) {
  std::set<std::pair<int32_t, int32_t>> held;
  std::stable_partition(offers->begin(), offers->end(), [&](const Offer& offer) {
    const Worker& worker = *offer.worker;
    return worker.holds_shard && worker.held_stage < shape.num_stages &&
           worker.held_rank < shape.ranks_of(worker.held_stage) &&
           held.emplace(worker.held_stage, worker.held_rank).second;
  });
}

std::vector<Offer> InOrder(const std::vector<Offer>& offers, bool largest_first) {
  if (!largest_first) return offers;
  std::vector<Offer> ordered;
  for (const int64_t index : LargestFirst(placement::WithComparableSpeeds(DevicesOf(offers)))) {
    ordered.push_back(offers[index]);
  }
  return ordered;
}

}  // namespace

absl::StatusOr<std::vector<Offer>> OffersOf(const EngineOptions& options,
                                            const DeviceNumbers& numbers,
                                            const std::vector<Worker*>& idle) {
  std::vector<Offer> offers;
  for (Worker* worker : idle) {
    offers.push_back({worker,
                      {.name = worker->id(),
                       .memory_bytes = worker->hello.memory_bytes(),
                       .speed = worker->speed,
                       .kind = DeviceKindOf(worker->hello)}});
  }
  if (options.device_map.mode != placement::DeviceMapMode::kAuto) {
    std::stable_sort(offers.begin(), offers.end(), [&](const Offer& a, const Offer& b) {
      return numbers.NumberOf(a.device.name) < numbers.NumberOf(b.device.name);
    });
  }
  // Memory for rows that are told is set apart before layers are placed.
  for (Offer& offer : offers) {
    if (!options.partial_recompute || offer.device.kind != DeviceKind::kCpu) continue;
    offer.device.memory_bytes -=
        std::clamp<int64_t>(options.kept_rows_bytes, 0, offer.device.memory_bytes);
  }
  if (options.max_memory.empty()) return offers;
  std::vector<placement::DeviceSpec> all;
  for (const std::string& name : numbers.names()) {
    // The limit holds for any memory of a worker; those that are away only keep their numbers.
    all.push_back({.name = name, .memory_bytes = std::numeric_limits<int64_t>::max(), .speed = {}});
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<placement::DeviceSpec> limited,
                         placement::LimitMemory(options.max_memory, all));
  std::vector<Offer> left;
  for (Offer& offer : offers) {
    for (const placement::DeviceSpec& limit : limited) {
      if (limit.name != offer.device.name) continue;
      offer.device.memory_bytes = std::min(offer.device.memory_bytes, limit.memory_bytes);
      left.push_back(offer);
    }
  }
  return left;
}

std::vector<PipelineShape> SmallerShapes(const EngineOptions& options, const PipelineShape& shape,
                                         size_t workers) {
  std::vector<PipelineShape> shapes;
  if (!shape.stage_ranks.empty() || shape.num_stages == 0 ||
      options.device_map.mode != placement::DeviceMapMode::kAuto) {
    return shapes;
  }
  for (int32_t ranks = shape.num_ranks; ranks >= 1; ranks /= 2) {
    for (int32_t stages = shape.num_stages; stages >= 1; --stages) {
      if (static_cast<size_t>(stages) * static_cast<size_t>(ranks) > workers) continue;
      PipelineShape smaller = shape;
      smaller.num_stages = stages;
      smaller.num_ranks = ranks;
      smaller.num_workers = stages * ranks;
      shapes.push_back(std::move(smaller));
    }
  }
  std::stable_sort(
      shapes.begin(), shapes.end(),
      [](const PipelineShape& a, const PipelineShape& b) { return a.num_workers > b.num_workers; });
  return shapes;
}

absl::StatusOr<Formation> ChooseFormation(const EngineOptions& options, const PipelineShape& shape,
                                          const DeviceNumbers& numbers,
                                          const std::vector<Offer>& offers) {
  if (!options.device_map.stages.empty()) {
    return MappedFormation(options, shape, numbers, offers);
  }
  const auto wanted = static_cast<size_t>(shape.num_workers);
  if (offers.size() < wanted) {
    return absl::UnavailableError(
        absl::StrCat("waiting for workers: ", offers.size(), " of ", wanted,
                     options.num_pipelines <= 1 ? " have joined" : " are free",
                     options.max_memory.empty() ? "" : ", of those that --max-memory leaves"));
  }
  std::vector<Offer> chosen = InOrder(offers, shape.largest_first);
  if (options.device_map.mode == placement::DeviceMapMode::kAuto) HoldersFirst(shape, &chosen);
  chosen.resize(wanted);
  if (options.device_map.mode != placement::DeviceMapMode::kAuto)
    return PlaceShape(options, shape, chosen);
  absl::StatusOr<Formation> formation = PlaceShape(options, shape, KeepStages(shape, chosen));
  if (!formation.ok()) formation = PlaceShape(options, shape, chosen);
  if (!formation.ok() && offers.size() > wanted) {
    formation = PlaceShape(options, shape, Largest(offers, wanted));
  }
  return formation;
}

}  // namespace tutti::coordinator
