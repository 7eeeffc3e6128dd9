#include "tests/support/sim_cluster.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "coordinator/engine.h"
#include "tests/support/action_text.h"
#include "tests/support/oracle_model.h"
#include "tests/support/place_watch.h"
#include "tests/support/plan_auditor.h"
#include "tests/support/sim_clients.h"
#include "tests/support/sim_faults.h"
#include "tests/support/sim_mailbox.h"
#include "tests/support/sim_worker.h"

namespace tutti::tests {
namespace {

using std::chrono::milliseconds;

// A run that takes longer hangs.
constexpr Duration kRunMax = std::chrono::seconds(180);
// Faults come within this time.
constexpr Duration kFaultsOver = std::chrono::seconds(2);
// After the last fault: leases end, pauses after failures pass, clients try again.
constexpr Duration kRecovery = std::chrono::seconds(12);
// Until all frames under way have arrived.
constexpr Duration kQuiet = std::chrono::seconds(1);
// A silent worker is sent away by then.
constexpr Duration kLeaseNoticed = std::chrono::seconds(2);
// The engine's thread does not always run at once.
constexpr int64_t kEngineDelayUs = 300;
constexpr size_t kFailuresKept = 5;

class Cluster : public SimWorld {
 public:
  explicit Cluster(const SimOptions& options)
      : options_(options),
        random_(options.seed, /*stream=*/3),
        engine_(options.Engine()),
        clients_(
            &options_, &queue_, [this](coordinator::Event event) { Post(std::move(event)); },
            [this](const std::string& what) { Fail(what); }),
        faults_(&options_, &queue_, &workers_, &clients_),
        mailbox_(&options_, &queue_, [this] { WakeAt(queue_.now()); }) {}

  SimReport Run();

  // SimWorld
  coordinator::LinkKey NewLink(SimWorker* worker) override;
  void Hello(coordinator::LinkKey link, const v1::Hello& hello) override {
    Post(coordinator::WorkerJoined{link, hello});
  }
  void ToEngine(coordinator::LinkKey link, v1::Frame frame) override {
    Post(coordinator::WorkerFrame{link, std::move(frame)});
  }
  void LinkLost(coordinator::LinkKey link) override {
    Post(coordinator::WorkerLost{link, absl::UnavailableError("the link closed")});
  }
  SimWorker* FindWorker(const std::string& id) override;
  bool IsServing(const SimWorker& worker) const override;
  void Fail(const std::string& what) override;
  Duration StalledSince(Instant time) const override { return mailbox_.StalledSince(time); }

 private:
  struct EngineLink {
    SimWorker* worker = nullptr;
    std::unique_ptr<SimPipe> pipe;
    uint32_t pipeline = 0;  // the last it was assigned to
    uint64_t step = 0;      // the last it was told there
  };
  // The plans that a pipeline has been sent.
  struct Audit {
    explicit Audit(const SimOptions* options) : auditor(options) {}
    PlanAuditor auditor;
    uint64_t epoch = 0;
    uint64_t step = 0;
    std::string plan;  // of that step
  };

  void MakeWorkers();
  void Post(coordinator::Event event);
  void WakeAt(Instant when);
  void Wake();
  void Apply(coordinator::Action& action);
  void Apply(coordinator::SendToWorker& send);
  void CheckClose(const SimWorker& worker, coordinator::LinkKey link, const absl::Status& reason);
  void CheckFrame(EngineLink* link, const v1::Frame& frame);
  void CheckPlan(EngineLink* link, const v1::StepPlan& plan);
  v1::GetStatusResponse Status() const;
  bool AllServe() const;
  bool RunUntil(const std::function<bool()>& done, Duration limit);
  void CheckQuiet();
  void CheckQuiet(const v1::PipelineStatus& pipeline);

