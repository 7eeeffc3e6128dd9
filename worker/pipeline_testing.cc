#include "worker/pipeline_testing.h"

#include <bit>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/backends_testing.h"
#include "model/config_json.h"
#include "model/quantised_roles.h"
#include "worker/device_links/device_group.h"
#include "worker/device_links/device_links.h"
#include "worker/ranks_testing.h"
#include "worker/sampling/toy_vocabulary_testing.h"

namespace tutti::worker {
namespace {

constexpr uint64_t kEpoch = 7;

class Outbox : public StageOutbox {
 public:
  void ToCoordinator(v1::Frame frame) override { to_coordinator.push_back(std::move(frame)); }
  void ToNextStage(v1::Frame frame, transport::Payload payload) override {
    if (frame.activation().on_device()) ++on_device;
    for (StageWorker* worker : next) worker->OnActivationFrame(frame, payload);
  }
  std::vector<v1::Frame> to_coordinator;
  std::vector<StageWorker*> next;
  int64_t on_device = 0;
};

// Device links, but for every third step.
class MixedRows : public StageRowChannel {
 public:
  MixedRows(kernels::Backend* backend, const std::string& id, const Clock* clock)
      : links({.new_link = [backend] { return backend->NewDeviceLink(); }}, id, clock,
              [](Instant) { return absl::OkStatus(); }) {}

  void End() override { links.End(); }
  absl::StatusOr<std::byte*> AcquireSlot() override {
    if (++steps_ % 3 == 0) return nullptr;
    return links.AcquireSlot();
  }
  absl::Status Send(int64_t bytes) override { return links.Send(bytes); }
  absl::Status Expect(int64_t bytes) override { return links.Expect(bytes); }
  absl::StatusOr<std::byte*> Await() override { return links.Await(); }
  void Release() override { links.Release(); }

  DeviceLinks links;

