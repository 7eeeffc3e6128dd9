#include "grammar/string_machine.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <utility>

#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

// States looked at to learn that nothing leads into the dead one.
constexpr size_t kAnythingStatesMax = 64;
// States times lengths that are remembered, a byte each.
constexpr size_t kLengthEntriesMax = 8'000'000;
// Cuts of character sets, 5 ns each; a machine's are made once.
constexpr int64_t kClassWorkMax = 400'000;

// Their sets cut each other: that takes the square of them.
absl::StatusOr<std::shared_ptr<const CharClasses>> ClassesOf(const std::vector<StringPart>& parts,
                                                             BuildWork* work) {
  std::vector<const CharSet*> sets;
  size_t ranges = 0;
  for (const StringPart& part : parts) {
    for (const CharSet& set : part.program->sets()) {
      sets.push_back(&set);
      ranges += set.ranges().size();
    }
  }
  TUTTI_RETURN_IF_ERROR(work->Spend(static_cast<int64_t>(8 + ranges * 5)));
  auto classes = std::make_shared<const CharClasses>(sets, kClassWorkMax);
  work->Add(classes->work() / 4);
  if (classes->work() > kClassWorkMax) {
    return absl::ResourceExhaustedError("classes of characters that cut each other too often");
  }
  return classes;
}

}  // namespace

StringStates::StringStates(std::vector<StringPart> parts,
                           std::shared_ptr<const CharClasses> classes)
    : parts_(std::move(parts)), classes_(std::move(classes)) {
  scratch_.resize(parts_.size());
  part_states_.resize(parts_.size());
  part_index_.resize(parts_.size());
  if (classes_->size() <= kClassesOfTableMax) {
    states_.emplace_back().next.assign(classes_->size(), kDead);
  } else {
    states_.emplace_back();
  }
  states_.front().anything = 0;
  std::vector<uint32_t> start;
  for (size_t p = 0; p < parts_.size(); ++p) {
    start.push_back(InternPart(p, parts_[p].program->Start()));
  }
  if (Intern(std::move(start)) == kDead) {
    State& state = states_.emplace_back();  // kStart, from which nothing leads on
    state.next = states_.front().next;
    state.dead = true;
    state.anything = 0;
  }
  states_.front().dead = true;
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
    const bool table = classes_->size() <= kClassesOfTableMax;
    const size_t steps = table ? classes_->size() : 0;
    bytes_ += 12 * parts.size() + 8 * steps + 200;
    State& state = states_.emplace_back();
    state.parts = std::move(parts);
    state.next.assign(steps, kUnknown);
    state.costs.assign(steps, 0);
    state.accepts = accepts;
    state.anything = static_cast<int8_t>(parts_.empty() ? 1 : -1);
  }
  return found->second;
}

uint32_t StringStates::Known(uint32_t state, uint32_t character_class) const {
  const State& from = states_[state];
  if (!from.next.empty()) return from.next[character_class];
  if (from.dead) return kDead;
  const auto found = steps_.find(uint64_t{state} << 32 | character_class);
  return found == steps_.end() ? kUnknown : found->second.next;
}

int64_t StringStates::CostOf(uint32_t state, uint32_t character_class) const {
  const State& from = states_[state];
  if (!from.costs.empty()) return 1 + from.costs[character_class];
  const auto found = steps_.find(uint64_t{state} << 32 | character_class);
  return found == steps_.end() ? 1 : 1 + found->second.cost;
}

uint32_t StringStates::StepOnce(uint32_t state, uint32_t character_class, Touched* touched,
                                int64_t* work) {
  bool first = false;
  if (classes_->size() <= kClassesOfTableMax) {
    first = touched->First(&states_[state].touch, character_class);
  } else {
    if (touched_in_ != touched->operation()) touched_.clear();
    touched_in_ = touched->operation();
    first = touched_.insert(uint64_t{state} << 32 | character_class).second;
  }
  int64_t again = 0;
  return Step(state, character_class, first ? work : &again);
}