  const SimOptions options_;
  SimQueue queue_;
  Random random_;
  coordinator::Engine engine_;
  PlaceWatch place_watch_;
  SimClients clients_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  SimFaults faults_;
  std::map<coordinator::LinkKey, EngineLink> links_;
  uint64_t last_link_ = 0;
  SimMailbox mailbox_;
  Instant wake_at_ = kInstantNever;
  uint64_t wakes_ = 0;
  std::vector<coordinator::Action> actions_;
  std::map<uint32_t, Audit> audits_;  // by pipeline
  uint64_t last_epoch_ = 0;           // that any pipeline was assigned
  bool serving_ = false;
  SimReport report_;
};

void Cluster::Fail(const std::string& what) {
  if (report_.failures.size() >= kFailuresKept) return;
  report_.failures.push_back(
      absl::StrCat("at ", Milliseconds(queue_.now() - Instant()), " ms: ", what));
}

// ---- the engine and its thread

void Cluster::Post(coordinator::Event event) {
  mailbox_.Post(std::move(event));
  WakeAt(queue_.now() + std::chrono::microseconds(random_.Between(0, kEngineDelayUs)));
}

void Cluster::WakeAt(Instant when) {
  if (when >= wake_at_) return;
  wake_at_ = when;
  queue_.At(when, [this, wake = ++wakes_] {
    if (wake == wakes_) Wake();
  });
}

void Cluster::Wake() {
  wake_at_ = kInstantNever;
  if (mailbox_.stalled()) return;
  actions_.clear();
  for (coordinator::Event& event : mailbox_.Drain())
    engine_.Handle(std::move(event), queue_.now(), &actions_);
  engine_.Advance(queue_.now(), &actions_);
  const std::string missed = engine_.MissedWork();
  if (!missed.empty()) Fail(absl::StrCat("the engine goes to sleep, and ", missed));
  const std::string outranked = place_watch_.Check(&engine_);
  if (!outranked.empty()) Fail(outranked);
  report_.trace = Digest(report_.trace, actions_.size());
  for (coordinator::Action& action : actions_) Apply(action);
  const Instant deadline = engine_.next_deadline();
  if (deadline <= queue_.now()) Fail("the engine wants to be called again at once");
  if (deadline != kInstantNever) WakeAt(std::max(deadline, queue_.now() + milliseconds(1)));
}

void Cluster::Apply(coordinator::Action& action) {
  if (auto* send = std::get_if<coordinator::SendToWorker>(&action)) {
    Apply(*send);
  } else if (auto* close = std::get_if<coordinator::CloseWorker>(&action)) {
    EngineLink& link = links_[close->link];
    CheckClose(*link.worker, close->link, close->reason);
    link.pipe->Close(false, [worker = link.worker, key = close->link] { worker->OnClosed(key); });
  } else if (auto* tokens = std::get_if<coordinator::DeliverTokens>(&action)) {
    for (const v1::SampledToken& token : tokens->tokens) {
      report_.trace = Digest(report_.trace, static_cast<uint64_t>(token.token()));
    }
    clients_.OnTokens(*tokens);
  } else if (auto* finish = std::get_if<coordinator::FinishRequest>(&action)) {
    clients_.OnFinish(*finish);
  } else if (auto* serving = std::get_if<coordinator::ServingChanged>(&action)) {
    serving_ = serving->serving;
    if (serving_ != serving->why_not.empty()) Fail("serving, or why not?");
  }
}

void Cluster::Apply(coordinator::SendToWorker& send) {
  EngineLink& link = links_[send.link];
  CheckFrame(&link, send.frame);
  link.pipe->Send([worker = link.worker, key = send.link, frame = std::move(send.frame)]() mutable {
    worker->OnFrame(key, std::move(frame));
  });
}

void Cluster::CheckFrame(EngineLink* link, const v1::Frame& frame) {
  if (frame.has_assign_shard() && frame.assign_shard().standby()) return;  // of no pipeline
  if (frame.has_assign_shard()) {
    link->pipeline = frame.assign_shard().pipeline();
    link->step = 0;
  }
  Audit& audit = audits_.try_emplace(link->pipeline, &options_).first->second;
  if (frame.has_assign_shard() && frame.epoch() != audit.epoch) {
    if (frame.epoch() <= last_epoch_) Fail("an epoch comes twice");
    audit.epoch = last_epoch_ = frame.epoch();
    audit.step = 0;
    ++report_.epochs;
    audit.auditor.BeginEpoch(frame.assign_shard().num_blocks());
  }
  if (!frame.has_step_plan()) return;
  if (frame.epoch() != audit.epoch) Fail("a plan of another epoch than the assigned one");
  CheckPlan(link, frame.step_plan());
}

// Every worker of a pipeline gets every step, in order, and the same as the others.
void Cluster::CheckPlan(EngineLink* link, const v1::StepPlan& plan) {
  if (plan.probe()) {
    if (plan.step() != 0 || link->step != 0) Fail(absl::StrCat(link->worker->id(), ": late probe"));
    return;
  }
  if (plan.step() != ++link->step) Fail(absl::StrCat(link->worker->id(), " misses a step"));
  Audit& audit = audits_.at(link->pipeline);
  const std::string text = plan.SerializeAsString();
  if (plan.step() == audit.step) {
    if (text != audit.plan) Fail(absl::StrCat(link->worker->id(), " gets another plan"));
    return;
  }
  audit.step = plan.step();
  audit.plan = text;
  report_.trace = Digest(report_.trace, static_cast<uint64_t>(plan.total_rows()));
  const std::string wrong = audit.auditor.Check(plan);
  if (!wrong.empty()) Fail(absl::StrCat("pipeline ", link->pipeline, ": ", wrong));
}

v1::GetStatusResponse Cluster::Status() const {
  v1::GetStatusResponse status;
  engine_.FillStatus(queue_.now(), &status);
  return status;
}

bool Cluster::IsServing(const SimWorker& worker) const {
  const v1::GetStatusResponse status = Status();
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    if (pipeline.state() != "serving") continue;
    for (const v1::StageStatus& stage : pipeline.stages()) {
      if (stage.worker().worker_id() == worker.id()) return true;
    }
  }
  return false;
}

bool Cluster::AllServe() const {
  const v1::GetStatusResponse status = Status();
  int32_t serving = 0;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    serving += pipeline.state() == "serving" ? 1 : 0;
  }
  return serving == options_.num_pipelines && status.pipelines_size() == serving;
}

