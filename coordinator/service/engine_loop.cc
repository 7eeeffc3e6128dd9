#include "coordinator/service/engine_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plain_name.h"
#include "base/thread.h"
#include "coordinator/limits.h"
#include "spdlog/spdlog.h"
#include "transport/send_or_close.h"

namespace tutti::coordinator {
namespace {

constexpr Duration kHelloTimeout = std::chrono::milliseconds(kHelloTimeoutMs);

// The visitor of a variant, made of one lambda for each alternative.
template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

// Posts the frames of one control link, within its budget: a worker or a stranger that sends faster
// than the engine reads is not read any more until it does. Lives as long as the link does.
class EngineLoop::LinkReceiver : public transport::LinkHandler {
 public:
  LinkReceiver(LinkKey key, std::shared_ptr<Mailbox<Item>> mailbox,
               std::shared_ptr<transport::ReceiveBudget> budget)
      : key_(key), mailbox_(std::move(mailbox)), budget_(std::move(budget)) {}
  // Control frames carry no payload; one that a worker sends all the same is dropped.
  void OnFrame(v1::Frame frame, transport::Payload) override {
    if (overflowed_) return;
    if (auto unread = budget_->Count(static_cast<int64_t>(frame.ByteSizeLong()))) {
      mailbox_->Post(LinkFrame{key_, std::move(frame), *std::move(unread)});
      return;
    }
    overflowed_ = true;
    mailbox_->Post(LinkClosed{
        key_, absl::ResourceExhaustedError("the worker sends frames faster than they are read")});
  }
  void OnClosed(absl::Status reason) override {
    if (!overflowed_) mailbox_->Post(LinkClosed{key_, std::move(reason)});
  }
  std::shared_ptr<transport::ReceiveBudget> budget() override { return budget_; }

