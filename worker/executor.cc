#include "worker/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/epochs.h"
#include "base/thread.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {

Executor::Executor(Options options, transport::Dialer* dialer, const Clock* clock)
    : options_(std::move(options)),
      clock_(clock),
      mailbox_(std::make_shared<WorkerMailbox>(kMailboxFramesMax)),
      acceptor_(AcceptInto(mailbox_)),
      watch_(&position_, options_.work_meter, &processors_),
      watcher_(&watch_, clock, options_.gpu),
      pace_(options_.hello.read_bytes_per_second(), options_.hello.flops_per_second()),
      context_{.dialer = dialer, .mailbox = mailbox_, .hello = options_.hello},
      coordinator_(
          &context_, options_.coordinators, &watcher_,
          {.on_frame = [this](v1::Frame frame) { HandleCoordinatorFrame(std::move(frame)); },
           .on_lost = [this] { LeaveCoordinator(); }}),
      links_(options_.links, &context_, clock,
             {.on_activation =
                  [this](v1::Frame frame, transport::Payload payload) {
                    // Over a slow link a step's rows take longer to come than a worker may stand
                    // still.
                    position_.Move();
                    stage_.OnActivationFrame(std::move(frame), std::move(payload));
                  },
              .wait_for_rank = [this](Instant deadline) { return WaitForRank(deadline); },
              .wait_for_rows = [this](Instant deadline) { return WaitForRows(deadline); }}),
      stage_([this](const v1::AssignShard& shard,
                    const ShardProgressCallback& progress) { return Load(shard, progress); },
             this, clock, links_.row_channel(), GrammarPool::Runs::kOnThread),
      inbox_(mailbox_, &context_.links, clock, &position_,
             [this](const WorkerEvent& event) { return EndsEpoch(event); }) {}

Executor::~Executor() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

void Executor::Start() {
  watcher_.Start();
  thread_ = StartThread("the executor", [this] { Run(); });
}

void Executor::RequestLeave(Duration grace) { mailbox_->Post(LeaveWanted{grace}); }

void Executor::RequestStop() {
  stop_ = true;
  mailbox_->Post(StopWanted{});
}

bool Executor::WaitStopped(Duration patience) {
  return has_ended_.wait_for(patience) == std::future_status::ready;
}

void Executor::Run() {
  while (!stop_) {
    Tick();
    // A step exchanges with other ranks, so their links come first.
    const bool ran = ReadyForSteps() && RunOneStep();
    inbox_.HandleNext(ran ? Instant() : NextWake(), [this](WorkerEvent event) {
      if (!stop_) Handle(std::move(event));
      return !stop_;
    });
  }
  const absl::Status leaving = absl::UnavailableError("the worker is shutting down");
  links_.End(leaving);
  coordinator_.Close(leaving);
  mailbox_->Close();
  ended_.set_value();
}

bool Executor::RunOneStep() {
  StageRunner::StepWork work;
  Instant begin{};
  waited_ = false;
  // The time of a step that waited for others says nothing of our own pace, nor does that of a
  // small model.
  const auto end_step = [&] {
    if (begin != Instant() && !waited_) pace_.Learn(work.all, clock_->Now() - begin);
    begin = Instant();
  };
  const bool ran = stage_.RunOneStep(
      [this] { position_.Move(); },
      [&](StageWorker::Works who, const StageRunner::StepWork& of_pass) {
        end_step();
        const bool drafts = who == StageWorker::Works::kDraftModel;
        if (!drafts) {
          work = of_pass;
          begin = clock_->Now();
        }
        position_.Begin(drafts ? Activity::kDraft : Activity::kStep,
                        pace_.Allow(of_pass.largest_slice));
      });
  end_step();
  if (ran) {
    position_.Move();
    position_.Begin(Activity::kFrames, kSliceTimeMin);
  }
  return ran;
}

// The first time in an epoch that all links of ranks are up, their devices look for each other.
bool Executor::ReadyForSteps() {
  if (!links_.ready() || !stage_.status().ok()) return false;
  if (!links_.must_group()) return true;
  position_.Begin(Activity::kLinks);
  const absl::Status status = links_.Group([this] { position_.Move(); });
  position_.Begin(Activity::kFrames, kSliceTimeMin);
  if (!status.ok() && !absl::IsAborted(status)) Fail(status);
  return status.ok();
}

