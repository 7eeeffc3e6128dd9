#include "client/load/driver.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/retry_delay.h"
#include "client/load/limits.h"

namespace tutti::client {
namespace {

// Chats that wait: the soonest due is on top of the heap.
constexpr auto kLater = [](const auto& a, const auto& b) { return a.first > b.first; };

// Requests that were refused together come back apart: up to a quarter later than they were told,
// by their chats, so that a run is repeatable.
constexpr int64_t kSpread = 32;
Duration Spread(Duration delay, int64_t chat) {
  return delay + delay / 4 * (chat % kSpread) / kSpread;
}

}  // namespace

// One chat and its turn under way.
class LoadDriver::Conversation : public GenerateObserver {
 public:
  Conversation(LoadDriver* driver, int64_t number)
      : driver_(driver), number_(number), chat_(driver->make_chat_(number)) {}

  // Begins the next turn, which was due at `due`.
  void Begin(Instant due) {
    turn_ = Turn{.chat = number_, .turn = turns_++, .status = {}, .due = due - driver_->start_};
    turn_.repeated_tokens = known_tokens_;
    due_ = due;
    last_message_ = Instant();
    v1::GenerateRequest request = chat_->Ask();
    turn_.right_answer = chat_->RightAnswer();
    if (driver_->options_.back_off > Duration::zero()) request_ = request;
    call_ = driver_->client_->Start(std::move(request), driver_->options_.timeout, this);
  }

  // After a call that ended so: in how long the turn is to be asked again; none: it is over.
  std::optional<Duration> AskAgainIn(const absl::Status& status, Instant now) const {
    const bool is_refusal =
        (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) && turn_.ids.empty();
    const std::optional<Duration> delay = RetryDelayOf(status);
    if (!is_refusal || !delay.has_value()) return std::nullopt;
    const Duration pause = Spread(*delay, number_);
    if (now + pause > due_ + driver_->options_.back_off) return std::nullopt;
    return pause;
  }
  // The turn waits to be asked again.
  void Refuse(absl::Status status) {
    call_.reset();
    ++turn_.refusals;
    refusal_ = std::move(status);
  }
  bool refused() const { return !refusal_.ok(); }
  void AskAgain() {
    refusal_ = absl::OkStatus();
    call_ = driver_->client_->Start(request_, driver_->options_.timeout, this);
  }
  absl::Status refusal() const { return refusal_; }
  void Cancel() {
    if (call_ != nullptr) call_->Cancel();
  }

  // gRPC's threads, until OnEnd has posted.
  void OnMessage(const v1::GenerateResponse& message) override {
    const Instant now = driver_->clock_->Now();
    turn_.text += message.text();
    for (const v1::OutputToken& token : message.tokens()) turn_.ids.push_back(token.id());
    if (message.tokens_size() > 0) CountTokens(message.tokens_size(), now);
    if (message.has_finish()) {
      turn_.prompt_tokens = message.finish().usage().prompt_tokens();
      turn_.cached_tokens = message.finish().usage().cached_prompt_tokens();
    }
  }
  void OnEnd(absl::Status status) override {
    turn_.total = driver_->clock_->Now() - due_;
    driver_->mailbox_.Post(Ended{this, std::move(status)});
  }

  // After OnEnd, or a refusal. The turn as it went; the chat goes on only after a good one.
  Turn FinishTurn(absl::Status status) {
    call_.reset();
    turn_.status = std::move(status);
    if (turn_.ids.size() > 1) {
      turn_.token_gap =
          (last_message_ - due_ - turn_.first_token) / static_cast<int64_t>(turn_.ids.size() - 1);
    }
    // The last token was sampled and never computed.
    const auto output = static_cast<int64_t>(turn_.ids.size());
    known_tokens_ = turn_.prompt_tokens + std::max<int64_t>(output - 1, 0);
    chat_->Hear(turn_.text, turn_.ids);
    return std::move(turn_);
  }
  bool complete() const { return turns_ >= driver_->options_.turns; }

 private:
  void CountTokens(int32_t tokens, Instant now) {
    driver_->tokens_ += tokens;
    if (last_message_ == Instant()) {
      turn_.first_token = now - due_;
    } else {
      turn_.gaps.push_back({now - last_message_, tokens});
    }
    last_message_ = now;
  }

