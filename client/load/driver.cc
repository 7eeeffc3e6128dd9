#include "client/load/driver.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "client/load/limits.h"

namespace tutti::client {
namespace {

// A chat that thinks: the soonest due is on top of the heap.
constexpr auto kLater = [](const auto& a, const auto& b) { return a.first > b.first; };

}  // namespace

// One chat and its turn under way.
class LoadDriver::Conversation : public GenerateObserver {
 public:
  Conversation(LoadDriver* driver, int64_t number)
      : driver_(driver), number_(number), chat_(driver->make_chat_(number)) {}

  // Begins the next turn, which was due at `due`.
  void Begin(Instant due) {
    turn_ = Turn{.chat = number_, .turn = turns_++};
    turn_.repeated_tokens = known_tokens_;
    due_ = due;
    last_message_ = Instant();
    v1::GenerateRequest request = chat_->Ask();
    turn_.right_answer = chat_->RightAnswer();
    call_ = driver_->client_->Start(std::move(request), driver_->options_.timeout, this);
  }
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

  // After OnEnd. The turn as it went; the chat goes on only after a good one.
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
  if (!thinking_.empty() && (!due || thinking_.front().first < *due)) {
    due = thinking_.front().first;
  }
  return due;
}

void LoadDriver::BeginDue(Duration now) {
  while (!thinking_.empty() && thinking_.front().first <= now) {
    const auto [due, conversation] = thinking_.front();
    std::pop_heap(thinking_.begin(), thinking_.end(), kLater);
    thinking_.pop_back();
    ++progress_.begun;
    conversation->Begin(start_ + due);
  }
  while (true) {
    const std::optional<Duration> due = arrivals_.Next();
    if (!due || *due > now) return;
    auto conversation = std::make_unique<Conversation>(this, arrivals_.Pop());
    Conversation* const begun = conversation.get();
    conversations_.emplace(begun, std::move(conversation));
    ++progress_.begun;
    begun->Begin(start_ + *due);
  }
}

void LoadDriver::Handle(Ended ended, Duration now, const OnTurn& on_turn) {
  Conversation* const conversation = ended.conversation;
  const bool ok = ended.status.ok();
  ++progress_.ended;
  if (!ok) ++progress_.failed;
  on_turn(conversation->FinishTurn(std::move(ended.status)));
  if (ok && !interrupted_ && !conversation->complete()) {
    thinking_.emplace_back(now + options_.think_time, conversation);
    std::push_heap(thinking_.begin(), thinking_.end(), kLater);
    return;
  }
  conversations_.erase(conversation);
  arrivals_.OnEnded(now);
}

void LoadDriver::Handle(Interrupted, Duration, const OnTurn&) {
  interrupted_ = true;
  arrivals_.Stop();
  for (const auto& [due, conversation] : thinking_) conversations_.erase(conversation);
  thinking_.clear();
  for (const auto& [conversation, owned] : conversations_) conversation->Cancel();
}

}  // namespace tutti::client