// What comes over a link that we let go of meanwhile is of no interest.
void Executor::Handle(WorkerEvent event) {
  if (inbox_.Deliver(&event)) return;
  if (auto* const accepted = std::get_if<LinkAccepted>(&event)) {
    links_.Accept(std::move(*accepted), clock_->Now());
  } else if (const auto* const leave = std::get_if<LeaveWanted>(&event)) {
    leaving_ = leave->grace;
    stop_ = stop_ || !coordinator_.joined();
  }
}

bool Executor::EndsEpoch(const WorkerEvent& event) const {
  if (const auto* came = std::get_if<LinkFrame>(&event)) {
    return coordinator_.Owns(came->link) &&
           (came->frame.has_assign_shard() || came->frame.has_release());
  }
  if (const auto* closed = std::get_if<LinkClosed>(&event)) return coordinator_.Owns(closed->link);
  return std::holds_alternative<StopWanted>(event);
}

// The wait of a device's work, or between two looks at one, belongs to what the executor does.
absl::Status Executor::WaitForRank(Instant deadline) {
  waited_ = true;
  const std::string& rank = links_.waiting_for();
  if (rank.empty()) return inbox_.WaitInStep(deadline, rank);
  const Position::Meanwhile waiting(&position_, Activity::kRank, rank);
  return inbox_.WaitInStep(deadline, rank);
}

absl::Status Executor::WaitForRows(Instant deadline) {
  const Position::Meanwhile waiting(&position_, Activity::kRows, "");
  return inbox_.WaitInStep(deadline, links_.waiting_for());
}

void Executor::HandleCoordinatorFrame(v1::Frame frame) {
  if (frame.has_assign_shard()) {
    const v1::AssignShard& shard = frame.assign_shard();
    const std::string epoch = EpochName(Epoch(frame.epoch()));
    spdlog::info("epoch {}: stage {} of {}, rank {} of {}, layers {} to {}{}{}", epoch,
                 shard.stage(), shard.num_stages(), shard.rank(), shard.num_ranks(),
                 shard.first_layer(), int64_t{shard.first_layer()} + shard.num_layers() - 1,
                 shard.has_embedding() ? ", embedding" : "", shard.has_head() ? ", head" : "");
  }
  // A shard that is let go of takes a while too.
  const bool loads = frame.has_assign_shard() || frame.has_release();
  if (loads) position_.Begin(Activity::kLoading);
  stage_.OnCoordinatorFrame(std::move(frame));
  if (loads) position_.Begin(Activity::kLinks);
  FollowEpoch();
  if (loads) position_.Begin(Activity::kFrames, kSliceTimeMin);
}

// Brings the links in line with the epoch.
void Executor::FollowEpoch() {
  const Epoch epoch = stage_.epoch();
  if (epoch == followed_epoch_) return;
  followed_epoch_ = epoch;
  if (epoch == Epoch()) return links_.End(absl::UnavailableError("the shard was released"));
  if (!stage_.status().ok()) return;
  const bool stands_by = stage_.shard().standby();
  spdlog::info("epoch {}: {}", EpochName(epoch), stands_by ? "stands by" : "ready");
  if (stands_by) return links_.End(absl::UnavailableError("the worker stands by"));
  static_assert(kRankPatienceLeases > 2, "the coordinator names the stuck rank after two leases");
  const absl::Status status =
      links_.Begin(epoch, stage_.shard(), stage_.link_memory(),
                   kRankPatienceLeases * coordinator_.lease(), clock_->Now());
  if (!status.ok()) Fail(status);
}

void Executor::LeaveCoordinator() {
  position_.Begin(Activity::kLinks);
  stop_ = stop_ || leaving_.has_value();
  stage_.OnCoordinatorLost();
  followed_epoch_ = Epoch();
  failed_epoch_ = Epoch();
  links_.End(absl::UnavailableError("this worker lost its coordinator"));
  position_.Begin(Activity::kFrames, kSliceTimeMin);
}