uint32_t StringStates::Step(uint32_t state, uint32_t character_class, int64_t* work) {
  const uint32_t known = Known(state, character_class);
  if (known != kUnknown) {
    *work += CostOf(state, character_class);
    return known;
  }
  int64_t cost = 8;
  std::vector<uint32_t> parts;
  const uint32_t character = classes_->Representative(character_class);
  for (size_t p = 0; p < parts_.size(); ++p) {
    const RegexProgram::Reached& reached = part_states_[p][states_[state].parts[p]].reached;
    const int64_t before = scratch_[p].visited;
    RegexProgram::Reached next = parts_[p].program->Step(reached.at, character, &scratch_[p]);
    cost += 8 + (scratch_[p].visited - before) / 2 + static_cast<int64_t>(next.at.size() / 2);
    parts.push_back(InternPart(p, std::move(next)));
  }
  *work += 1 + cost;
  const uint32_t next = Intern(std::move(parts));
  if (!states_[state].next.empty()) {
    states_[state].next[character_class] = next;
    states_[state].costs[character_class] = static_cast<uint32_t>(cost);
  } else {
    steps_.emplace(uint64_t{state} << 32 | character_class,
                   Taken{next, static_cast<uint32_t>(cost)});
    bytes_ += 28;
  }
  return next;
}

uint32_t StringStates::Adopt(const StringStates& other, uint32_t state) {
  if (state == kDead || state == kStart) return state;
  std::vector<uint32_t> parts;
  for (size_t p = 0; p < parts_.size(); ++p) {
    parts.push_back(InternPart(p, other.part_states_[p][other.states_[state].parts[p]].reached));
  }
  return Intern(std::move(parts));
}

bool StringStates::AllowsAnything(uint32_t state, int64_t* work) {
  // Finitely many names never hold up a text that may be longer.
  if (parts_.size() == 1 && parts_.front().is_names && !parts_.front().matches) return true;
  if (states_[state].anything >= 0) {
    *work += states_[state].anything_cost;
    return states_[state].anything == 1;
  }
  // What is known of others would make it shorter, and its cost a matter of what came before.
  int64_t cost = 0;
  std::vector<uint32_t> reached = {state};
  std::set<uint32_t> seen = {state};
  bool anything = classes_->size() <= kAnythingStatesMax;
  for (size_t i = 0; i < reached.size() && anything; ++i) {
    for (uint32_t c = 0; c < classes_->size() && anything; ++c) {
      const uint32_t next = Step(reached[i], c, &cost);
      if (seen.insert(next).second) reached.push_back(next);
      anything = next != kDead && reached.size() <= kAnythingStatesMax && cost <= kOperationWorkMax;
    }
  }
  states_[state].anything = anything ? 1 : 0;
  states_[state].anything_cost = cost;
  *work += cost;
  return anything;
}

absl::StatusOr<StringMachine> StringMachine::Create(std::vector<StringPart> parts, int64_t min,
                                                    int64_t max, BuildWork* work) {
  StringMachine machine;
  machine.parts_ = std::move(parts);
  machine.min_ = min;
  machine.max_ = max;
  if (min > max) return absl::InvalidArgumentError("no text is as long as it must be");
  TUTTI_ASSIGN_OR_RETURN(machine.classes_, ClassesOf(machine.parts_, work));
  const bool bounded = min > 0 || max != kUnbounded;
  const bool single = machine.parts_.size() == 1;
  // Without names that finitely many texts are taken from, every beginning can go on for ever.
  const bool open =
      machine.parts_.empty() || (single && !machine.parts_.front().matches &&
                                 machine.parts_.front().is_names && max == kUnbounded);
  if (open || (single && machine.parts_.front().matches && !bounded)) {
    if (!machine.parts_.empty() && machine.parts_.front().matches) {
      const RegexProgram::Reached& start = machine.parts_.front().program->Start();
      if (start.at.empty() && !start.accepts) return absl::InvalidArgumentError("no text matches");
    }
    return machine;
  }
  auto states = std::make_shared<StringStates>(machine.parts_, machine.classes_);
  TUTTI_RETURN_IF_ERROR(Explore(states.get(), work));
  machine.explored_ = states;
  TUTTI_RETURN_IF_ERROR(machine.FindLengths(*states, work));
  if (!machine.Alive(StringStates::kStart, 0)) {
    return absl::InvalidArgumentError("no text matches");
  }
  return machine;
}

