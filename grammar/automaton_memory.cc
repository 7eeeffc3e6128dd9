#include <algorithm>
#include <utility>

#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {

Automaton::Place::Place(Automaton* automaton, StateId state) : automaton_(automaton) {
  if (automaton->free_places_.empty()) {
    index_ = static_cast<uint32_t>(automaton->places_.size());
    automaton->places_.push_back(state);
  } else {
    index_ = automaton->free_places_.back();
    automaton->free_places_.pop_back();
    automaton->places_[index_] = state;
  }
}

Automaton::Place::Place(const Place& other) {
  if (other.automaton_ != nullptr) *this = Place(other.automaton_, other.state());
}

Automaton::Place::Place(Place&& other) noexcept
    : automaton_(std::exchange(other.automaton_, nullptr)), index_(other.index_) {}

Automaton::Place& Automaton::Place::operator=(Place other) noexcept {
  std::swap(automaton_, other.automaton_);
  std::swap(index_, other.index_);
  return *this;
}

Automaton::Place::~Place() {
  if (automaton_ == nullptr) return;
  automaton_->places_[index_] = kDead;
  automaton_->free_places_.push_back(index_);
}

class Automaton::Mover {
 public:
  explicit Mover(Automaton* automaton)
      : automaton_(*automaton),
        returns_(std::move(automaton->returns_)),
        sets_(std::move(automaton->sets_)),
        strings_(std::move(automaton->strings_)),
        moved_returns_(returns_->size(), kUnknown) {}

  StateId Move(StateId state) {
    const auto [found, added] = moved_.try_emplace(state, kDead);
    if (!added) return found->second;
    std::vector<Reading> readings;
    for (Reading reading : (*sets_)[state]) {
      reading.returns = MoveReturns(reading.returns);
      const Node& node = automaton_.graph_.nodes[reading.node];
      if (node.kind == NodeKind::kString && strings_[node.arg] != nullptr) {
        reading.a = automaton_.StatesOf(node.arg).Adopt(*strings_[node.arg], reading.a);
      }
      readings.push_back(reading);
    }
    std::sort(readings.begin(), readings.end());
    return found->second = automaton_.Intern(readings);
  }

 private:
  uint32_t MoveReturns(uint32_t returns) {
    // Those returned to first; a loop, because texts nest as deep as they like.
    std::vector<uint32_t> work = {returns};
    while (!work.empty()) {
      const uint32_t set = work.back();
      bool ready = true;
      if (moved_returns_[set] == kUnknown) {
        std::vector<Return> moved((*returns_)[set].begin(), (*returns_)[set].end());
        for (Return& to : moved) {
          if (automaton_.graph_.nodes[to.node].kind == NodeKind::kEnd) continue;
          if (moved_returns_[to.returns] == kUnknown) {
            work.push_back(to.returns);
            ready = false;
          } else {
            to.returns = moved_returns_[to.returns];
          }
        }
        if (!ready) continue;
        std::sort(moved.begin(), moved.end());
        moved_returns_[set] = automaton_.InternReturns(moved);
      }
      work.pop_back();
    }
    return moved_returns_[returns];
  }

  Automaton& automaton_;
  const std::unique_ptr<Interned<Return>> returns_;
  const std::unique_ptr<Interned<Reading>> sets_;
  const std::vector<std::unique_ptr<StringStates>> strings_;
  std::vector<uint32_t> moved_returns_;
  absl::flat_hash_map<StateId, StateId> moved_;
};

void Automaton::Clear() {
  returns_ = std::make_unique<Interned<Return>>();
  depths_ = {};
  sets_ = std::make_unique<Interned<Reading>>();
  states_ = std::vector<State>();
  strings_.clear();
  strings_.resize(graph_.strings.size());
  alike_returns_ = {};
  alike_characters_ = {};
  families_ = {};
  masks_ = {};
  table_bytes_ = 0;
  mask_bytes_ = 0;
  string_bytes_ = 0;
  Intern({});  // kDead
}

absl::Status Automaton::Forget() {
  ++forgotten_;
  {
    Mover mover(this);
    Clear();
    for (StateId& state : places_) state = mover.Move(state);
  }
  work_ = 0;
  bytes_max_ = std::clamp(2 * bytes(), kAutomatonBytesMax, 2 * kAutomatonBytesMax);
  if (bytes() <= bytes_max_) return absl::OkStatus();
  return absl::ResourceExhaustedError("the texts nest too deep for what a grammar may hold");
}

size_t Automaton::bytes() const {
  return sets_->bytes() + returns_->bytes() + table_bytes_ + mask_bytes_ + string_bytes_ +
         states_.capacity() * sizeof(State) + depths_.capacity() * 2 + places_.capacity() * 8 +
         (alike_returns_.capacity() + alike_characters_.capacity()) * 16 +
         families_.capacity() * (sizeof(FamilyReach) + 16);
}

absl::Status Automaton::BeginOperation() {
  work_ = 0;
  look_at_ = kWorkBetweenLooks;
  is_late_ = false;
  touched_.BeginOperation();
  return bytes() - mask_bytes_ > bytes_max_ ? Forget() : absl::OkStatus();
}

}  // namespace tutti::grammar