absl::StatusOr<std::unique_ptr<StageRunner>> Executor::Load(const v1::AssignShard& shard,
                                                            const ShardProgressCallback& progress) {
  loading_ = true;
  absl::Status fetched = Fetch(shard);
  if (!fetched.ok()) {
    loading_ = false;
    return fetched;
  }
  auto runner = options_.factory(shard, [&](int64_t loaded, int64_t total) {
    position_.Move();
    progress(loaded, total);
  });
  loading_ = false;
  if (runner.ok()) metrics_.ComputesIn(shard.numerics_class());
  // A coordinator that comes after this one keeps the class.
  if (runner.ok() && !shard.numerics_class().empty()) {
    context_.hello.set_last_numerics_class(shard.numerics_class());
  }
  return runner;
}

absl::Status Executor::Fetch(const v1::AssignShard& shard) {
  if (options_.fetch == nullptr) return absl::OkStatus();
  inbox_.BeginFetch();
  const auto tell = [this](const FetchProgress& fetch) {
    position_.Move();
    v1::Frame frame;
    frame.set_epoch(stage_.epoch().value());
    v1::ShardProgress* const progress = frame.mutable_shard_progress();
    progress->set_fetched_bytes(fetch.fetched_bytes);
    progress->set_fetch_bytes(fetch.all_bytes);
    progress->set_fetch_bytes_per_second(fetch.bytes_per_second);
    ToCoordinator(std::move(frame));
  };
  return options_.fetch->Fetch(shard, tell, [this] { return inbox_.LookInFetch(); });
}

void Executor::Tick() {
  const Instant now = clock_->Now();
  coordinator_.Tick(now);
  if (const absl::Status status = links_.Tick(now); !status.ok()) Fail(status);
  ReportLinks();
  SayLeaving();
}

Instant Executor::NextWake() const {
  return std::min(coordinator_.next_wake(), links_.next_wake(clock_->Now()));
}

void Executor::ReportLinks() {
  for (v1::Frame& report : links_.PopReports()) coordinator_.Send(std::move(report));
}

// Once to each coordinator that it joins.
void Executor::SayLeaving() {
  if (!leaving_.has_value() || !coordinator_.joined() || said_leaving_) return;
  said_leaving_ = true;
  v1::Frame frame;
  frame.set_epoch(stage_.epoch().value());
  frame.mutable_leaving()->set_grace_ms(static_cast<uint32_t>(Milliseconds(*leaving_)));
  coordinator_.Send(std::move(frame));
}

// Reports that the epoch is broken for a reason outside the stage worker. The coordinator answers
// by ending it.
void Executor::Fail(const absl::Status& status) {
  if (failed_epoch_ == stage_.epoch()) return;
  failed_epoch_ = stage_.epoch();
  v1::Frame frame;
  frame.set_epoch(stage_.epoch().value());
  frame.mutable_failure()->set_message(status.ToString());
  ToCoordinator(std::move(frame));
}

void Executor::ToCoordinator(v1::Frame frame) {
  if (frame.has_failure()) {
    ReportLinks();  // it may be a link that failed, and not this worker
    spdlog::error("epoch {}: {}", EpochName(Epoch(frame.epoch())), frame.failure().message());
  }
  metrics_.OnFrame(frame);
  coordinator_.Send(std::move(frame));
}

void Executor::ToNextStage(v1::Frame frame, transport::Payload payload) {
  links_.SendToNext(frame, payload);
}

void Executor::WriteMetrics(metrics::Exposition* to) const {
  metrics_.WriteInfo(options_.hello, to);
  metrics_.Write(position_, to);
  stage_.grammars().Write(to);
  const ShardFetch* const fetch = options_.fetch;
  to->Single("tutti_worker_fetched_bytes_total", metrics::Kind::kCounter,
             "Bytes of the checkpoint that came over the link.",
             fetch == nullptr ? 0.0 : static_cast<double>(fetch->fetched_bytes()));
  to->Single("tutti_worker_wrong_chunks_total", metrics::Kind::kCounter,
             "Chunks of the checkpoint that came with other bytes, and were asked for again.",
             fetch == nullptr ? 0.0 : static_cast<double>(fetch->wrong_chunks()));
}

}  // namespace tutti::worker
