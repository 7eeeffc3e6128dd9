// Clients of a simulated cluster that come again: with what they have of an answer, or with what
// was asked before.
#include <algorithm>
#include <utility>

#include "tests/support/sim_clients.h"

namespace tutti::tests {

void SimClients::Repeat(Client* client) {
  coordinator::Request& request = client->request;
  if (request.sampling.top_k() != 0) return;  // of a killer there is one
  if (drawn_.empty() || !repeats_.Chance(options_->repeat_chance)) {
    drawn_.push_back(*client);
    return;
  }
  const Client& before =
      drawn_[static_cast<size_t>(repeats_.Between(0, static_cast<int64_t>(drawn_.size()) - 1))];
  request.prompt = before.request.prompt;
  request.max_tokens = before.request.max_tokens;
  request.sampling = before.request.sampling;
  request.stop_token_ids = before.request.stop_token_ids;
  client->right = before.right;
  // Most answers have ended by then.
  client->not_before = options_->arrivals_over / 2;
}

// The request of a client that has had some of an answer.
SimClients::Client SimClients::GoOn(RequestId id, bool take_over) {
  Client& before = requests_.at(id);
  Client again;
  again.request = before.request;
  again.request.deadline = kInstantNever;
  again.request.resumes = true;
  again.request.numerics = before.numerics;
  again.request.replaces = take_over ? id : RequestId();
  // Not all that was sent need have come. With the last token the output has ended: nothing to ask.
  const size_t sent = std::min(before.got.size(), before.right.size() - 1);
  const size_t has = random_.Chance(0.5) ? sent : random_.Between(0, sent);
  again.got.assign(before.got.begin(), before.got.begin() + has);
  again.request.output.clear();
  for (const v1::SampledToken& token : again.got) again.request.output.push_back(token.token());
  again.right = before.right;
  again.stop_after = before.stop_after;
  again.numerics = before.numerics;
  if (take_over) before.taken_over = true;
  if (!take_over) before.cancelled = true;
  return again;
}

void SimClients::Resume(RequestId first) {
  std::vector<RequestId> running;
  int32_t outputs = 0;
  for (auto at = requests_.find(first); at != requests_.end(); ++at, ++outputs) {
    const Client& client = at->second;
    if (at->first != first && client.request.first_output != first) break;
    if (client.cancelled || client.stopped || client.taken_over) return;
    if (client.ended && client.end != absl::StatusCode::kOk) return;
    if (!client.ended) running.push_back(at->first);
  }
  if (running.empty()) return;
  const bool take_over = random_.Chance(0.5);
  std::vector<Client> again;
  for (const RequestId id : running) again.push_back(GoOn(id, take_over));
  ++resumed_;
  if (take_over) return Arrive(std::move(again), first, outputs);
  for (const RequestId id : running) {
    to_engine_(coordinator::RequestCancelled{id, coordinator::CancelCause::kClientGone});
  }
  const bool foreign = !again.front().numerics.empty() && random_.Chance(0.2);
  for (Client& client : again) {
    client.foreign = foreign;
    if (foreign) client.request.numerics = "another class";
  }
  ++open_;
  queue_->After(std::chrono::microseconds(random_.Between(0, 300'000)),
                [this, again = std::move(again)]() mutable {
                  Arrive(std::move(again));
                  --open_;
                });
}

void SimClients::GoElsewhere() {
  arrived_before_ = requests_.size();
  tokens_before_ = tokens_;
  last_id_before_ = last_id_;
  std::vector<Client> others;
  for (auto& [id, client] : requests_) {
    if (client.ended) continue;
    client.ended = true;
    client.end = absl::StatusCode::kUnavailable;
    --open_;
    if (client.cancelled || client.stopped || client.taken_over || client.foreign) continue;
    Client again = GoOn(id, /*take_over=*/false);
    again.must_succeed = client.must_succeed;
    again.request.first_output = RequestId();
    others.push_back(std::move(again));
  }
  for (Client& again : others) {
    ++open_;
    queue_->After(std::chrono::microseconds(random_.Between(0, 300'000)),
                  [this, again = std::move(again)]() mutable {
                    std::vector<Client> one;
                    one.push_back(std::move(again));
                    Arrive(std::move(one));
                    --open_;
                  });
  }
}

int64_t SimClients::MostCharged() const {
  size_t tokens = 0;
  for (const auto& [id, client] : requests_) {
    if (id.value() > last_id_before_) tokens += client.request.prompt.size() + client.got.size();
  }
  return static_cast<int64_t>(tokens);
}

}  // namespace tutti::tests