absl::Status StringMachine::Explore(StringStates* states, BuildWork* work) {
  const uint32_t classes = states->classes().size();
  int64_t steps = 0;
  for (uint32_t state = 0; state < states->size(); ++state) {
    const int64_t before = steps;
    for (uint32_t c = 0; c < classes; ++c) states->Step(state, c, &steps);
    TUTTI_RETURN_IF_ERROR(work->Spend(8 + steps - before));
    if (states->size() > kExploredStatesMax || state * size_t{classes} > kExploredStepsMax) {
      return absl::ResourceExhaustedError(
          "patterns, lengths and other names meet here in an automaton that is too large");
    }
  }
  return absl::OkStatus();
}

absl::Status StringMachine::FindLengths(const StringStates& states, BuildWork* work) {
  std::vector<std::vector<uint32_t>> next(states.size());
  size_t edges = 1;
  for (uint32_t s = 1; s < states.size(); ++s) {
    std::vector<uint32_t>& after = next[s];
    for (uint32_t c = 0; c < states.classes().size(); ++c) after.push_back(states.Known(s, c));
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (!after.empty() && after.front() == StringStates::kDead) after.erase(after.begin());
    edges += after.size();
  }
  TUTTI_RETURN_IF_ERROR(
      work->Spend(static_cast<int64_t>(states.size()) * (4 + states.classes().size())));
  std::vector<uint8_t> now(states.size());
  for (uint32_t s = 1; s < states.size(); ++s) now[s] = states.Accepts(s) ? 1 : 0;
  absl::flat_hash_map<std::string, size_t> seen;
  ends_after_.resize(states.size());
  for (;;) {
    const auto [found, added] = seen.try_emplace(std::string(now.begin(), now.end()), lengths_);
    if (!added) {
      cycle_begin_ = found->second;
      cycle_ = lengths_ - cycle_begin_;
      return absl::OkStatus();
    }
    for (uint32_t s = 1; s < states.size(); ++s) {
      if (lengths_ % 64 == 0) ends_after_[s].push_back(0);
      ends_after_[s].back() |= uint64_t{now[s]} << (lengths_ % 64);
    }
    ++lengths_;
    if (static_cast<int64_t>(lengths_) > max_) return absl::OkStatus();
    // What is remembered of each length is bounded as well.
    if (lengths_ > kExploredLengthsMax || lengths_ * states.size() > kLengthEntriesMax) {
      return absl::ResourceExhaustedError("a pattern and a length meet here that take too long");
    }
    TUTTI_RETURN_IF_ERROR(work->Spend(static_cast<int64_t>((edges + states.size()) / 8)));
    std::vector<uint8_t> before(states.size());
    for (uint32_t s = 1; s < states.size(); ++s) {
      for (const uint32_t t : next[s]) before[s] |= now[t];
    }
    now = std::move(before);
  }
}

bool StringMachine::EndsWithin(uint32_t state, int64_t from, int64_t to) const {
  const std::vector<uint64_t>& bits = ends_after_[state];
  for (int64_t at = from; at <= to; at = (at / 64 + 1) * 64) {
    const uint64_t word = bits[static_cast<size_t>(at / 64)] >> (at % 64);
    if (word != 0) return at + std::countr_zero(word) <= to;
  }
  return false;
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
  const auto known = static_cast<int64_t>(lengths_);
  if (EndsWithin(state, from, std::min(to, known - 1))) return true;
  if (cycle_ == 0 || to < known) return false;
  // Those behind what is known are those one round before.
  const auto round = static_cast<int64_t>(cycle_);
  return EndsWithin(state, static_cast<int64_t>(cycle_begin_), std::min(to - round, known - 1));
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