void Cluster::CheckClose(const SimWorker& worker, coordinator::LinkKey link,
                         const absl::Status& reason) {
  // A worker that came back before its old link was seen to be dead tries again.
  if (absl::IsAlreadyExists(reason)) return;
  const bool is_old_link = !worker.up() || worker.link() != link;
  if (worker.silent_since().has_value() && !is_old_link && IsServing(worker) &&
      queue_.now() >
          *worker.silent_since() + kLeaseNoticed + StalledSince(*worker.silent_since())) {
    Fail(absl::StrCat(worker.id(), " was silent for too long: ", reason.ToString()));
  }
  if (is_old_link && absl::IsUnavailable(reason)) return;  // noticed when it came back
  const bool gave_up = absl::IsAborted(reason);            // on another rank
  if ((absl::IsDeadlineExceeded(reason) || gave_up) && (worker.excused() || is_old_link)) return;
  Fail(absl::StrCat("healthy worker ", worker.id(), " is sent away: ", reason.ToString()));
}

// ---- the world

coordinator::LinkKey Cluster::NewLink(SimWorker* worker) {
  const coordinator::LinkKey key(++last_link_);
  links_[key] = {worker, std::make_unique<SimPipe>(&queue_, &random_, options_.link)};
  return key;
}

SimWorker* Cluster::FindWorker(const std::string& id) {
  for (const auto& worker : workers_) {
    if (worker->id() == id) return worker.get();
  }
  return nullptr;
}

void Cluster::MakeWorkers() {
  const int32_t count =
      options_.num_pipelines * options_.WorkersOfPipeline() + options_.spare_workers;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t memory =
        options_.uneven_memory && i % 2 == 1 ? int64_t{3} << 21 : int64_t{1} << 30;
    workers_.push_back(std::make_unique<SimWorker>(absl::StrCat("w", i + 1), memory, &options_,
                                                   &queue_, &random_, this));
    queue_.After(milliseconds(random_.Between(0, 20)),
                 [worker = workers_.back().get()] { worker->Start(); });
  }
}

// ---- the run

bool Cluster::RunUntil(const std::function<bool()>& done, Duration limit) {
  const Instant end = queue_.now() + limit;
  while (!done()) {
    if (!report_.failures.empty() || !queue_.RunNext(end)) return false;
  }
  return true;
}

