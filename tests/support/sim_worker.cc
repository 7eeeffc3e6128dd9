#include "tests/support/sim_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/epochs.h"
#include "base/protocol.h"
#include "tests/support/sim_classes.h"
#include "worker/limits.h"

namespace tutti::tests {
namespace {

// A silent worker must be closed by then: its lease, and the delays of a wild network.
constexpr Duration kNoticed = std::chrono::milliseconds(2500);

// The time for which a step waits for another rank that no other takes for dead (worker/limits.h).
constexpr Duration kRankPatience = worker::kRankPatienceLeases * kSimLease;

// A hello without an answer may have been lost; a worker then tries another connection.
constexpr Duration kWelcomePatience = std::chrono::seconds(3);

}  // namespace

SimWorker::SimWorker(std::string id, int64_t memory_bytes, const SimOptions* options,
                     SimQueue* queue, Random* random, SimWorld* world)
    : id_(std::move(id)),
      memory_bytes_(memory_bytes),
      options_(options),
      queue_(queue),
      random_(random),
      world_(world),
      ranks_(
          options, queue, random, [world](const std::string& id) { return world->FindWorker(id); },
          [world](const std::string& what) { world->Fail(what); }) {}

// ---- the process

void SimWorker::Start() {
  if (up()) return;
  ++incarnation_;
  const auto factory = [this](const v1::AssignShard& shard,
                              const worker::ShardProgressCallback& progress)
      -> absl::StatusOr<std::unique_ptr<worker::StageRunner>> {
    progress(1, 2);
    if (!SimComputes(*options_, id_, shard.numerics_class())) world_->Fail(id_ + " cannot do that");
    auto stage = std::make_unique<OracleStage>(shard, kSimVocab, options_->oracle_bugs,
                                               &step_digest_, &dies_);
    if (shard.draft()) stage->AddDraft(options_->draft, &strays_);
    return stage;
  };
  worker_ = std::make_unique<worker::StageWorker>(factory, this, queue_->clock());
  obeyed_ = 0;
  busy_ = hung_ = excused_ = false;
  inbox_.clear();
  outgoing_.clear();
  Connect();
  Beat(incarnation_);
}

void SimWorker::Kill() {
  if (!up()) return;
  world_->Died(/*of_its_work=*/false);
  End();
}

void SimWorker::End() {
  ++incarnation_;
  worker_.reset();
  to_engine_->Close(random_->Chance(0.5),
                    [world = world_, link = link_] { world->LinkLost(link); });
  CloseNext(random_->Chance(0.5));
  ranks_.End(random_->Chance(0.5));
}

// The work kills it; somebody starts it again.
void SimWorker::Die() {
  world_->Died(/*of_its_work=*/true);
  End();
  queue_->After(std::chrono::milliseconds(random_->Between(0, 1500)), [this] { Start(); });
}

void SimWorker::Hang(Duration how_long) {
  if (!up() || hung_) return;
  hung_ = true;
  FallSilent();
  const bool is_silent = silent_since_.has_value();
  queue_->After(how_long, [this, is_silent, how_long, incarnation = incarnation_] {
    if (incarnation != incarnation_) return;
    const Duration stalled = world_->StalledSince(queue_->now() - how_long);
    if (is_silent && how_long > kNoticed + stalled && world_->IsServing(*this) && !IsClosed()) {
      world_->Fail(absl::StrCat(id_, " hung, and the engine did not notice"));
    }
    hung_ = false;
    silent_since_.reset();
    Pump();
  });
}

bool SimWorker::IsClosed() const {
  return std::any_of(inbox_.begin(), inbox_.end(), [this](const Item& item) {
    return item.kind == Item::Kind::kClosed && item.link == link_;
  });
}

void SimWorker::SlowDownUntilMoved(int32_t factor, Duration moved_within) {
  slow_factor_ = factor;
  queue_->After(moved_within, [this] {
    if (serving()) world_->Fail(absl::StrCat(id_, " is slow, and keeps its place"));
  });
}

SimWorker* SimWorker::CutNextLink() {
  if (next_.empty()) return nullptr;
  Next& next = next_[random_->Between(0, static_cast<int64_t>(next_.size()) - 1)];
  next.pipe->Swallow();
  next.worker->excused_ = true;  // it is the one that makes no progress
  return next.worker;
}

SimWorker* SimWorker::CutRankLink() {
  const SimRankPeer* const peer = ranks_.CutLink();
  if (peer == nullptr) return nullptr;
  SimWorker* const deaf = world_->FindWorker(peer->id());
  excused_ = deaf->excused_ = true;  // soon each waits for the other
  return deaf;
}

void SimWorker::CutControlLink() {
  if (!up()) return;
  to_engine_->Swallow();
  FallSilent();
}

void SimWorker::ResetControlLink() {
  if (!up() || hung_) return;
  to_engine_->Close(random_->Chance(0.5),
                    [world = world_, link = link_] { world->LinkLost(link); });
  OnClosed(link_);
}

// ---- links

void SimWorker::Connect() {
  link_ = world_->NewLink(this);
  welcome_ = false;
  silent_since_.reset();
  to_engine_ = std::make_unique<SimPipe>(queue_, random_, options_->link);
  v1::Hello hello;
  hello.set_protocol_version(kPeerProtocolVersion);
  hello.set_cluster_id("sim");
  hello.set_worker_id(id_);
  hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
  hello.set_build("sim");
  OfferSimClasses(*options_, &hello);
  hello.set_model_fingerprint("oracle");
  if (options_->drafts_max > 0) hello.set_draft_fingerprint("draft");
  hello.set_memory_bytes(memory_bytes_);
  hello.set_incarnation(obeyed_);
  to_engine_->Send(
      [world = world_, link = link_, hello = std::move(hello)] { world->Hello(link, hello); });
  AwaitWelcome(link_);
}

void SimWorker::AwaitWelcome(coordinator::LinkKey link) {
  queue_->After(kWelcomePatience, [this, incarnation = incarnation_, link] {
    if (incarnation != incarnation_ || link != link_ || welcome_) return;
    if (hung_) return AwaitWelcome(link);
    Connect();
  });
}

void SimWorker::ConnectLater() {
  queue_->After(std::chrono::milliseconds(random_->Between(5, 100)),
                [this, incarnation = incarnation_] {
                  if (incarnation == incarnation_) Connect();
                });
}

void SimWorker::SendToEngine(v1::Frame frame) {
  to_engine_->Send([world = world_, link = link_, frame = std::move(frame)]() mutable {
    world->ToEngine(link, std::move(frame));
  });
}

// Sent by a thread of its own, which a process that hangs has not either.
void SimWorker::Beat(uint64_t incarnation) {
  if (incarnation != incarnation_) return;
  if (welcome_ && !hung_) {
    v1::Frame frame;
    frame.set_epoch(worker_->epoch().value());
    frame.mutable_beat()->set_progress(worker_->progress_count());
    const SimRankPeer* const other = ranks_.waiting_for();
    if (other != nullptr) frame.mutable_beat()->set_waiting_for(other->id());
    SendToEngine(std::move(frame));
    if (other != nullptr && queue_->now() - ranks_.waiting_since() >= kRankPatience) {
      GiveUpOnRank();
    }
  }
  queue_->After(kSimBeat, [this, incarnation] { Beat(incarnation); });
}

void SimWorker::OnFrame(coordinator::LinkKey link, v1::Frame frame) {
  if (!up()) return;
  // By the thread of the link, whatever the executor does.
  if (link == link_ && frame.has_welcome() && !hung_) return OnWelcome(frame.welcome());
  const auto kind = link == link_ ? Item::Kind::kFrame : Item::Kind::kOldFrame;
  inbox_.push_back({.kind = kind, .link = link, .frame = std::move(frame)});
  Pump();
}

void SimWorker::OnWelcome(const v1::Welcome& welcome) {
  welcome_ = true;
  obeyed_ = std::max(obeyed_, welcome.incarnation());
}

void SimWorker::OnClosed(coordinator::LinkKey link) {
  if (!up() || link != link_) return;
  inbox_.push_back({.kind = Item::Kind::kClosed, .link = link});
  Pump();
}

void SimWorker::OnActivation(uint64_t incarnation, v1::Frame frame, transport::Payload payload) {
  if (incarnation != incarnation_) return;
  inbox_.push_back(
      {.kind = Item::Kind::kActivation, .frame = std::move(frame), .payload = std::move(payload)});
  Pump();
}

void SimWorker::OnRankFrame(uint64_t incarnation, const SimRankFrame& frame) {
  if (incarnation != incarnation_) return;
  ranks_.OnFrame(frame);
  Pump();
}

// A new epoch has new links; frames still under way on the old ones arrive late.
void SimWorker::DialNext() {
  CloseNext(/*lose=*/false);
  for (const std::string& id : worker_->shard().next_worker_ids()) {
    SimWorker* const next = world_->FindWorker(id);
    next_.push_back({.worker = next,
                     .incarnation = next->incarnation_,
                     .pipe = std::make_unique<SimPipe>(queue_, random_, options_->link)});
  }
}

void SimWorker::CloseNext(bool lose) {
  for (Next& next : next_) next.pipe->Close(lose, [] {});
  next_.clear();
}

// ---- the executor

void SimWorker::ToNextStage(v1::Frame frame, transport::Payload payload) {
  outgoing_.push_back({.to_next = true, .frame = std::move(frame), .payload = std::move(payload)});
}

void SimWorker::Flush() {
  for (Outgoing& out : outgoing_) {
    if (!out.to_next) {
      if (options_->replay_chance > 0 && !out.frame.has_shard_progress())
        said_.push_back(out.frame);
      SendToEngine(std::move(out.frame));
      continue;
    }
    for (const Next& next : next_) {
      const bool last = &next == &next_.back();
      next.pipe->Send([worker = next.worker, incarnation = next.incarnation,
                       frame = last ? std::move(out.frame) : out.frame,
                       payload = last ? std::move(out.payload) : out.payload]() mutable {
        worker->OnActivation(incarnation, std::move(frame), std::move(payload));
      });
    }
  }
  outgoing_.clear();
}

void SimWorker::Pump() {
  while (up() && !hung_ && !busy_) {
    if (!FinishStep()) return;
    Flush();
    Duration time{};
    if (!inbox_.empty()) {
      Item item = std::move(inbox_.front());
      inbox_.pop_front();
      time = Process(std::move(item));
    } else if (worker_->epoch() != failed_epoch_ && worker_->RunOneStep(nullptr)) {
      if (strays_) world_->Fail(id_ + " has a draft model that strays from the text");
      if (std::exchange(dies_, false)) return Die();
      ranks_.BeginStep(step_digest_);
      time = StepTime();
      // Where nothing is to move, reports say what a machine that nothing slows would have taken.
      time += TellPace(options_->slow_after > Duration::zero() ? time : time / slow_factor_);
    } else {
      return;
    }
    if (!worker_->status().ok()) {
      world_->Fail(absl::StrCat(id_, " found a contradiction: ", worker_->status().ToString()));
    }
    if (time > Duration::zero()) BusyFor(time);
  }
}

// The results of a step go out when the other ranks of the stage have done it too. False: it waits
// for one of them, and only the end of the epoch interests it.
bool SimWorker::FinishStep() {
  if (ranks_.GoOn()) return true;
  if (!EpochEnds()) return false;
  ranks_.AbortStep();
  outgoing_.clear();
  return true;
}

bool SimWorker::EpochEnds() const {
  return std::any_of(inbox_.begin(), inbox_.end(), [this](const Item& item) {
    return item.link == link_ && (item.kind == Item::Kind::kClosed ||
                                  item.frame.has_assign_shard() || item.frame.has_release());
  });
}

// Neither is to blame, but the way between the two: the coordinator is told, and begins anew.
void SimWorker::GiveUpOnRank() {
  failed_epoch_ = worker_->epoch();
  v1::Frame frame;
  frame.set_epoch(failed_epoch_.value());
  frame.mutable_failure()->set_message(
      absl::StrCat("nothing came from ", ranks_.waiting_for()->id()));
  SendToEngine(std::move(frame));
  ranks_.AbortStep();
  outgoing_.clear();
  Pump();
}

void SimWorker::BusyFor(Duration time) {
  busy_ = true;
  queue_->After(time, [this, incarnation = incarnation_] {
    if (incarnation != incarnation_) return;
    busy_ = false;
    Pump();
  });
}

// A frame that came over another link than that to the coordinator that leads. The shell knows
// links; where it did not, the gate would still keep out what a coordinator says that led before.
Duration SimWorker::ProcessOld(v1::Frame frame) {
  const uint32_t leads = IncarnationOf(worker_->epoch());
  if (leads == 0 || IncarnationOf(Epoch(frame.epoch())) >= leads) return {};
  worker_->OnCoordinatorFrame(std::move(frame));
  if (IncarnationOf(worker_->epoch()) != leads) {
    world_->Fail(absl::StrCat(id_, " obeys a coordinator that led before"));
  }
  return {};
}

// Handles one thing that arrived; how long that takes.
Duration SimWorker::Process(Item item) {
  if (item.kind == Item::Kind::kActivation) {
    worker_->OnActivationFrame(std::move(item.frame), std::move(item.payload));
    return {};
  }
  if (item.kind == Item::Kind::kOldFrame) return ProcessOld(std::move(item.frame));
  if (item.link != link_) return {};
  if (item.kind == Item::Kind::kClosed) {
    worker_->OnCoordinatorLost();
    outgoing_.clear();
    excused_ = false;
    welcome_ = false;
    ConnectLater();
    return {};
  }
  if (item.frame.has_welcome()) {
    OnWelcome(item.frame.welcome());
    return {};
  }
  const bool assigns = item.frame.has_assign_shard();
  worker_->OnCoordinatorFrame(std::move(item.frame));
  if (!assigns) return {};
  if (worker_->shard().standby()) {
    CloseNext(/*lose=*/false);
    ranks_.End(/*lose=*/false);
    return Duration(random_->Between(1, options_->load_most.count()));
  }
  DialNext();
  ranks_.Begin(worker_->epoch().value(), worker_->shard());
  while (!said_.empty() && random_->Chance(options_->replay_chance)) {
    SendToEngine(said_.back());
    said_.pop_back();
  }
  said_.clear();
  return Duration(random_->Between(1, options_->load_most.count()));
}

}  // namespace tutti::tests
