#include "tests/support/sim_network.h"

#include <algorithm>
#include <utility>

namespace tutti::tests {

Instant SimPipe::ArrivalTime() {
  Duration delay(random_->Between(delay_.least.count(), delay_.most.count()));
  if (random_->Chance(delay_.slow_chance)) delay *= random_->Between(2, 10);
  last_arrival_ = std::max(last_arrival_, queue_->now() + delay);
  return last_arrival_;
}

void SimPipe::Send(std::function<void()> deliver) {
  if (state_->closed) return;
  queue_->At(ArrivalTime(), [state = state_, number = sent_++, deliver = std::move(deliver)] {
    if (!state->swallows && number >= state->lost_before) deliver();
  });
}

void SimPipe::Close(bool lose, std::function<void()> closed) {
  if (state_->closed) return;
  state_->closed = true;
  if (lose) state_->lost_before = sent_;
  queue_->At(ArrivalTime(), [state = state_, closed = std::move(closed)] {
    if (!state->swallows) closed();
  });
}

}  // namespace tutti::tests