SimReport Cluster::Run() {
  MakeWorkers();
  WakeAt(queue_.now());
  // Most requests come when a pipeline serves.
  if (random_.Chance(0.8)) RunUntil([this] { return serving_; }, std::chrono::seconds(60));
  clients_.Start();
  faults_.Schedule();
  mailbox_.ScheduleStalls();
  if (!RunUntil([this] { return clients_.AllEnded(); }, kRunMax)) {
    Fail(absl::StrCat("not all requests have ended: ", clients_.Open()));
  }
  if (options_.faults > 0) {
    RunUntil([] { return false; }, kFaultsOver);
    // A link cut while nothing was to be sent is only noticed when something is.
    clients_.Probe(/*must_succeed=*/false);
    RunUntil([] { return false; }, kRecovery);
    faults_.RepairCuts();
    RunUntil([] { return false; }, kQuiet);
  }
  if (!RunUntil([this] { return AllServe(); }, std::chrono::seconds(60))) {
    Fail(absl::StrCat("not all pipelines come back: ", Status().ShortDebugString()));
  }
  for (int i = 0; i < 2; ++i) clients_.Probe(/*must_succeed=*/true);
  if (!RunUntil([this] { return clients_.AllEnded(); }, kRunMax)) {
    Fail(absl::StrCat("the last requests do not end: ", clients_.Open()));
  }
  RunUntil([] { return false; }, kQuiet);
  if (report_.failures.empty()) CheckQuiet();
  report_.requests = clients_.arrived();
  report_.ended_well = clients_.ended_well();
  report_.tokens = clients_.tokens();
  for (const auto& worker : workers_) report_.exchanges += worker->exchanges();
  for (const auto& [pipeline, audit] : audits_) {
    report_.plans += audit.auditor.plans();
    report_.rows += audit.auditor.rows();
    report_.plan_bytes = std::max(report_.plan_bytes, audit.auditor.largest_bytes());
  }
  clients_.CheckGroups(faults_.faulty());
  return report_;
}

// Everything has been given back.
void Cluster::CheckQuiet() {
  const v1::GetStatusResponse status = Status();
  if (!status.serving()) Fail(absl::StrCat("not serving: ", status.why_not_serving()));
  if (status.waiting() != 0) Fail(absl::StrCat(status.waiting(), " still wait"));
  for (const v1::PipelineStatus& pipeline : status.pipelines()) CheckQuiet(pipeline);
  const v1::RequestCounters& requests = status.requests();
  if (requests.accepted() != requests.finished() + requests.cancelled() + requests.failed() +
                                 requests.deadline_exceeded() ||
      requests.accepted() + requests.refused() + requests.invalid() != clients_.arrived()) {
    Fail(absl::StrCat("requests do not add up: ", requests.ShortDebugString()));
  }
  if (requests.generated_tokens() != clients_.tokens()) Fail("tokens do not add up");
  report_.preemptions = requests.preemptions();
  report_.stale_frames = requests.stale_frames();
}

void Cluster::CheckQuiet(const v1::PipelineStatus& pipeline) {
  report_.hit_tokens += pipeline.prefix_hit_tokens();
  report_.evictions += pipeline.evictions();
  report_.rebuilt_tokens += pipeline.rebuilt_tokens();
  if (pipeline.blocks_in_use() != 0 || pipeline.running() != 0 || pipeline.waiting() != 0 ||
      pipeline.steps_in_flight() != 0) {
    Fail(absl::StrCat("left over: ", pipeline.ShortDebugString()));
  }
  for (const v1::StageStatus& stage : pipeline.stages()) {
    const SimWorker* const worker = FindWorker(stage.worker().worker_id());
    if (worker == nullptr || !worker->up() || worker->core()->epoch().value() != pipeline.epoch()) {
      Fail(absl::StrCat("stage ", stage.stage(),
                        " is not served by the worker that the engine thinks"));
    }
  }
}

}  // namespace

SimReport RunSimulation(const SimOptions& options) { return Cluster(options).Run(); }

}  // namespace tutti::tests
