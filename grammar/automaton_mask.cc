#include <algorithm>

#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {

Reading Automaton::Alike(Reading reading) {
  const Node& node = graph_.nodes[reading.node];
  switch (node.kind) {
    case NodeKind::kString:
      reading.c = static_cast<uint32_t>(graph_.strings[node.arg].machine.AlikeLength(reading.c));
      break;
    case NodeKind::kNumber: {
      const NumberMachine::State alike =
          graph_.numbers[node.arg].Alike({reading.a, uint64_t{reading.c} << 32 | reading.b});
      reading.a = alike.phase;
      reading.b = static_cast<uint32_t>(alike.value);
      reading.c = static_cast<uint32_t>(alike.value >> 32);
      break;
    }
    case NodeKind::kText:
    case NodeKind::kGap:
      if (node.counted_array > 0) {
        reading.a = graph_.arrays[node.counted_array - 1].AlikeCount(reading.a);
      }
      break;
    default:
      break;
  }
  reading.returns = AlikeReturns(reading.returns);
  return reading;
}

uint32_t Automaton::AlikeReturns(uint32_t returns) {
  // Those returned to first; a loop, because texts nest as deep as they like.
  std::vector<uint32_t> work = {returns};
  while (!work.empty()) {
    const uint32_t set = work.back();
    if (alike_returns_.contains(set)) {
      work.pop_back();
      continue;
    }
    bool ready = true;
    std::vector<Return> alike = returns_[set];
    for (Return& to : alike) {
      const Node& node = graph_.nodes[to.node];
      if (node.kind == NodeKind::kEnd) continue;
      const auto found = alike_returns_.find(to.returns);
      if (found == alike_returns_.end()) {
        work.push_back(to.returns);
        ready = false;
        continue;
      }
      to.returns = found->second;
      if (node.kind == NodeKind::kArray) to.a = graph_.arrays[node.arg].AlikeCount(to.a);
      if (node.kind == NodeKind::kRepeat) {
        const RepeatNode& repeat = graph_.repeats[node.arg];
        to.a = static_cast<uint32_t>(AlikeCount(
            to.a, repeat.min, repeat.max == kEndless ? INT64_MAX : repeat.max, kTokenBytesMax));
      }
    }
    if (!ready) continue;
    work.pop_back();
    ++work_;
    std::sort(alike.begin(), alike.end());
    alike.erase(std::unique(alike.begin(), alike.end()), alike.end());
    const uint32_t number = returns_.Add(std::move(alike));
    alike_returns_[set] = number;
    alike_returns_[number] = number;
  }
  return alike_returns_[returns];
}

Automaton::StateId Automaton::AlikeState(StateId state) {
  if (states_[state].alike != kUnknown) return states_[state].alike;
  std::vector<Reading> readings;
  for (const Reading& reading : *states_[state].readings) readings.push_back(Alike(reading));
  work_ += static_cast<int64_t>(readings.size());
  std::sort(readings.begin(), readings.end());
  readings.erase(std::unique(readings.begin(), readings.end()), readings.end());
  const StateId alike = Intern(std::move(readings));
  states_[alike].alike = alike;
  states_[state].alike = alike;
  return alike;
}

size_t Automaton::PlainCharacters(StateId state, bool* alone) {
  size_t most = 0;
  *alone = true;
  for (const Reading& reading : *states_[state].readings) {
    const Node& node = graph_.nodes[reading.node];
    size_t characters = 0;
    if (node.kind == NodeKind::kString && reading.b == 0) {
      const StringMachine& machine = graph_.strings[node.arg].machine;
      if (machine.explored() == nullptr &&
          (machine.parts().empty() || StatesOf(node.arg).AllowsAnything(reading.a, &work_))) {
        characters = static_cast<size_t>(machine.max() - reading.c);
      }
    }
    *alone &= characters > 0;
    most = std::max(most, characters);
  }
  return most;
}

absl::Status Automaton::Walk(StateId state, const TokenTrie::Part& part,
                             std::vector<uint32_t>* mask) {
  std::vector<StateId> path(kTokenBytesMax + 1, kDead);
  path[0] = state;
  for (uint32_t i = 0; i < part.nodes.size();) {
    const TokenTrie::Node& node = part.nodes[i];
    const StateId from = path[node.depth - 1];
    const StateId* const known = states_[from].next.get();
    StateId next = known == nullptr ? kUnknown : known[node.byte];
    if (next == kUnknown) {
      TUTTI_ASSIGN_OR_RETURN(next, Step(from, node.byte));
    }
    if (next == kDead) {
      i = node.behind;
      continue;
    }
    path[node.depth] = next;
    for (uint32_t t = node.ids_begin; t < node.ids_end; ++t) {
      const auto id = static_cast<uint32_t>(part.ids[t]);
      (*mask)[id / 32] |= 1u << (id % 32);
    }
    ++i;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const uint32_t>> Automaton::Mask(StateId state) {
  const StateId alike = AlikeState(state);
  if (states_[alike].mask != nullptr) return std::span<const uint32_t>(*states_[alike].mask);
  std::vector<uint32_t> mask(tokens_->words());
  bool alone = false;
  const size_t plain = PlainCharacters(alike, &alone);
  if (plain > 0 && tokens_->plain_characters_max() > 0) mask = tokens_->PlainUpTo(plain);
  if (plain < tokens_->plain_characters_max() && !(alone && plain > 0)) {
    TUTTI_RETURN_IF_ERROR(Walk(alike, tokens_->plain(), &mask));
  }
  TUTTI_RETURN_IF_ERROR(Walk(alike, tokens_->others(), &mask));
  if (states_[alike].complete) {
    for (const TokenId id : tokens_->ends()) mask[id / 32] |= 1u << (id % 32);
  }
  if (mask_bytes_ > kMaskBytesMax) {
    for (State& other : states_) other.mask.reset();
    mask_bytes_ = 0;
  }
  mask_bytes_ += 4 * mask.size();
  states_[alike].mask = std::make_unique<std::vector<uint32_t>>(std::move(mask));
  return std::span<const uint32_t>(*states_[alike].mask);
}

}  // namespace tutti::grammar
