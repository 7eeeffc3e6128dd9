#include "coordinator/steps/row_turns.h"

#include "base/check.h"

namespace tutti::coordinator {

// REQUIRES: its request is counted in RequestTurns::running already, where it comes
void RowTurns::CountRunning(const Sequence& sequence, int32_t more) {
  const RequestTurns& request = *sequence.stay.turn.of;
  const auto in = classes_.try_emplace(sequence.request.priority).first;
  OfClass& of = in->second;
  const auto owner = of.owners.try_emplace(sequence.request.owner_id(), 0).first;
  if (owner->second > 0) {
    const auto before = of.owners_by_running.find(owner->second);
    if (--before->second == 0) of.owners_by_running.erase(before);
  }
  of.running += more;
  owner->second += more;
  if (owner->second > 0) ++of.owners_by_running[owner->second];
  if (more > 0 && request.running == 1) ++of.requests;
  if (more < 0 && request.running == 1) --of.requests;
  if (owner->second == 0) of.owners.erase(owner);
  if (of.running == 0) classes_.erase(in);
}

void RowTurns::Run(Sequence* sequence) {
  CHECK(sequence->stay.turn.of == nullptr) << "request " << sequence->request.id;
  RequestTurns& request = requests_[sequence->request.of()];
  if (request.of == nullptr) request.of = &owners_[sequence->request.owner_id()];
  ++request.running;
  ++request.of->running;
  sequence->stay.turn.of = &request;
  CountRunning(*sequence, 1);
}

void RowTurns::Stop(Sequence* sequence) {
  RequestTurns* const request = sequence->stay.turn.of;
  CHECK(request != nullptr && !sequence->stay.turn.waits) << "request " << sequence->request.id;
  CountRunning(*sequence, -1);
  if (--request->of->running == 0) owners_.erase(sequence->request.owner_id());
  if (--request->running == 0) requests_.erase(sequence->request.of());
  sequence->stay.turn = {};
}

void RowTurns::Add(Sequence* sequence) {
  RowTurn& turn = sequence->stay.turn;
  CHECK(turn.of != nullptr && !turn.waits) << "request " << sequence->request.id;
  OwnerTurns* const owner = turn.of->of;
  if (owner->line.empty()) line_.Append(owner);
  if (turn.of->line.empty()) owner->line.Append(turn.of);
  turn.of->line.Append(sequence);
  turn.waits = true;
  ++size_;
}

bool RowTurns::Erase(Sequence* sequence) {
  RowTurn& turn = sequence->stay.turn;
  if (!turn.waits) return false;
  OwnerTurns* const owner = turn.of->of;
  turn.of->line.Remove(sequence);
  if (turn.of->line.empty()) owner->line.Remove(turn.of);
  if (owner->line.empty()) line_.Remove(owner);
  turn.waits = false;
  --size_;
  return true;
}

Sequence* RowTurns::Take() {
  CHECK(!empty());
  OwnerTurns* const owner = line_.first();
  RequestTurns* const request = owner->line.first();
  Sequence* const sequence = request->line.first();
  Erase(sequence);
  // Those who have more come again after all others.
  if (!request->line.empty()) {
    owner->line.Remove(request);
    owner->line.Append(request);
  }
  if (!owner->line.empty()) {
    line_.Remove(owner);
    line_.Append(owner);
  }
  return sequence;
}

}  // namespace tutti::coordinator
