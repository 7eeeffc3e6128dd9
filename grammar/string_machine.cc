#include "grammar/string_machine.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

// States looked at to learn that nothing leads into the dead one.
constexpr size_t kAnythingStatesMax = 64;
// States times lengths looked at.
constexpr size_t kLengthWorkMax = 8'000'000;

CharClasses ClassesOf(const std::vector<StringPart>& parts) {
  std::vector<const CharSet*> sets;
  for (const StringPart& part : parts) {
    for (const CharSet& set : part.program->sets()) sets.push_back(&set);
  }
  return CharClasses(sets);
}

}  // namespace

StringStates::StringStates(std::vector<StringPart> parts)
    : parts_(std::move(parts)), classes_(ClassesOf(parts_)) {
  scratch_.resize(parts_.size());
  part_states_.resize(parts_.size());
  part_index_.resize(parts_.size());
  in_set_.resize(parts_.size());
  for (size_t p = 0; p < parts_.size(); ++p) {
    const std::vector<CharSet>& sets = parts_[p].program->sets();
    for (uint32_t c = 0; c < classes_.size(); ++c) {
      std::vector<bool>& in = in_set_[p].emplace_back();
      for (const CharSet& set : sets) in.push_back(set.Contains(classes_.Representative(c)));
      bytes_ += sets.size() / 8 + sizeof(in);
    }
  }
  states_.emplace_back().next.assign(classes_.size(), kDead);
  states_.front().anything = 0;
  std::vector<uint32_t> start;
  for (size_t p = 0; p < parts_.size(); ++p) {
    start.push_back(InternPart(p, parts_[p].program->Start()));
  }
  if (Intern(std::move(start)) == kDead) {
    State& state = states_.emplace_back();  // kStart, from which nothing leads on
    state.next.assign(classes_.size(), kDead);
    state.anything = 0;
  }
}

uint32_t StringStates::InternPart(size_t part, RegexProgram::Reached reached) {
  std::vector<uint32_t> key = reached.at;
  key.push_back(reached.accepts ? 1 : 0);
  const auto [found, added] =
      part_index_[part].try_emplace(key, static_cast<uint32_t>(part_states_[part].size()));
  if (added) {
    bytes_ += 8 * key.size() + 160;
    const bool universal = parts_[part].program->IsUniversal(reached);
    part_states_[part].push_back({std::move(reached), universal});
  }
  return found->second;
}

uint32_t StringStates::Intern(std::vector<uint32_t> parts) {
  bool accepts = true;
  for (size_t p = 0; p < parts.size(); ++p) {
    const PartState& state = part_states_[p][parts[p]];
    const bool lost =
        parts_[p].matches ? state.reached.at.empty() && !state.reached.accepts : state.universal;
    if (lost) return kDead;
    accepts &= state.reached.accepts == parts_[p].matches;
  }
  const auto [found, added] = index_.try_emplace(parts, static_cast<uint32_t>(states_.size()));
  if (added) {
    bytes_ += 12 * parts.size() + 4 * classes_.size() + 160;
    states_.push_back({std::move(parts), std::vector<uint32_t>(classes_.size(), kUnknown), accepts,
                       static_cast<int8_t>(parts_.empty() ? 1 : -1)});
  }
  return found->second;
}

uint32_t StringStates::Step(uint32_t state, uint32_t character_class, int64_t* work) {
  ++*work;
  const uint32_t known = states_[state].next[character_class];
  if (known != kUnknown) return known;
  std::vector<uint32_t> parts;
  for (size_t p = 0; p < parts_.size(); ++p) {
    const RegexProgram::Reached& reached = part_states_[p][states_[state].parts[p]].reached;
    *work += static_cast<int64_t>(reached.at.size());
    parts.push_back(InternPart(
        p, parts_[p].program->Step(reached.at, in_set_[p][character_class], &scratch_[p])));
  }
  const uint32_t next = Intern(std::move(parts));
  states_[state].next[character_class] = next;
  return next;
}

bool StringStates::AllowsAnything(uint32_t state, int64_t* work) {
  if (states_[state].anything >= 0) return states_[state].anything == 1;
  // Finitely many names never hold up a text that may be longer.
  if (parts_.size() == 1 && parts_.front().is_names && !parts_.front().matches) return true;
  std::vector<uint32_t> reached = {state};
  std::set<uint32_t> seen = {state};
  bool anything = classes_.size() <= kAnythingStatesMax;
  for (size_t i = 0; i < reached.size() && anything; ++i) {
    if (states_[reached[i]].anything == 1) continue;
    for (uint32_t c = 0; c < classes_.size() && anything; ++c) {
      const uint32_t next = Step(reached[i], c, work);
      if (seen.insert(next).second) reached.push_back(next);
      anything =
          next != kDead && states_[next].anything != 0 && reached.size() <= kAnythingStatesMax;
    }
  }
  states_[state].anything = anything ? 1 : 0;
  if (anything) {
    for (const uint32_t other : reached) states_[other].anything = 1;
  }
  return anything;
}