 private:
  const LinkKey key_;
  const std::shared_ptr<Mailbox<Item>> mailbox_;
  const std::shared_ptr<transport::ReceiveBudget> budget_;
  bool overflowed_ = false;  // owned by the transport's calls, which come one at a time
};

EngineLoop::EngineLoop(EngineOptions options, const Clock* clock, EngineSink* sink,
                       const LeaseTime* lease, WeightsServer* weights)
    : clock_(clock),
      sink_(sink),
      lease_(lease),
      weights_(weights),
      cluster_id_(options.cluster_id),
      mailbox_(std::make_shared<Mailbox<Item>>(kMailboxEventsMax)),
      next_link_key_(std::make_shared<std::atomic<uint64_t>>(1)),
      engine_(std::move(options)) {}

EngineLoop::~EngineLoop() { Stop(); }

void EngineLoop::Start() {
  started_at_ = clock_->Now();
  thread_ = StartThread("the engine", [this] { Run(); });
}

void EngineLoop::Stop() {
  stopped_ = true;
  mailbox_->Close();
  if (thread_.joinable()) thread_.join();
}

bool EngineLoop::Submit(RequestArrived arrived) {
  // Counted apart from the frames of workers, so that many of these refuse no client.
  if (stopped_ || waiting_requests_.fetch_add(1) >= kMailboxEventsMax) {
    if (!stopped_) --waiting_requests_;
    return false;
  }
  mailbox_->Post(Event(std::move(arrived)));
  return true;
}

void EngineLoop::Cancel(RequestId request, CancelCause cause) {
  mailbox_->Post(Event(RequestCancelled{request, cause}));
}

void EngineLoop::Drain() { mailbox_->Post(Event(DrainRequested{})); }

void EngineLoop::Lead(Led led) { mailbox_->Post(Event(led)); }

void EngineLoop::StandBy(std::string why) { mailbox_->Post(Event(StandsBy{std::move(why)})); }

void EngineLoop::TellDigests(CheckpointDigested digested) {
  mailbox_->Post(Event(std::move(digested)));
}

void EngineLoop::TellUnread(Duration duration) { mailbox_->Post(LayUnread{duration}); }

void EngineLoop::TellRefused(std::string peer, std::string worker_id, absl::Status reason) {
  mailbox_->Post(PeerRefused{std::move(peer), std::move(worker_id), std::move(reason)});
}

void EngineLoop::EndAll() { mailbox_->Post(Event(EndRequested{})); }

void EngineLoop::GetStatus(StatusCallback callback) {
  mailbox_->Post(StatusWanted{std::move(callback)});
}

void EngineLoop::LookupPrefix(const Hash128& domain, std::vector<TokenId> tokens,
                              LookupCallback callback) {
  mailbox_->Post(LookupWanted{domain, std::move(tokens), std::move(callback)});
}

void EngineLoop::DrainWorker(v1::DrainWorkerRequest request, DrainCallback callback) {
  mailbox_->Post(DrainWanted{std::move(request), std::move(callback)});
}

transport::AcceptCallback EngineLoop::acceptor() {
  return [mailbox = mailbox_, next_key = next_link_key_](std::unique_ptr<transport::Link> link) {
    const LinkKey key((*next_key)++);
    auto budget = transport::ReceiveBudget::OfStranger();
    mailbox->Post(LinkOpened{key, std::move(link), budget});
    return std::make_unique<LinkReceiver>(key, mailbox, std::move(budget));
  };
}

void EngineLoop::Run() {
  std::vector<Item> items;
  Instant turned_at = clock_->Now();
  while (mailbox_->Drain(std::min(NextWake(), turned_at + kTurnInterval), &items)) {
    const Instant now = clock_->Now();
    ForgiveStall(now - turned_at, now);
    turned_at = now;
    for (Item& item : items) Handle(std::move(item), now);
    CloseSilentLinks(now);
    engine_.Advance(now, &actions_);
    Apply(&actions_);
    AnswerStatus(now);
  }
  for (auto& [key, worker] : links_) {
    worker.link->Close(absl::UnavailableError("the coordinator is shutting down"));
  }
  links_.clear();
}

// A process that was stopped, or a thread that had too much to do: of the frames that came
// meanwhile, some may not have reached the mailbox.
void EngineLoop::ForgiveStall(Duration since_last_turn, Instant now) {
  if (since_last_turn < kStallMin) return;
  if (since_last_turn >= kStallWarned) {
    spdlog::warn("the coordinator stood still for {} ms; its workers' leases are longer by as much",
                 static_cast<int64_t>(Milliseconds(since_last_turn)));
  }
  Forgive(since_last_turn, now);
}

// The threads of gRPC had too much to do: what workers sent has come, and nobody has read it.
void EngineLoop::ForgiveUnread(Duration duration, Instant now) {
  duration = unread_allowance_.Take(duration, now);
  if (duration > Duration::zero()) Forgive(duration, now);
}

void EngineLoop::Forgive(Duration duration, Instant now) {
  engine_.Handle(Stalled{duration}, now, &actions_);
  for (auto& [key, worker] : links_) worker.opened_at += duration;
}

Duration StallAllowance::Take(Duration duration, Instant now) {
  const Duration since = at_.has_value() ? now - *at_ : Duration::zero();
  at_ = now;
  left_ = std::min<Duration>(left_ + since / kUnreadForgivenShare, kUnreadForgivenMax);
  const Duration taken = std::min(left_, duration);
  left_ -= taken;
  return taken;
}

Instant EngineLoop::NextWake() const {
  Instant wake = engine_.next_deadline();
  for (const auto& [key, worker] : links_) {
    if (worker.joined || worker.fetches) continue;
    wake = std::min(wake, worker.opened_at + kHelloTimeout);
  }
  return wake;
}

void EngineLoop::Handle(Item item, Instant now) {
  std::visit(Overloaded{
                 [&](Event& event) {
                   if (std::holds_alternative<RequestArrived>(event)) --waiting_requests_;
                   engine_.Handle(std::move(event), now, &actions_);
                 },
                 [&](LinkOpened& opened) { HandleOpened(std::move(opened), now); },
                 [&](LinkFrame& frame) { HandleFrame(std::move(frame), now); },
                 [&](LinkClosed& closed) { HandleClosed(std::move(closed), now); },
                 [&](PeerRefused& refused) {
                   NoteRefused(refused.peer, refused.worker_id, refused.reason, now);
                 },
                 [&](LayUnread& lay) { ForgiveUnread(lay.duration, now); },
                 [&](StatusWanted& wanted) { asked_.push_back(std::move(wanted.callback)); },
                 [&](LookupWanted& wanted) {
                   v1::LookupPrefixResponse found;
                   engine_.LookupPrefix(wanted.domain, wanted.tokens, &found);
                   wanted.callback(std::move(found));
                 },
                 [&](DrainWanted& wanted) {
                   wanted.callback(engine_.DrainWorker(wanted.request.worker_id(),
                                                       wanted.request.undo(), now, &actions_));
                 },
             },
             item);
}

// Called at the end of a turn: who hears that the service serves finds it open, and who was turned
// away is named.
void EngineLoop::AnswerStatus(Instant now) {
  if (asked_.empty()) return;
  v1::GetStatusResponse status;
  engine_.FillStatus(now, &status);
  refused_.FillStatus(now, &status);
  status.set_uptime_seconds(Seconds(now - started_at_));
  for (const StatusCallback& callback : std::exchange(asked_, {})) callback(status);
}

void EngineLoop::HandleOpened(LinkOpened opened, Instant now) {
  if (links_.size() >= static_cast<size_t>(kWorkerLinksMax)) {
    // Keys grow, so the first is the oldest.
    const auto silent = std::find_if(links_.begin(), links_.end(), [](const auto& entry) {
      return !entry.second.joined && !entry.second.fetches;
    });
    const absl::Status full = absl::ResourceExhaustedError(
        absl::StrCat("the coordinator has ", kWorkerLinksMax, " worker links"));
    if (silent == links_.end()) return opened.link->Close(full);
    CloseLink(silent->first, full);
  }
  links_[opened.key] = {.link = std::move(opened.link),
                        .budget = std::move(opened.budget),
                        .joined = false,
                        .opened_at = now};
}

void EngineLoop::HandleFrame(LinkFrame item, Instant now) {
  const auto found = links_.find(item.key);
  if (found == links_.end()) return;  // a frame that was under way when we closed the link
  if (found->second.joined) {
    engine_.Handle(WorkerFrame{item.key, std::move(item.frame)}, now, &actions_);
    return;
  }
  if (found->second.fetches) {
    return weights_->Ask(item.key, found->second.link, HasJoined(found->second.worker_id),
                         std::move(item.frame));
  }
  if (!item.frame.has_hello()) {
    CloseLink(item.key, absl::InvalidArgumentError("the first frame of a link must be hello"));
    return;
  }
  HandleHello(item.key, &found->second, std::move(*item.frame.mutable_hello()), now);
}

void EngineLoop::HandleHello(LinkKey key, WorkerLink* worker, v1::Hello hello, Instant now) {
  if (!IsPlainName(hello.worker_id())) {
    CloseLink(key, absl::InvalidArgumentError("hello.worker_id must match [A-Za-z0-9._-]{1,128}"));
    return;
  }
  if (hello.purpose() == v1::LINK_PURPOSE_WEIGHTS && weights_ != nullptr) {
    return BeginWeights(key, worker, hello);
  }
  if (hello.purpose() != v1::LINK_PURPOSE_CONTROL) {
    CloseLink(key, absl::InvalidArgumentError(
                       "hello.purpose: this port takes control and weights links only"));
    return;
  }
  worker->joined = true;
  worker->worker_id = hello.worker_id();
  worker->budget->MarkKnown(
      {.frames = transport::kUnreadFramesMax, .bytes = kUnreadControlBytesMax});
  engine_.Handle(WorkerJoined{key, std::move(hello)}, now, &actions_);
}

void EngineLoop::HandleClosed(LinkClosed item, Instant now) {
  const auto found = links_.find(item.key);
  if (found == links_.end()) return;
  const bool joined = found->second.joined;
  if (found->second.fetches) weights_->Forget(item.key);
  links_.erase(found);
  if (!joined) return;
  ++lost_count_;
  if (item.reason.ok()) item.reason = absl::UnavailableError("the worker closed its link");
  engine_.Handle(WorkerLost{item.key, std::move(item.reason)}, now, &actions_);
}

// A note for the status, and for the log.
void EngineLoop::NoteRefused(const std::string& peer, const std::string& worker_id,
                             const absl::Status& reason, Instant now) {
  const std::string why(reason.message());
  ++refused_count_;
  if (!refused_.Add(peer, worker_id, why, now)) return;
  spdlog::warn("refused {}{}: {}", Printable(peer),
               worker_id.empty() ? "" : absl::StrCat(" as worker \"", Printable(worker_id), "\""),
               Printable(why));
}

void EngineLoop::CloseLink(LinkKey key, absl::Status reason) {
  const auto found = links_.find(key);
  if (found == links_.end()) return;
  const std::string peer = found->second.link->peer();
  if (found->second.fetches) {
    weights_->Forget(key);
    spdlog::info("closing the weights link from {}, worker \"{}\": {}", peer,
                 found->second.worker_id, std::string(reason.message()));
  } else if (!found->second.welcome) {
    NoteRefused(peer, found->second.worker_id, reason, clock_->Now());
  } else {
    ++lost_count_;
    spdlog::warn("closing the link from {}, worker \"{}\": {}", peer, found->second.worker_id,
                 std::string(reason.message()));
  }
  found->second.link->Close(std::move(reason));
  links_.erase(found);
}

void EngineLoop::CloseSilentLinks(Instant now) {
  std::vector<LinkKey> silent;
  for (const auto& [key, worker] : links_) {
    if (worker.joined || worker.fetches) continue;
    if (now >= worker.opened_at + kHelloTimeout) silent.push_back(key);
  }
  for (const LinkKey key : silent) {
    CloseLink(
        key, absl::DeadlineExceededError(absl::StrCat("no hello within ", kHelloTimeoutMs, " ms")));
  }
}

// A worker that is not sent a plan would be missed in its step, and be blamed. So its link ends,
// with the reason.
void EngineLoop::Send(SendToWorker send) {
  const auto found = links_.find(send.link);
  if (found == links_.end()) return;  // its loss is on the way to the engine
  // The time of this moment: the process may have been stopped since the turn began.
  if (lease_ != nullptr && !lease_->Holds(clock_->Now())) return sink_->OnLeaseOver();
  if (send.frame.has_welcome()) found->second.welcome = true;
  const absl::Status sent = transport::SendOrClose(found->second.link.get(), std::move(send.frame));
  // A link that closed meanwhile reports itself.
  if (!sent.ok() && !absl::IsUnavailable(sent)) mailbox_->Post(LinkClosed{send.link, sent});
}

void EngineLoop::Apply(std::vector<Action>* actions) {
  for (Action& action : *actions) {
    std::visit(
        Overloaded{
            [&](SendToWorker& send) { Send(std::move(send)); },
            [&](CloseWorker& close) { CloseLink(close.link, std::move(close.reason)); },
            [&](DeliverTokens& tokens) { sink_->OnTokens(std::move(tokens)); },
            [&](FinishRequest& finish) { sink_->OnFinish(std::move(finish)); },
            [&](ServingChanged& changed) { sink_->OnServing(changed); },
            [&](Notice& notice) {
              spdlog::log(notice.warning ? spdlog::level::warn : spdlog::level::info, "{}",
                          notice.text);
            },
        },
        action);
  }
  actions->clear();
}

}  // namespace tutti::coordinator
