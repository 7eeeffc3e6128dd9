#include "coordinator/engine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/engine_impl.h"
#include "model/partition.h"
#include "placement/place_pipeline.h"

namespace tutti::coordinator {
namespace {

// What the smallest part of the model takes: with as many ranks as there may be.
std::array<int64_t, kDeviceKinds> SmallestMemory(const EngineOptions& options) {
  placement::PlacementOptions placement = PlacementOptionsOf(options);
  if (placement.num_ranks == 0) {
    placement.num_ranks = model::kLeaves;
    while (!model::CheckRanks(options.model, placement.num_ranks).ok()) placement.num_ranks /= 2;
  }
  return {placement::SmallestStageBytes(options.model, placement, DeviceKind::kCpu),
          placement::SmallestStageBytes(options.model, placement, DeviceKind::kCuda)};
}

MembershipOptions MembershipOptionsOf(const EngineOptions& options) {
  return {.cluster_id = options.cluster_id,
          .build = options.build,
          .model_fingerprint = options.model_fingerprint,
          .numerics_class = options.numerics_class,
          .mix_numerics = options.mix_numerics,
          .memory_bytes_min = SmallestMemory(options)};
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options) {
  return {.block_size = options.block_size,
          .max_batch_tokens = options.max_batch_tokens,
          .chunk_tokens = options.chunk_tokens,
          .max_sequences = options.max_sequences};
}

void FillCacheStatus(const KvCache& cache, v1::PipelineStatus* status) {
  status->set_blocks_in_use(cache.blocks_in_use());
  status->set_blocks_cached(cache.blocks_cached());
  status->set_prefix_lookup_tokens(cache.counters().lookup_tokens);
  status->set_prefix_hit_tokens(cache.counters().hit_tokens);
  status->set_evictions(cache.counters().evictions);
}

KvDirectoryOptions DirectoryOptionsOf(const EngineOptions& options) {
  return {.key = options.prefix_key,
          .model_fingerprint = options.model_fingerprint,
          .dtype = std::string(DTypeName(options.model.dtype)),
          .block_size = options.block_size};
}

}  // namespace

Engine::Impl::Unit::Unit(PipelineId id, const EngineOptions* options, Membership* membership,
                         Epoch* last_epoch, KvDirectory* directory)
    : pipeline(id, options, membership, last_epoch),
      scheduler(SchedulerOptionsOf(*options), options->enable_prefix_caching ? directory : nullptr,
                id),
      rate(std::min(options->chunk_tokens, options->max_batch_tokens)) {}

Engine::Impl::Impl(EngineOptions options)
    : options_(std::move(options)),
      membership_(MembershipOptionsOf(options_)),
      directory_(DirectoryOptionsOf(options_)) {
  // A device map says which workers make a pipeline, so there is one.
  const bool mapped = !options_.device_map.stages.empty();
  const int32_t count = mapped ? 1 : std::max(1, options_.num_pipelines);
  for (int32_t i = 0; i < count; ++i) AddUnit();
}

void Engine::Impl::Advance() {
  Watch();
  ExpireDeadlines();
  FormPipelines();
  BindWaiting();
  PlanSteps();
  TellServing();
}

Instant Engine::Impl::next_deadline() const {
  return std::min({requests_.next_deadline(), watch_at_, form_at_});
}

bool Engine::Impl::AnyServing() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& u) { return u->serving(); });
}

std::string Engine::Impl::WhyNot() const {
  if (AnyServing()) return "";
  if (units_.size() == 1) return units_.front()->pipeline.WhyNot();
  return absl::StrJoin(units_, "; ", [](std::string* out, const auto& unit) {
    absl::StrAppend(out, "pipeline ", unit->pipeline.id().value(), ": ", unit->pipeline.WhyNot());
  });
}

void Engine::Impl::TellServing() {
  if (!std::exchange(state_changed_, false)) return;
  // The state of the pipeline that has come furthest.
  Pipeline::State state = Pipeline::State::kWaiting;
  for (const auto& unit : units_) state = std::max(state, unit->pipeline.state());
  if (told_state_ == state) return;
  told_state_ = state;
  actions_->push_back(ServingChanged{state == Pipeline::State::kServing, WhyNot()});
}

void Engine::Impl::FillStatus(Instant now, v1::GetStatusResponse* status) {
  status->set_model(options_.model_name);
  status->set_model_fingerprint(options_.model_fingerprint);
  status->set_build(options_.build);
  status->set_serving(AnyServing());
  status->set_why_not_serving(WhyNot());
  status->set_waiting(static_cast<int32_t>(queue_.size()));
  if (layout_.open() && layout_.shape().has_value()) layout_.FillStatus(status->mutable_layout());
  v1::RequestCounters* const counters = status->mutable_requests();
  for (const auto& unit : units_) {
    v1::PipelineStatus* const pipeline = status->add_pipelines();
    const Scheduler& scheduler = unit->scheduler;
    unit->pipeline.FillStatus(now, pipeline);
    FillCacheStatus(scheduler.cache(), pipeline);
    pipeline->set_running(scheduler.running());
    pipeline->set_waiting(scheduler.waiting());
    pipeline->set_steps_in_flight(static_cast<int32_t>(scheduler.steps().size()));
    pipeline->set_backlog_tokens(scheduler.backlog().tokens());
    pipeline->set_preemptions(scheduler.preemptions());
    pipeline->set_prompt_tokens_per_second(unit->rate.rows_per_second());
    counters->set_preemptions(counters->preemptions() + scheduler.preemptions());
  }
  for (const Worker* worker : membership_.Idle()) {
    FillWorkerStatus(*worker, now, status->add_idle_workers());
  }
  requests_.FillCounters(counters);
  counters->set_stale_frames(stale_frames_);
}

void Engine::Impl::LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                                v1::LookupPrefixResponse* response) const {
  response->set_prompt_tokens(static_cast<int32_t>(tokens.size()));
  const Hash128 own = DomainOfLength(domain, tokens.size());
  for (const KvDirectory::Match& match : directory_.LongestPerPipeline(own, tokens)) {
    units_[match.pipeline.value()]->pipeline.FillHolding(match.tokens, response->add_holdings());
  }
}

Engine::Engine(EngineOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Engine::~Engine() = default;

void Engine::Handle(Event event, Instant now, std::vector<Action>* actions) {
  impl_->now_ = now;
  impl_->actions_ = actions;
  std::visit([this](auto& e) { impl_->On(std::move(e)); }, event);
}

void Engine::Advance(Instant now, std::vector<Action>* actions) {
  impl_->now_ = now;
  impl_->actions_ = actions;
  impl_->Advance();
}

Instant Engine::next_deadline() const { return impl_->next_deadline(); }

void Engine::LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                          v1::LookupPrefixResponse* response) const {
  impl_->LookupPrefix(domain, tokens, response);
}

void Engine::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  impl_->FillStatus(now, status);
}

}  // namespace tutti::coordinator
