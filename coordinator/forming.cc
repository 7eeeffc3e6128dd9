#include "coordinator/forming.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

absl::StatusOr<PlacementPlan> Place(const EngineOptions& options,
                                    const std::vector<Worker*>& workers) {
  std::vector<DeviceSpec> devices;
  for (const Worker* worker : workers) {
    devices.push_back(
        {.name = worker->id(), .memory_bytes = worker->hello.memory_bytes(), .speed = {}});
  }
  return PlanPlacement(options.model, devices, PlacementOptionsOf(options));
}

absl::StatusOr<Formation> MappedFormation(const EngineOptions& options,
                                          const std::vector<Worker*>& idle) {
  Formation formation;
  std::vector<std::string> missing;
  const auto take = [&](const std::string& id) {
    const auto found = std::find_if(idle.begin(), idle.end(),
                                    [&](const Worker* worker) { return worker->id() == id; });
    if (found == idle.end()) {
      missing.push_back(id);
    } else {
      formation.workers.push_back(*found);
    }
  };
  for (const EngineOptions::StageOverride& stage : options.device_map) {
    take(stage.worker_id);
    for (const std::string& id : stage.further_ranks) take(id);
  }
  if (!missing.empty()) {
    return absl::UnavailableError(
        absl::StrCat("waiting for workers of the device map: ", absl::StrJoin(missing, ", ")));
  }
  TUTTI_ASSIGN_OR_RETURN(formation.placement, Place(options, formation.workers));
  return formation;
}

// The `count` workers with most memory, in the order of `idle`.
std::vector<Worker*> Largest(const std::vector<Worker*>& idle, size_t count) {
  std::vector<Worker*> largest = idle;
  std::stable_sort(largest.begin(), largest.end(), [](const Worker* a, const Worker* b) {
    return a->hello.memory_bytes() > b->hello.memory_bytes();
  });
  largest.resize(count);
  std::sort(largest.begin(), largest.end(),
            [](const Worker* a, const Worker* b) { return NaturallyBefore(a->id(), b->id()); });
  return largest;
}

// Whoever holds the shard of a stage and rank keeps them, the others fill up in order.
std::vector<Worker*> KeepStages(const EngineOptions& options, const std::vector<Worker*>& workers) {
  std::vector<Worker*> kept(workers.size(), nullptr);
  std::vector<Worker*> others;
  for (Worker* worker : workers) {
    size_t place = kept.size();
    if (worker->holds_shard && worker->held_stage < options.num_stages &&
        worker->held_rank < RanksOf(options, worker->held_stage)) {
      place = static_cast<size_t>(worker->held_rank);
      for (int32_t stage = 0; stage < worker->held_stage; ++stage) {
        place += static_cast<size_t>(RanksOf(options, stage));
      }
    }
    if (place < kept.size() && kept[place] == nullptr) {
      kept[place] = worker;
    } else {
      others.push_back(worker);
    }
  }
  auto next = others.begin();
  for (Worker*& worker : kept) {
    if (worker == nullptr) worker = *next++;
  }
  return kept;
}

}  // namespace

int32_t MaxModelLen(const EngineOptions& options) {
  const int64_t context = options.model.max_position_embeddings;
  return static_cast<int32_t>(
      options.max_model_len > 0 ? std::min<int64_t>(options.max_model_len, context) : context);
}

int32_t RanksOf(const EngineOptions& options, int32_t stage) {
  if (!options.device_map.empty()) return options.device_map[stage].ranks();
  return options.stage_ranks.empty() ? options.num_ranks : options.stage_ranks[stage];
}

int32_t WorkersOfPipeline(const EngineOptions& options) {
  int32_t workers = 0;
  for (int32_t stage = 0; stage < options.num_stages; ++stage) workers += RanksOf(options, stage);
  return workers;
}

PlacementOptions PlacementOptionsOf(const EngineOptions& options) {
  PlacementOptions placement{.num_stages = options.num_stages,
                             .block_size = options.block_size,
                             .max_batch_tokens = options.max_batch_tokens,
                             .max_sequences = options.max_sequences,
                             .max_model_len = MaxModelLen(options),
                             .kv_tokens_max = options.kv_tokens_max};
  for (int32_t stage = 0; stage < options.num_stages; ++stage) {
    placement.stage_ranks.push_back(RanksOf(options, stage));
  }
  for (const auto& stage : options.device_map) placement.layers.push_back(stage.num_layers);
  return placement;
}

absl::StatusOr<Formation> ChooseFormation(const EngineOptions& options,
                                          const std::vector<Worker*>& idle) {
  if (!options.device_map.empty()) return MappedFormation(options, idle);
  const auto wanted = static_cast<size_t>(WorkersOfPipeline(options));
  if (idle.size() < wanted) {
    return absl::UnavailableError(
        absl::StrCat("waiting for workers: ", idle.size(), " of ", wanted,
                     options.num_pipelines <= 1 ? " have joined" : " are free"));
  }
  std::vector<Worker*> chosen(idle.begin(), idle.begin() + static_cast<ptrdiff_t>(wanted));
  std::vector<Worker*> order = KeepStages(options, chosen);
  absl::StatusOr<PlacementPlan> placed = Place(options, order);
  if (!placed.ok()) placed = Place(options, order = chosen);
  if (!placed.ok() && idle.size() > wanted) placed = Place(options, order = Largest(idle, wanted));
  TUTTI_ASSIGN_OR_RETURN(PlacementPlan placement, std::move(placed));
  return Formation{std::move(order), std::move(placement)};
}

}  // namespace tutti