absl::StatusOr<StringMachine> StringMachine::Create(std::vector<StringPart> parts, int64_t min,
                                                    int64_t max, int64_t* work) {
  StringMachine machine;
  machine.parts_ = std::move(parts);
  machine.min_ = min;
  machine.max_ = max;
  if (min > max) return absl::InvalidArgumentError("no text is as long as it must be");
  const bool bounded = min > 0 || max != kUnbounded;
  const bool single = machine.parts_.size() == 1;
  // Without names that finitely many texts are taken from, every beginning can go on for ever.
  const bool open =
      machine.parts_.empty() || (single && !machine.parts_.front().matches &&
                                 machine.parts_.front().is_names && max == kUnbounded);
  if (open || (single && machine.parts_.front().matches && !bounded)) {
    if (!machine.parts_.empty() && machine.parts_.front().matches) {
      const RegexProgram::Reached start = machine.parts_.front().program->Start();
      if (start.at.empty() && !start.accepts) return absl::InvalidArgumentError("no text matches");
    }
    return machine;
  }
  auto states = std::make_shared<StringStates>(machine.parts_);
  TUTTI_RETURN_IF_ERROR(Explore(states.get(), work));
  machine.explored_ = states;
  TUTTI_RETURN_IF_ERROR(machine.FindLengths(*states, work));
  if (!machine.Alive(StringStates::kStart, 0)) {
    return absl::InvalidArgumentError("no text matches");
  }
  return machine;
}

absl::Status StringMachine::Explore(StringStates* states, int64_t* work) {
  const uint32_t classes = states->classes().size();
  const int64_t most = *work + static_cast<int64_t>(10 * kExploredStepsMax);
  for (uint32_t state = 0; state < states->size(); ++state) {
    for (uint32_t c = 0; c < classes; ++c) states->Step(state, c, work);
    if (states->size() > kExploredStatesMax ||
        static_cast<size_t>(state) * classes > kExploredStepsMax || *work > most) {
      return absl::ResourceExhaustedError(
          "patterns, lengths and other names meet here in an automaton that is too large");
    }
  }
  for (uint32_t state = 0; state < states->size(); ++state) states->AllowsAnything(state, work);
  return absl::OkStatus();
}

absl::Status StringMachine::FindLengths(const StringStates& states, int64_t* work) {
  std::vector<std::vector<uint32_t>> next(states.size());
  size_t edges = 1;
  for (uint32_t s = 1; s < states.size(); ++s) {
    std::set<uint32_t> after;
    for (uint32_t c = 0; c < states.classes().size(); ++c) after.insert(states.Known(s, c));
    after.erase(StringStates::kDead);
    next[s].assign(after.begin(), after.end());
    edges += after.size();
  }
  std::vector<bool> now(states.size());
  for (uint32_t s = 1; s < states.size(); ++s) now[s] = states.Accepts(s);
  absl::flat_hash_map<std::vector<bool>, size_t> seen;
  const size_t lengths_max = std::min(kExploredLengthsMax, kLengthWorkMax / edges);
  for (;;) {
    const auto [found, added] = seen.try_emplace(now, ends_after_.size());
    if (!added) {
      cycle_begin_ = found->second;
      cycle_ = ends_after_.size() - cycle_begin_;
      return absl::OkStatus();
    }
    ends_after_.push_back(now);
    *work += static_cast<int64_t>(edges / 8);
    if (static_cast<int64_t>(ends_after_.size()) > max_) return absl::OkStatus();
    if (ends_after_.size() > lengths_max) {
      return absl::ResourceExhaustedError("a pattern and a length meet here that take too long");
    }
    std::vector<bool> before(states.size());
    for (uint32_t s = 1; s < states.size(); ++s) {
      before[s] = std::any_of(next[s].begin(), next[s].end(), [&](uint32_t t) { return now[t]; });
    }
    now = std::move(before);
  }
}

bool StringMachine::Alive(uint32_t state, int64_t length) const {
  if (state == StringStates::kDead || length > max_) return false;
  if (explored_ == nullptr) return true;
  int64_t from = std::max<int64_t>(min_ - length, 0);
  int64_t to = max_ == kUnbounded ? kUnbounded : max_ - length;
  if (cycle_ > 0 && from > static_cast<int64_t>(cycle_begin_)) {
    const auto begin = static_cast<int64_t>(cycle_begin_);
    const int64_t shift = (from - begin) / static_cast<int64_t>(cycle_);
    from -= shift * static_cast<int64_t>(cycle_);
    if (to != kUnbounded) to -= shift * static_cast<int64_t>(cycle_);
  }
  const auto known = static_cast<int64_t>(ends_after_.size());
  for (int64_t k = from; k <= to && k < known + static_cast<int64_t>(cycle_); ++k) {
    const int64_t at = k < known ? k : k - static_cast<int64_t>(cycle_);
    if (ends_after_[static_cast<size_t>(at)][state]) return true;
  }
  return false;
}

int64_t StringMachine::AlikeLength(int64_t length) const {
  if (max_ == kUnbounded && length >= min_) return min_;
  if (explored_ != nullptr && cycle_ != 1) return length;
  return AlikeCount(length, min_, max_, static_cast<int64_t>(kTokenBytesMax + cycle_begin_));
}

int64_t AlikeCount(int64_t count, int64_t min, int64_t max, int64_t far) {
  if (count < min) return min - count > far ? min - far : count;
  return max - count > far ? std::max(min, max - far) : count;
}

}  // namespace tutti::grammar
