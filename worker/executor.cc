#include "worker/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/epochs.h"
#include "base/overloaded.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

// Accepted links are numbered from here, dialled ones from 1.
constexpr uint64_t kFirstAcceptedLink = uint64_t{1} << 63;

}  // namespace

Executor::Executor(Options options, transport::Dialer* dialer, const Clock* clock)
    : options_(std::move(options)),
      clock_(clock),
      mailbox_(std::make_shared<WorkerMailbox>(kMailboxFramesMax)),
      next_accepted_(std::make_shared<std::atomic<uint64_t>>(kFirstAcceptedLink)),
      watch_(&position_, options_.work_meter, &processors_),
      watcher_(&watch_, clock, options_.gpu),
      pace_(options_.hello.read_bytes_per_second(), options_.hello.flops_per_second()),
      context_{.dialer = dialer, .mailbox = mailbox_, .hello = options_.hello},
      coordinator_(&context_, options_.coordinators, &watcher_),
      accepted_(&context_),
      peers_(options_.peers),
      ranks_(&context_, &peers_, &accepted_, clock, options_.memory_folder,
             [this](Instant deadline) { return WaitForRank(deadline); }),
      device_links_(options_.device_links, options_.hello.worker_id(), clock,
                    [this](Instant deadline) { return WaitForRows(deadline); }),
      stage_([this](const v1::AssignShard& shard,
                    const ShardProgressCallback& progress) { return Load(shard, progress); },
             this, clock, &device_links_),
      devices_(options_.devices, clock) {}

Executor::~Executor() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

transport::AcceptCallback Executor::acceptor() const {
  return [mailbox = mailbox_, next = next_accepted_, backlog = std::make_shared<AcceptedBacklog>()](
             std::unique_ptr<transport::Link> link) -> std::unique_ptr<transport::LinkHandler> {
    const LinkId id((*next)++);
    auto place = backlog->Take(kAcceptedLinksKept);
    if (!place.has_value()) {
      link->Close(absl::ResourceExhaustedError("this worker is busy; try again in a moment"));
      return nullptr;
    }
    auto budget = transport::ReceiveBudget::OfStranger();
    mailbox->Post(LinkAccepted{id, std::move(link), budget, std::move(place)});
    return std::make_unique<PostingHandler>(id, mailbox, std::move(budget));
  };
}

void Executor::Start() {
  watcher_.Start();
  thread_ = std::thread([this] { Run(); });
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
    std::swap(events_, deferred_);
    if (events_.empty()) {
      position_.Begin(Activity::kIdle);
      mailbox_->Drain(ran ? Instant() : NextWake(), &events_);
    }
    position_.Begin(Activity::kFrames, kSliceTimeMin);
    for (WorkerEvent& event : events_) {
      if (stop_) break;
      Handle(std::move(event));
    }
    events_.clear();
  }
  const absl::Status leaving = absl::UnavailableError("the worker is shutting down");
  EndLinks(leaving);
  coordinator_.Close(leaving);
  mailbox_->Close();
  ended_.set_value();
}

bool Executor::RunOneStep() {
  StageRunner::StepWork work;
  Instant begin{};
  waited_ = false;
  const bool ran =
      stage_.RunOneStep([this] { position_.Move(); },
                        [&](const StageRunner::StepWork& of_step) {
                          work = of_step;
                          begin = clock_->Now();
                          position_.Begin(Activity::kStep, pace_.Allow(work.largest_slice));
                        });
  // The time of a step that waited for others says nothing of our own pace.
  if (begin != Instant() && !waited_) pace_.Learn(work.all, clock_->Now() - begin);
  if (ran) {
    position_.Move();
    position_.Begin(Activity::kFrames, kSliceTimeMin);
  }
  return ran;
}

// The first time in an epoch that all links of ranks are up, their devices look for each other.
bool Executor::ReadyForSteps() {
  if (!ranks_.ready() || !stage_.status().ok()) return false;
  if (grouped_epoch_ == linked_epoch_) return true;
  grouped_epoch_ = linked_epoch_;
  position_.Begin(Activity::kLinks);
  const absl::Status status =
      devices_.Form(options_.collective, &ranks_, stage_.shard().num_ranks(), stage_.shard().rank(),
                    [this] { position_.Move(); });
  position_.Begin(Activity::kFrames, kSliceTimeMin);
  if (!status.ok() && !absl::IsAborted(status)) Fail(status);
  return status.ok();
}

void Executor::Handle(WorkerEvent event) {
  std::visit(
      Overloaded{
          [&](LinkFrame& frame) { HandleFrame(std::move(frame)); },
          [&](LinkClosed& closed) { HandleClosed(closed); },
          [&](LinkAccepted& accepted) { accepted_.OnAccepted(std::move(accepted), clock_->Now()); },
          [&](StopWanted&) {},
          [&](LeaveWanted& leave) {
            leaving_ = leave.grace;
            stop_ = stop_ || !coordinator_.joined();
          },
      },
      event);
}

// A frame of a link that we let go of meanwhile is of no interest.
void Executor::HandleFrame(LinkFrame event) {
  const Instant now = clock_->Now();
  if (coordinator_.Is(event.link)) {
    if (coordinator_.HandleHandshake(event.link, event.frame, now)) return;
    return HandleCoordinatorFrame(std::move(event.frame));
  }
  if (ranks_.HandleDialledFrame(event.link, &event.frame, &event.payload, now)) return;
  for (size_t i = 0; i < next_.size(); ++i) {
    if (next_[i]->Is(event.link)) return HandleNextStageFrame(i, event.frame, now);
  }
  if (!accepted_.Is(event.link)) return;
  const std::optional<size_t> index = accepted_.HandleFrame(event.link, event.frame);
  if (!index.has_value()) return;
  if (ranks_.HandleAcceptedFrame(*index, &event.frame, &event.payload)) return;
  // Over a slow link a step's rows take longer to come than a worker may stand still.
  position_.Move();
  stage_.OnActivationFrame(std::move(event.frame), std::move(event.payload));
}