 private:
  int64_t steps_ = 0;
};

std::string NameOf(size_t stage, size_t rank) { return absl::StrCat("s", stage, "r", rank); }

std::shared_ptr<kernels::cuda::Nccl> MakeNccl(const TestPipelineOptions& options) {
  return options.device_exchange || options.device_links ? kernels::NewTestedNccl() : nullptr;
}

std::unique_ptr<kernels::Backend> MakeBackend(const TestPipelineOptions& options,
                                              const std::shared_ptr<kernels::cuda::Nccl>& nccl) {
  return kernels::MakeTestedBackend(options.backend,
                                    {.num_threads = options.threads,
                                     .numerics_class = options.numerics_class,
                                     .instruction_set = options.instruction_set,
                                     .graphs = options.graphs},
                                    nccl);
}

}  // namespace

std::vector<std::string> TestedBackends() { return kernels::TestedModelBackends(); }

bool IsSlow(const std::string& backend) {
  return backend == "reference" || backend == "cuda-emulated";
}

std::string GoldenDir(const std::string& name) {
  const char* root = std::getenv("TUTTI_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/tests/golden/" + name;
}

std::string ReadFileOrDie(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CHECK(in.good()) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<TokenId> TestOutput::ids() const {
  std::vector<TokenId> ids;
  for (const v1::SampledToken& token : tokens) ids.push_back(token.token());
  return ids;
}

std::vector<uint32_t> TestOutput::bits() const {
  std::vector<uint32_t> bits;
  for (const v1::SampledToken& token : tokens) {
    bits.push_back(static_cast<uint32_t>(token.token()));
    bits.push_back(std::bit_cast<uint32_t>(token.logprob()));
    for (const int32_t id : token.top_ids()) bits.push_back(static_cast<uint32_t>(id));
    for (const float value : token.top_logprobs()) bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

struct TestPipeline::Stage {
  struct Member {
    std::unique_ptr<kernels::Backend> backend;
    Outbox outbox;
    std::unique_ptr<MixedRows> rows;  // null: over the links only
    std::unique_ptr<StageWorker> worker;
  };
  explicit Stage(int ranks) : ranks(ranks), members(static_cast<size_t>(ranks)) {}
  TestRanks ranks;
  std::vector<Member> members;
};

TestPipeline::TestPipeline(const TestPipelineOptions& options)
    : options_(options), nccl_(MakeNccl(options)) {
  auto config = model::LoadModelConfig(options.model_dir);
  CHECK(config.ok()) << config.status();
  config_ = *config;
  if (!options.draft_dir.empty()) {
    draft_ = std::make_shared<DraftSource>(DraftSource{
        .dir = options.draft_dir, .config = *model::LoadModelConfig(options.draft_dir)});
  }
  if (options.roles_unknown) {
    config_.quant = model::QuantFormats(config_.quant.said(), model::UsualQuantisedRoles());
  }
  std::vector<int32_t> layers = options.layers;
  if (layers.empty()) layers = {static_cast<int32_t>(config_.num_layers)};
  int32_t first_layer = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    v1::AssignShard shard;
    shard.set_stage(static_cast<int32_t>(i));
    shard.set_num_stages(static_cast<int32_t>(layers.size()));
    shard.set_num_ranks(options.ranks.empty() ? 1 : options.ranks[i]);
    shard.set_whole_experts(options.whole_experts);
    shard.set_quantise(options.quantise.scheme);
    shard.set_quantise_head(options.quantise.head);
    shard.set_first_layer(first_layer);
    shard.set_num_layers(layers[i]);
    shard.set_has_embedding(i == 0);
    shard.set_has_head(i + 1 == layers.size());
    shard.set_block_size(options.block_size);
    shard.set_num_blocks(options.num_blocks);
    shard.set_max_batch_tokens(options.max_batch_tokens);
    shard.set_max_sequences(64);
    shard.set_max_model_len(static_cast<int32_t>(config_.max_position_embeddings));
    for (int rank = 0; shard.num_ranks() > 1 && rank < shard.num_ranks(); ++rank) {
      shard.add_rank_worker_ids(absl::StrCat("rank", rank));
    }
    first_layer += layers[i];
    stages_.push_back(MakeStage(shard));
    if (i == 0) continue;
    // Every rank of a stage holds the same activation; rank r feeds those it equals modulo n.
    auto& before = stages_[i - 1]->members;
    auto& here = stages_[i]->members;
    for (size_t rank = 0; rank < here.size(); ++rank) {
      before[rank % before.size()].outbox.next.push_back(here[rank].worker.get());
    }
  }
  if (options.device_links) LinkDevices();
}

// In place of hello, welcome and the frames after them between real workers.
void TestPipeline::LinkDevices() {
  for (size_t s = 0; s < stages_.size(); ++s) {
    const size_t ranks = stages_[s]->members.size();
    const size_t before = s == 0 ? 0 : stages_[s - 1]->members.size();
    const size_t after = s + 1 == stages_.size() ? 0 : stages_[s + 1]->members.size();
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> next;
      for (size_t n = rank; n < after; n += ranks) next.push_back(NameOf(s + 1, n));
      Stage::Member& member = stages_[s]->members[rank];
      member.rows->links.Begin(before == 0 ? "" : NameOf(s - 1, rank % before), next,
                               member.worker->link_memory());
    }
  }
  for (size_t s = 1; s < stages_.size(); ++s) {
    auto& before = stages_[s - 1]->members;
    auto& here = stages_[s]->members;
    for (size_t rank = 0; rank < here.size(); ++rank) {
      DeviceLinks& from = before[rank % before.size()].rows->links;
      DeviceLinks& to = here[rank].rows->links;
      const size_t index = rank / before.size();
      from.HandleAnswer(index, to.AnswerToPrevious(from.DescriptionFor(index)));
      while (!to.Tick(clock_.Now())) from.Tick(clock_.Now());
      from.HandleUp(index);
      while (from.next_wake(clock_.Now()) != kInstantNever) from.Tick(clock_.Now());
    }
  }
}

int64_t TestPipeline::steps_on_device(size_t stage) const {
  return stages_[stage]->members.front().outbox.on_device;
}

std::unique_ptr<TestPipeline::Stage> TestPipeline::MakeStage(const v1::AssignShard& shard) {
  auto stage = std::make_unique<Stage>(shard.num_ranks());
  auto& ready = ready_.emplace_back(static_cast<size_t>(shard.num_ranks()));
  for (int rank = 0; rank < shard.num_ranks(); ++rank) {
    Stage::Member& member = stage->members[rank];
    member.backend = MakeBackend(options_, nccl_);
    StageRunnerFactory factory =
        [this, backend = member.backend.get(),
         load = MakeTransformerFactory({.dir = options_.model_dir,
                                        .config = config_,
                                        .backend = member.backend.get(),
                                        .collective = stage->ranks.collective(rank),
                                        .draft = draft_})](
            const v1::AssignShard& assigned,
            const ShardProgressCallback& progress) -> absl::StatusOr<std::unique_ptr<StageRunner>> {
      TUTTI_ASSIGN_OR_RETURN(auto runner, load(assigned, progress));
      if (assigned.num_ranks() > 1) return runner;
      static_cast<Transformer*>(runner.get())
          ->set_logits_observer(
              [this, backend](std::span<const SampleRow>, kernels::TensorView logits) {
                last_logits_.resize(static_cast<size_t>(logits.cols));
                backend->Convert(logits.Rows(0, 1), {.data = last_logits_.data(),
                                                     .rows = 1,
                                                     .cols = logits.cols,
                                                     .row_stride = logits.cols});
              });
      return runner;
    };
    if (options_.device_links) {
      member.rows = std::make_unique<MixedRows>(
          member.backend.get(), NameOf(static_cast<size_t>(shard.stage()), rank), &clock_);
    }
    member.worker = std::make_unique<StageWorker>(factory, &member.outbox, &clock_,
                                                  member.rows.get(), GrammarPool::Runs::kOnThread);
    v1::Frame frame;
    frame.set_epoch(kEpoch);
    *frame.mutable_assign_shard() = shard;
    frame.mutable_assign_shard()->set_rank(rank);
    frame.mutable_assign_shard()->set_draft(draft_ != nullptr && shard.has_head() && rank == 0);
    member.worker->OnCoordinatorFrame(std::move(frame));
    CHECK(member.worker->status().ok()) << member.worker->status();
    ready[rank] = member.outbox.to_coordinator.back().shard_ready();
    if (!shard.has_head()) continue;
    v1::Frame vocabulary;
    vocabulary.set_epoch(kEpoch);
    *vocabulary.mutable_vocabulary() = ToyVocabulary(static_cast<int32_t>(config_.vocab_size));
    member.worker->OnCoordinatorFrame(std::move(vocabulary));
    CHECK(member.worker->status().ok()) << member.worker->status();
  }
  stage->ranks.Run([&](int rank) {
    DeviceGroup group({.devices = stage->members[rank].backend->device_exchange(),
                       .scope = options_.device_exchange ? kernels::DeviceExchangeScope::kMachine
                                                         : kernels::DeviceExchangeScope::kOff},
                      &clock_);
    const absl::Status formed = group.Form(
        stage->ranks.collective(rank), stage->ranks.channel(rank), shard.num_ranks(), rank, [] {});
    CHECK(formed.ok()) << formed;
  });
  return stage;
}

bool TestPipeline::on_device(size_t stage) const {
  return stages_[stage]->ranks.collective(0)->on_device();
}

kernels::CollectiveTraffic TestPipeline::exchanged(size_t stage, int rank) const {
  return stages_[stage]->ranks.collective(rank)->traffic();
}

TestPipeline::~TestPipeline() = default;

kernels::LaunchCounts TestPipeline::launches(size_t stage, int rank) const {
  return stages_[stage]->members[rank].backend->launch_counts();
}

uint64_t TestPipeline::progress(size_t stage) const {
  return stages_[stage]->members.front().worker->progress_count();
}

v1::StepResult TestPipeline::RunStep(v1::StepPlan plan) {
  plan.set_step(++step_);
  for (const uint64_t id : finished_) plan.add_finished(id);
  finished_.clear();
  int32_t rows = 0;
  for (const auto& scheduled : plan.scheduled()) rows += scheduled.count();
  plan.set_total_rows(rows);
  for (auto& stage : stages_) {
    stage->ranks.Run([&](int rank) {
      Stage::Member& member = stage->members[rank];
      member.outbox.to_coordinator.clear();
      v1::Frame frame;
      frame.set_epoch(kEpoch);
      *frame.mutable_step_plan() = plan;
      member.worker->OnCoordinatorFrame(std::move(frame));
      CHECK(member.worker->RunOneStep({}));
      CHECK(member.worker->status().ok()) << member.worker->status();
    });
  }
  // One rank answers for its stage.
  for (const Stage::Member& member : stages_.back()->members) {
    const bool answers = member.outbox.to_coordinator.back().has_step_result();
    CHECK(answers == (&member == &stages_.back()->members.front()));
  }
  return stages_.back()->members.front().outbox.to_coordinator.back().step_result();
}

}  // namespace tutti::worker
