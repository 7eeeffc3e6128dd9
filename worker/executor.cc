#include "worker/executor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// Accepted links are numbered from here, dialled ones from 1.
constexpr uint64_t kFirstAcceptedLink = uint64_t{1} << 63;

}  // namespace

int64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long long total = 0, resident = 0;
  const int read = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

Executor::Executor(Options options, Dialer* dialer, const Clock* clock)
    : options_(std::move(options)),
      clock_(clock),
      mailbox_(std::make_shared<WorkerMailbox>(kMailboxFramesMax)),
      next_accepted_(std::make_shared<std::atomic<uint64_t>>(kFirstAcceptedLink)),
      context_{.dialer = dialer, .mailbox = mailbox_, .hello = options_.hello},
      coordinator_(&context_, options_.coordinator),
      next_(&context_, &options_.peers),
      previous_(&context_),
      // While a shard loads, its progress is where beats come from.
      stage_(
          [this](const v1::AssignShard& shard, const LoadProgress& progress) {
            return options_.factory(shard, [&](int64_t loaded, int64_t total) {
              progress(loaded, total);
              BeatIfDue();
            });
          },
          this, clock) {}

Executor::~Executor() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

AcceptCallback Executor::acceptor() const {
  return [mailbox = mailbox_, next = next_accepted_](std::unique_ptr<Link> link) {
    const LinkId id((*next)++);
    mailbox->Post(LinkAccepted{id, std::move(link)});
    return std::make_unique<PostingHandler>(id, mailbox);
  };
}

void Executor::Start() {
  thread_ = std::thread([this] { Run(); });
}

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
    const bool ran = stage_.RunOneStep([this] { BeatIfDue(); });
    mailbox_->Drain(ran ? Instant() : NextWake(), &events_);
    for (WorkerEvent& event : events_) {
      if (stop_) break;
      Take(std::move(event));
    }
    events_.clear();
  }
  const absl::Status leaving = absl::UnavailableError("the worker is shutting down");
  next_.End();
  previous_.End(leaving);
  coordinator_.Close(leaving);
  mailbox_->Close();
  ended_.set_value();
}

void Executor::Take(WorkerEvent event) {
  std::visit(
      Overloaded{
          [&](LinkFrame& frame) { TakeFrame(std::move(frame)); },
          [&](LinkClosed& closed) { TakeClosed(closed); },
          [&](LinkAccepted& accepted) { previous_.OnAccepted(std::move(accepted), clock_->Now()); },
          [&](StopWanted&) {},
      },
      event);
}

// A frame of a link that we let go of meanwhile is of no interest.
void Executor::TakeFrame(LinkFrame event) {
  const Instant now = clock_->Now();
  if (coordinator_.Is(event.link)) {
    if (coordinator_.TakeHandshake(event.frame, now)) return;
    TakeCoordinatorFrame(std::move(event.frame));
  } else if (next_.Is(event.link)) {
    next_.OnFrame(event.frame, now);
  } else if (previous_.Is(event.link)) {
    if (previous_.TakeFrame(event.link, event.frame)) {
      stage_.OnActivationFrame(std::move(event.frame), std::move(event.payload));
    }
  }
}

void Executor::TakeClosed(const LinkClosed& event) {
  const Instant now = clock_->Now();
  if (coordinator_.Is(event.link)) {
    if (coordinator_.OnClosed(event.reason, now)) LeaveCoordinator();
  } else if (next_.Is(event.link)) {
    next_.OnClosed(event.reason, now);
  } else if (previous_.Is(event.link)) {
    previous_.OnClosed(event.link, event.reason);
  }
}

void Executor::TakeCoordinatorFrame(v1::Frame frame) {
  if (frame.has_assign_shard()) {
    const v1::AssignShard& shard = frame.assign_shard();
    spdlog::info("epoch {}: stage {} of {}, layers {} to {}{}{}", frame.epoch(), shard.stage(),
                 shard.num_stages(), shard.first_layer(),
                 int64_t{shard.first_layer()} + shard.num_layers() - 1,
                 shard.has_embedding() ? ", embedding" : "", shard.has_head() ? ", head" : "");
  }
  stage_.OnCoordinatorFrame(std::move(frame));
  AfterCoordinatorFrame();
}

// Brings the activation links in line with the epoch.
void Executor::AfterCoordinatorFrame() {
  const Epoch epoch = stage_.epoch();
  if (epoch == linked_epoch_) return;
  linked_epoch_ = epoch;
  if (epoch == Epoch()) {
    next_.End();
    previous_.End(absl::UnavailableError("the shard was released"));
    return;
  }
  if (!stage_.status().ok()) return;
  spdlog::info("epoch {}: ready", epoch.value());
  previous_.Begin(epoch, stage_.shard().previous_worker_id());
  const absl::Status status = next_.Begin(epoch, stage_.shard().next_worker_id(), clock_->Now());
  if (!status.ok()) Fail(status);
}

void Executor::LeaveCoordinator() {
  stage_.OnCoordinatorLost();
  linked_epoch_ = Epoch();
  failed_epoch_ = Epoch();
  next_.End();
  previous_.End(absl::UnavailableError("this worker lost its coordinator"));
}

void Executor::Tick() {
  const Instant now = clock_->Now();
  coordinator_.Tick(now);
  previous_.Tick(now);
  const absl::Status status = next_.Tick(now);
  if (!status.ok()) Fail(status);
  BeatIfDue();
}

Instant Executor::NextWake() const {
  Instant wake = std::min({coordinator_.next_wake(), next_.next_wake(), previous_.next_wake()});
  if (coordinator_.joined()) wake = std::min(wake, next_beat_);
  return wake;
}

void Executor::BeatIfDue() {
  if (!coordinator_.joined()) return;
  const Instant now = clock_->Now();
  if (now < next_beat_) return;
  next_beat_ = now + coordinator_.beat_interval();
  v1::Frame frame;
  frame.set_epoch(stage_.epoch().value());
  frame.mutable_beat()->set_progress(stage_.progress_count());
  frame.mutable_beat()->set_resident_bytes(ResidentBytes());
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
    spdlog::error("epoch {}: {}", frame.epoch(), frame.failure().message());
  }
  coordinator_.Send(std::move(frame));
}

void Executor::ToNextStage(v1::Frame frame, Payload payload) {
  next_.Send(std::move(frame), std::move(payload));
}

}  // namespace tutti
