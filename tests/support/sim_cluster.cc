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
#include "tests/support/plan_watch.h"
#include "tests/support/quiet_check.h"
#include "tests/support/sim_clients.h"
#include "tests/support/sim_faults.h"
#include "tests/support/sim_former.h"
#include "tests/support/sim_guesses.h"
#include "tests/support/sim_mailbox.h"
#include "tests/support/sim_worker.h"

namespace tutti::tests {
namespace {

using std::chrono::milliseconds;

// A run that takes longer hangs.
constexpr Duration kRunMax = std::chrono::seconds(180);
// Faults come within this time.
constexpr Duration kFaultsOver = std::chrono::seconds(2);
// The time after the last fault: leases end, pauses after failures pass, clients try again.
constexpr Duration kRecovery = std::chrono::seconds(12);
// The time until all frames under way have arrived.
constexpr Duration kQuiet = std::chrono::seconds(1);
// A silent worker is sent away by then.
constexpr Duration kLeaseNoticed = std::chrono::seconds(2);
// The engine's thread does not always run at once.
constexpr int64_t kEngineDelayUs = 300;
constexpr size_t kFailuresKept = 5;
// A coordinator that led before runs so often, for a moment each.
constexpr int kFormerWakes = 40;

class Cluster : public SimWorld {
 public:
  explicit Cluster(const SimOptions& options)
      : options_(options),
        random_(options.seed, /*stream=*/3),
        guesses_(&options_, &clients_),
        engine_(std::make_unique<coordinator::Engine>(options_.Engine(&guesses_))),
        clients_(
            &options_, &queue_, [this](coordinator::Event event) { Post(std::move(event)); },
            [this](const std::string& what) { Fail(what); }, &deaths_),
        faults_(&options_, &queue_, &workers_, &clients_),
        mailbox_(&options_, &queue_, [this] { WakeAt(queue_.now()); }),
        plan_watch_(&options_, [this](const std::string& what) { Fail(what); }) {}

  SimReport Run();

  // SimWorld
  coordinator::LinkKey NewLink(SimWorker* worker) override;
  void Hello(coordinator::LinkKey link, const v1::Hello& hello) override;
  void ToEngine(coordinator::LinkKey link, v1::Frame frame) override {
    plan_watch_.Hear(links_[link].plans, frame);
    PostFrom(link, coordinator::WorkerFrame{link, std::move(frame)});
  }
  void LinkLost(coordinator::LinkKey link) override {
    PostFrom(link, coordinator::WorkerLost{link, absl::UnavailableError("the link closed")});
  }
  SimWorker* FindWorker(const std::string& id) override;
  bool IsServing(const SimWorker& worker) const override;
  void Fail(const std::string& what) override;
  void Died(bool of_its_work) override { ++(of_its_work ? deaths_.of_work : deaths_.outside); }
  Duration StalledSince(Instant time) const override { return mailbox_.StalledSince(time); }

 private:
  struct EngineLink {
    SimWorker* worker = nullptr;
    std::unique_ptr<SimPipe> pipe;
    PlanWatch::Link plans;
    bool of_former = false;  // to the coordinator that led before
    uint32_t obeyed = 0;     // the coordinator's number that the worker's hello named
  };
  void MakeWorkers();
  void Post(coordinator::Event event);
  void WakeAt(Instant when);
  void Wake();
  void Trace() const;
  void Apply(coordinator::Action& action);
  void Apply(coordinator::SendToWorker& send);
  void CheckClose(const SimWorker& worker, coordinator::LinkKey link, const absl::Status& reason);
  void Lead();
  void TakeOver();
  void RunFormer();
  void HandleFormer(coordinator::Action& action);
  void PostFrom(coordinator::LinkKey link, coordinator::Event event);
  v1::GetStatusResponse Status() const;
  bool AllServe() const;
  bool RunUntil(const std::function<bool()>& done, Duration limit);