void Executor::HandleNextStageFrame(size_t index, const v1::Frame& frame, Instant now) {
  if (next_[index]->HandleFrame(frame, now)) {
    device_links_.HandleUp(index);
  } else if (next_[index]->is_up() && frame.has_welcome()) {
    device_links_.HandleAnswer(index, frame.welcome().device_link());
  }
}

void Executor::HandleClosed(const LinkClosed& event) {
  const Instant now = clock_->Now();
  if (coordinator_.Is(event.link)) {
    if (coordinator_.OnClosed(event.link, event.reason, now)) LeaveCoordinator();
    return;
  }
  if (ranks_.HandleDialledClosed(event.link, event.reason, now)) return;
  for (const auto& next : next_) {
    if (next->Is(event.link)) return next->OnClosed(event.reason, now);
  }
  if (!accepted_.Is(event.link)) return;
  const std::optional<size_t> index = accepted_.OnClosed(event.link, event.reason);
  if (index.has_value()) ranks_.HandleAcceptedClosed(*index, event.reason, now);
}

// A step is in progress, so all links of ranks are up, and frames that come over them are those of
// exchanges.
bool Executor::HandleRankEvent(WorkerEvent* event) {
  if (auto* frame = std::get_if<LinkFrame>(event)) {
    if (ranks_.HandleDialledFrame(frame->link, &frame->frame, &frame->payload, clock_->Now())) {
      return true;
    }
    const std::optional<size_t> index = accepted_.IndexOf(frame->link);
    return index.has_value() && ranks_.HandleAcceptedFrame(*index, &frame->frame, &frame->payload);
  }
  if (auto* closed = std::get_if<LinkClosed>(event)) {
    const Instant now = clock_->Now();
    if (ranks_.HandleDialledClosed(closed->link, closed->reason, now)) return true;
    const std::optional<size_t> index = accepted_.IndexOf(closed->link);
    if (!index.has_value() || !ranks_.HandleAcceptedClosed(*index, closed->reason, now))
      return false;
    accepted_.OnClosed(closed->link, closed->reason);
    return true;
  }
  return false;
}

bool Executor::EndsEpoch(const WorkerEvent& event) const {
  if (const auto* frame = std::get_if<LinkFrame>(&event)) {
    return coordinator_.Is(frame->link) &&
           (frame->frame.has_assign_shard() || frame->frame.has_release());
  }
  if (const auto* closed = std::get_if<LinkClosed>(&event)) return coordinator_.Is(closed->link);
  return std::holds_alternative<StopWanted>(event);
}

// The wait of a device's work, or between two looks at one, belongs to what the executor does.
absl::Status Executor::WaitForRank(Instant deadline) {
  waited_ = true;
  if (ranks_.waiting_for().empty()) return WaitWithinStep(deadline);
  const Position::Meanwhile waiting(&position_, Activity::kRank, ranks_.waiting_for());
  return WaitWithinStep(deadline);
}

absl::Status Executor::WaitForRows(Instant deadline) {
  const Position::Meanwhile waiting(&position_, Activity::kRows, "");
  return WaitWithinStep(deadline);
}

absl::Status Executor::WaitWithinStep(Instant deadline) {
  mailbox_->Drain(deadline, &events_in_step_);
  bool over = stop_;
  for (WorkerEvent& event : events_in_step_) {
    if (HandleRankEvent(&event)) {
      position_.Turn();
      continue;
    }
    over |= EndsEpoch(event);
    deferred_.push_back(std::move(event));
  }
  events_in_step_.clear();
  if (over) return absl::AbortedError("the epoch ended while a step waited for another worker");
  if (deferred_.size() > kMailboxFramesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMailboxFramesMax,
                                                     " frames came while a step waited for ",
                                                     ranks_.waiting_for()));
  }
  return absl::OkStatus();
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
  AfterCoordinatorFrame();
  if (loads) position_.Begin(Activity::kFrames, kSliceTimeMin);
}

// Brings the activation links in line with the epoch.
void Executor::AfterCoordinatorFrame() {
  const Epoch epoch = stage_.epoch();
  if (epoch == linked_epoch_) return;
  linked_epoch_ = epoch;
  if (epoch == Epoch()) return EndLinks(absl::UnavailableError("the shard was released"));
  if (!stage_.status().ok()) return;
  const bool stands_by = stage_.shard().standby();
  spdlog::info("epoch {}: {}", EpochName(epoch), stands_by ? "stands by" : "ready");
  if (stands_by) return EndLinks(absl::UnavailableError("the worker stands by"));
  if (const absl::Status status = BeginLinks(epoch); !status.ok()) Fail(status);
}

void Executor::Tick() {
  const Instant now = clock_->Now();
  coordinator_.Tick(now);
  accepted_.Tick(now);
  if (const absl::Status status = ranks_.Tick(now); !status.ok()) Fail(status);
  for (const auto& next : next_) {
    if (const absl::Status status = next->Tick(now); !status.ok()) Fail(status);
  }
  TickDeviceLinks(now);
  ReportLinks();
  SayLeaving();
}

Instant Executor::NextWake() const {
  Instant wake = std::min({coordinator_.next_wake(), ranks_.next_wake(), accepted_.next_wake(),
                           device_links_.next_wake(clock_->Now())});
  for (const auto& next : next_) wake = std::min(wake, next->next_wake());
  return wake;
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
  for (const auto& next : next_) next->Send(frame, payload);
}

}  // namespace tutti::worker
