#include <algorithm>

#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

// Any number of bytes of a family.
constexpr uint32_t kAnyReach = 255;
// So many are looked for.
constexpr size_t kReachBytes = 32;
// Steps that are taken for that.
constexpr int kReachStepsMax = 512;

}  // namespace

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
    std::vector<Return> alike((*returns_)[set].begin(), (*returns_)[set].end());
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
    std::sort(alike.begin(), alike.end());
    alike.erase(std::unique(alike.begin(), alike.end()), alike.end());
    const uint32_t number = InternReturns(alike);
    alike_returns_[set] = number;
    alike_returns_[number] = number;
  }
  return alike_returns_[returns];
}

Automaton::StateId Automaton::AlikeState(StateId state) {
  work_ += static_cast<int64_t>((*sets_)[state].size());
  if (states_[state].alike != kUnknown) return states_[state].alike;
  std::vector<Reading> readings;
  for (const Reading& reading : (*sets_)[state]) readings.push_back(Alike(reading));
  std::sort(readings.begin(), readings.end());
  readings.erase(std::unique(readings.begin(), readings.end()), readings.end());
  const StateId alike = Intern(readings);
  states_[alike].alike = alike;
  states_[state].alike = alike;
  return alike;
}

size_t Automaton::PlainCharacters(StateId state, bool* alone) {
  size_t most = 0;
  *alone = true;
  for (const Reading& reading : (*sets_)[state]) {
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

bool Automaton::TakesFamily(StateId state, ByteFamily family, size_t bytes) {
  const std::span<const Reading> readings = (*sets_)[state];
  if (readings.size() > 4) return false;
  const auto [found, is_new] =
      families_.try_emplace(uint64_t{state} << 8 | static_cast<uint8_t>(family));
  FamilyReach reach = found->second;
  if (is_new) {
    reach.cost = 2;
    for (const Reading& reading : readings) {
      const Node& node = graph_.nodes[reading.node];
      uint32_t own = 0;
      if (node.kind == NodeKind::kString) {
        own = StringReach(reading, family, kReachBytes, &reach.cost);
      } else if (node.kind == NodeKind::kFree) {
        own = FreeReach(reading, family, kReachBytes);
      }
      reach.most = std::max(reach.most, own);
    }
  }
  if (reach.counted_in != touched_.operation()) work_ += reach.cost;
  reach.counted_in = touched_.operation();
  families_[uint64_t{state} << 8 | static_cast<uint8_t>(family)] = reach;
  return bytes <= reach.most;
}

uint32_t Automaton::StringReach(const Reading& reading, ByteFamily family, size_t bytes,
                                int64_t* cost) {
  const uint32_t string = graph_.nodes[reading.node].arg;
  const StringMachine& machine = graph_.strings[string].machine;
  const CharClasses& classes = ClassesOf(string);
  int64_t length = reading.c;
  int steps = 0;
  std::vector<uint32_t> at = {reading.a};
  std::vector<uint32_t> next;
  // Takes all characters of some ranges; false: one of them leads nowhere.
  const auto take = [&](std::span<const CharRange> ranges) {
    next.clear();
    ++length;
    *cost += static_cast<int64_t>(at.size());
    bool all = true;
    for (const uint32_t state : at) {
      for (const CharRange& range : ranges) {
        all &= !classes.Any(range.first, range.last, [&](uint32_t c) {
          ++steps;
          const uint32_t after = StepCharacterFor(string, state, c, cost);
          if (std::find(next.begin(), next.end(), after) != next.end()) return false;
          next.push_back(after);
          return steps > kReachStepsMax || !machine.Alive(after, length);
        });
        if (!all) return false;
      }
    }
    return true;
  };
  if (reading.b != 0) {
    if (AnyContinuations(reading.b) == 0) return 0;
    const PossibleCharacters possible = Possible(reading.b);
    if (!take(std::span(possible.ranges).first(static_cast<size_t>(possible.count)))) return 0;
    at.swap(next);
  }
  const bool endless = machine.max() == StringMachine::kUnbounded && length >= machine.min();
  for (uint32_t reach = 0; reach < bytes; ++reach) {
    if (!take(CharactersOf(family))) return reach;
    if (endless && next == at) return kAnyReach;
    at.swap(next);
  }
  return static_cast<uint32_t>(bytes);
}

uint32_t Automaton::FreeReach(const Reading& reading, ByteFamily family, size_t bytes) const {
  const TextSearch& search = graph_.frees[graph_.nodes[reading.node].arg].search;
  std::vector<uint8_t> own;  // bytes of the family, one of each class
  std::vector<bool> seen(256);
  for (const CharRange& range : CharactersOf(family)) {
    for (uint32_t c = range.first; c <= std::min<uint32_t>(range.last, 0xFF); ++c) {
      const uint8_t of = search.ClassOf(static_cast<uint8_t>(c));
      if (!seen[of]) own.push_back(static_cast<uint8_t>(c));
      seen[of] = true;
      // A character that is begun must be one that ends none of the strings.
      if (c >= 0x80 && of != 0) return 0;
    }
  }
  std::vector<uint32_t> at = {reading.a};
  for (uint32_t reach = 0; reach < bytes; ++reach) {
    std::vector<uint32_t> next;
    for (const uint32_t state : at) {
      for (const uint8_t byte : own) {
        const uint32_t after = search.Step(state, byte);
        if (after == TextSearch::kFound) return reach;
        if (std::find(next.begin(), next.end(), after) == next.end()) next.push_back(after);
      }
    }
    if (next.size() > 32) return reach;
    std::sort(next.begin(), next.end());
    if (next == at) return kAnyReach;
    at = std::move(next);
  }
  return static_cast<uint32_t>(bytes);
}

absl::Status Automaton::Walk(StateId state, const TokenTrie::Part& part,
                             std::vector<uint32_t>* mask) {
  // Below fewer nodes than these each is looked at.
  constexpr uint32_t kManyNodes = 8;
  std::vector<StateId> path(kTokenBytesMax + 1, kDead);
  path[0] = state;
  for (uint32_t i = 0; i < part.size();) {
    const TokenTrie::Node& node = part.nodes[i];
    const StateId from = path[node.depth - 1];
    TUTTI_ASSIGN_OR_RETURN(const StateId next, Step(from, node.byte));
    if (next == kDead) {
      i = node.behind;
      continue;
    }
    path[node.depth] = next;
    const bool all = node.behind > i + kManyNodes && node.below != ByteFamily::kOthers &&
                     TakesFamily(next, node.below, node.height);
    if (work_ > kOperationWorkMax) return ExhaustedError();
    const uint32_t behind = all ? node.behind : i + 1;
    for (uint32_t t = node.ids_begin; t < part.nodes[behind].ids_begin; ++t) {
      const auto id = static_cast<uint32_t>(part.ids[t]);
      (*mask)[id / 32] |= 1u << (id % 32);
    }
    i = behind;
  }
  return absl::OkStatus();
}

absl::StatusOr<const TokenMask*> Automaton::Mask(StateId state) {
  const StateId alike = AlikeState(state);
  if (states_[alike].mask != 0) return &masks_[states_[alike].mask - 1];
  std::vector<uint32_t> mask(tokens_->words());
  bool alone = false;
  const size_t plain = PlainCharacters(alike, &alone);
  if (plain > 0 && tokens_->plain_characters_max() > 0) mask = tokens_->PlainUpTo(plain);
  if (Exhausted()) return ExhaustedError();
  if (plain < tokens_->plain_characters_max() && !(alone && plain > 0)) {
    TUTTI_RETURN_IF_ERROR(Walk(alike, tokens_->plain(), &mask));
  }
  TUTTI_RETURN_IF_ERROR(Walk(alike, tokens_->others(), &mask));
  if (states_[alike].complete) {
    for (const TokenId id : tokens_->ends()) mask[id / 32] |= 1u << (id % 32);
  }
  if (mask_bytes_ > kMaskBytesMax) {
    for (State& other : states_) other.mask = 0;
    masks_.clear();
    mask_bytes_ = 0;
  }
  masks_.emplace_back(mask);
  mask_bytes_ += masks_.back().bytes();
  states_[alike].mask = static_cast<uint32_t>(masks_.size());
  return &masks_.back();
}

}  // namespace tutti::grammar