  const SimOptions options_;
  SimQueue queue_;
  Random random_;
  SimGuesses guesses_;
  std::unique_ptr<coordinator::Engine> engine_;
  uint32_t incarnation_ = 0;                 // of engine_
  std::unique_ptr<SimFormerLeader> former_;  // null: nobody led before
  PlaceWatch place_watch_;
  SimDeaths deaths_;
  SimClients clients_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  SimFaults faults_;
  std::map<coordinator::LinkKey, EngineLink> links_;
  uint64_t last_link_ = 0, wakes_ = 0;
  SimMailbox mailbox_;
  Instant wake_at_ = kInstantNever;
  std::vector<coordinator::Action> actions_;
  PlanWatch plan_watch_;
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
    engine_->Handle(std::move(event), queue_.now(), &actions_);
  engine_->Advance(queue_.now(), &actions_);
  const std::string missed = engine_->MissedWork();
  if (!missed.empty()) Fail(absl::StrCat("the engine goes to sleep, and ", missed));
  const std::string outranked = place_watch_.Check(engine_.get());
  if (!outranked.empty()) Fail(outranked);
  report_.trace = Digest(report_.trace, actions_.size());
  Trace();
  for (coordinator::Action& action : actions_) Apply(action);
  const Instant deadline = engine_->next_deadline();
  if (deadline <= queue_.now()) Fail("the engine wants to be called again at once");
  if (deadline != kInstantNever) WakeAt(std::max(deadline, queue_.now() + milliseconds(1)));
}

// What the engine does, for a reader who follows one seed.
void Cluster::Trace() const {
  const auto name = [this](coordinator::LinkKey link) { return links_.at(link).worker->id(); };
  if (!options_.trace || actions_.empty()) return;
  printf("%.2f ms\n%s", Milliseconds(queue_.now() - Instant()), ActionText(actions_, name).c_str());
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
  const auto rows = plan_watch_.Check(link.worker->id(), &link.plans, send.frame);
  if (rows.has_value()) report_.trace = Digest(report_.trace, static_cast<uint64_t>(*rows));
  link.pipe->Send([worker = link.worker, key = send.link, frame = std::move(send.frame)]() mutable {
    worker->OnFrame(key, std::move(frame));
  });
}

v1::GetStatusResponse Cluster::Status() const {
  v1::GetStatusResponse status;
  engine_->FillStatus(queue_.now(), &status);
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

// ---- another coordinator

void Cluster::Lead() {
  std::vector<coordinator::Action> none;
  engine_->Handle(coordinator::Led{.incarnation = ++incarnation_, .judged = true}, queue_.now(),
                  &none);
}

// The coordinator that leads is stopped, and the one that stood by leads. Clients and workers go
// there as they see that nobody answers; the other wakes meanwhile, again and again.
void Cluster::TakeOver() {
  former_ = std::make_unique<SimFormerLeader>(std::move(engine_), mailbox_.Drain(), queue_.now());
  for (auto& [key, link] : links_) link.of_former = true;
  engine_ = std::make_unique<coordinator::Engine>(options_.Engine(&guesses_));
  Lead();
  clients_.GoElsewhere();
  for (const auto& worker : workers_) {
    if (!links_.contains(worker->link())) continue;  // it has still to start
    queue_.After(milliseconds(random_.Between(0, 300)),
                 [this, worker = worker.get(), key = worker->link()] {
                   LinkLost(key);
                   worker->OnClosed(key);
                 });
  }
  for (int i = 0; i < kFormerWakes; ++i) {
    queue_.After(milliseconds(random_.Between(0, 8000)), [this] { RunFormer(); });
  }
  WakeAt(queue_.now());
}

void Cluster::RunFormer() {
  for (coordinator::Action& action : former_->Run(queue_.now())) HandleFormer(action);
}

// Its clients have gone; workers hear what it says, and do nothing of it.
void Cluster::HandleFormer(coordinator::Action& action) {
  if (auto* close = std::get_if<coordinator::CloseWorker>(&action)) {
    EngineLink& link = links_[close->link];
    link.pipe->Close(false, [worker = link.worker, key = close->link] { worker->OnClosed(key); });
  }
  auto* const send = std::get_if<coordinator::SendToWorker>(&action);
  if (send == nullptr) return;
  EngineLink& link = links_[send->link];
  if (send->frame.has_welcome() && link.obeyed > send->frame.welcome().incarnation()) {
    Fail(absl::StrCat(link.worker->id(), " has obeyed number ", link.obeyed,
                      ", and is welcomed by one that led before"));
  }
  link.pipe->Send(
      [worker = link.worker, key = send->link, frame = std::move(send->frame)]() mutable {
        worker->OnFrame(key, std::move(frame));
      });
}

void Cluster::PostFrom(coordinator::LinkKey link, coordinator::Event event) {
  if (links_.at(link).of_former) return former_->Post(std::move(event));
  Post(std::move(event));
}

// A worker dials all coordinators, and stays with the one that leads.
void Cluster::Hello(coordinator::LinkKey link, const v1::Hello& hello) {
  if (former_ != nullptr && !links_.at(link).of_former) {
    const coordinator::LinkKey other = NewLink(links_.at(link).worker);
    links_[other].of_former = true;
    links_[other].obeyed = hello.incarnation();
    former_->Post(coordinator::WorkerJoined{other, hello});
    queue_.After(milliseconds(random_.Between(20, 500)), [this, other] { LinkLost(other); });
  }
  PostFrom(link, coordinator::WorkerJoined{link, hello});
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
  Lead();
  WakeAt(queue_.now());
  // Most requests come when a pipeline serves.
  if (random_.Chance(0.8)) RunUntil([this] { return serving_; }, std::chrono::seconds(60));
  clients_.Start();
  faults_.Schedule();
  const bool taken_over = options_.takeover_after > Duration::zero();
  if (taken_over) queue_.After(options_.takeover_after, [this] { TakeOver(); });
  mailbox_.ScheduleStalls();
  if (!RunUntil([this] { return clients_.AllEnded(); }, kRunMax)) {
    Fail(absl::StrCat("not all requests have ended: ", clients_.Open()));
  }
  if (options_.faults > 0 || options_.resets > 0 || taken_over) {
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
  if (report_.failures.empty()) {
    CheckQuiet(
        Status(), clients_, [this](const std::string& id) { return FindWorker(id); }, &report_,
        [this](const std::string& what) { Fail(what); });
    if (engine_->charged_tokens() > clients_.MostCharged()) {
      Fail(absl::StrCat("tenants are charged ", engine_->charged_tokens(),
                        " tokens, asked for and generated were ", clients_.MostCharged()));
    }
  }
  report_.requests = clients_.arrived();
  report_.ended_well = clients_.ended_well();
  report_.tokens = clients_.tokens();
  for (const auto& worker : workers_) report_.exchanges += worker->exchanges();
  plan_watch_.Fill(&report_);
  clients_.CheckGroups(faults_.faulty());
  return report_;
}

}  // namespace

SimReport RunSimulation(const SimOptions& options) { return Cluster(options).Run(); }

}  // namespace tutti::tests