  LoadDriver* const driver_;
  const int64_t number_;
  const std::unique_ptr<Chat> chat_;
  std::unique_ptr<GenerateCall> call_;
  v1::GenerateRequest request_;  // to ask it again
  absl::Status refusal_;         // of the turn that waits to be asked again; OK: none does
  int32_t turns_ = 0;
  int64_t known_tokens_ = 0;
  Turn turn_;
  Instant due_;
  Instant last_message_;
};

LoadDriver::LoadDriver(DriverOptions options, Client* client, const Clock* clock,
                       MakeChatFunction make_chat)
    : options_(std::move(options)),
      client_(client),
      clock_(clock),
      make_chat_(std::move(make_chat)),
      arrivals_(options_.arrivals),
      mailbox_(std::numeric_limits<size_t>::max()) {}  // as many items as calls

LoadDriver::~LoadDriver() = default;

Duration LoadDriver::Run(const OnTurn& on_turn, const OnProgress& on_progress) {
  constexpr Duration kTick = std::chrono::milliseconds(kLoadProgressMs);
  start_ = clock_->Now();
  Duration next_tick = kTick;
  std::vector<Item> items;
  while (true) {
    Duration now = clock_->Now() - start_;
    BeginDue(now);
    if (conversations_.empty() && arrivals_.exhausted()) return now;
    mailbox_.Drain(start_ + std::min(NextDue().value_or(next_tick), next_tick), &items);
    now = clock_->Now() - start_;
    for (Item& item : items) {
      std::visit([&](auto& what) { Handle(std::move(what), now, on_turn); }, item);
    }
    if (now < next_tick) continue;
    progress_.elapsed = now;
    progress_.tokens = tokens_;
    on_progress(progress_);
    next_tick = now + kTick;
  }
}

void LoadDriver::Interrupt() { mailbox_.Post(Interrupted{}); }

std::optional<Duration> LoadDriver::NextDue() const {
  std::optional<Duration> due = arrivals_.Next();
  if (!waiting_.empty() && (!due || waiting_.front().first < *due)) {
    due = waiting_.front().first;
  }
  return due;
}

void LoadDriver::Wake(Duration at, Conversation* conversation) {
  waiting_.emplace_back(at, conversation);
  std::push_heap(waiting_.begin(), waiting_.end(), kLater);
}

void LoadDriver::Count() {
  ++progress_.begun;
  progress_.most_at_once = std::max(progress_.most_at_once, progress_.begun - progress_.ended);
}

void LoadDriver::BeginDue(Duration now) {
  while (!waiting_.empty() && waiting_.front().first <= now) {
    const auto [due, conversation] = waiting_.front();
    std::pop_heap(waiting_.begin(), waiting_.end(), kLater);
    waiting_.pop_back();
    if (conversation->refused()) {
      --progress_.refused;
      conversation->AskAgain();
      continue;
    }
    Count();
    conversation->Begin(start_ + due);
  }
  while (true) {
    const std::optional<Duration> due = arrivals_.Next();
    if (!due || *due > now) return;
    auto conversation = std::make_unique<Conversation>(this, arrivals_.Pop());
    Conversation* const begun = conversation.get();
    conversations_.emplace(begun, std::move(conversation));
    Count();
    begun->Begin(start_ + *due);
  }
}

void LoadDriver::Handle(Ended ended, Duration now, const OnTurn& on_turn) {
  Conversation* const conversation = ended.conversation;
  const auto again = interrupted_ || options_.back_off == Duration::zero()
                         ? std::nullopt
                         : conversation->AskAgainIn(ended.status, start_ + now);
  if (!again.has_value()) return Finish(conversation, std::move(ended.status), now, on_turn);
  ++progress_.refused;
  conversation->Refuse(std::move(ended.status));
  Wake(now + *again, conversation);
}

void LoadDriver::Finish(Conversation* conversation, absl::Status status, Duration now,
                        const OnTurn& on_turn) {
  const bool ok = status.ok();
  ++progress_.ended;
  if (!ok) ++progress_.failed;
  on_turn(conversation->FinishTurn(std::move(status)));
  if (ok && !interrupted_ && !conversation->complete()) {
    return Wake(now + options_.think_time, conversation);
  }
  conversations_.erase(conversation);
  arrivals_.OnEnded(now);
}

void LoadDriver::Handle(Interrupted, Duration now, const OnTurn& on_turn) {
  interrupted_ = true;
  arrivals_.Stop();
  for (const auto& [due, conversation] : std::exchange(waiting_, {})) {
    if (conversation->refused()) {
      --progress_.refused;
      Finish(conversation, conversation->refusal(), now, on_turn);
    } else {
      conversations_.erase(conversation);
    }
  }
  for (const auto& [conversation, owned] : conversations_) conversation->Cancel();
}

}  // namespace tutti::client
