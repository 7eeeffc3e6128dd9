// The automaton of a grammar, made as it is walked: states are sets of readings in the grammar.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/clock.h"
#include "base/status.h"
#include "grammar/grammar.h"
#include "grammar/readings.h"
#include "grammar/token_mask.h"
#include "grammar/token_trie.h"
#include "grammar/touched.h"
#include "grammar/transitions.h"

namespace tutti::grammar {

// The class is in five files, because what is reached without a byte (automaton_closure.cc),
// readings in strings (automaton_strings.cc), masks (automaton_mask.cc) and what is forgotten
// (automaton_memory.cc) are matters of their own.
//
// What it holds is only remembered: when that becomes too much, it forgets all but what somebody
// is at (Place), and states have other numbers afterwards.  Thread: one.
class Automaton {
 public:
  using StateId = uint32_t;
  static constexpr StateId kDead = 0;

  // A state that somebody is at, which is kept. Copies keep it too.  Outlived by the automaton.
  class Place {
   public:
    Place() = default;
    Place(Automaton* automaton, StateId state);
    Place(const Place& other);
    Place(Place&& other) noexcept;
    Place& operator=(Place other) noexcept;
    ~Place();

    // What its number is now.  REQUIRES: made of a state
    StateId state() const { return automaton_->places_[index_]; }

   private:
    Automaton* automaton_ = nullptr;
    uint32_t index_ = 0;
  };

  Automaton(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> tokens);

  // Operations end at this time of their thread (ThreadTime), with Aborted and nothing changed that
  // anybody can see: they would take longer than whoever asked can wait, and may be begun again.
  // Nothing: when they are done.
  void EndAt(std::optional<Duration> end) { end_at_ = end; }

  // Begins an operation of a matcher: sets its work to zero, and forgets if there is too much.
  // Until the next one states keep their numbers.
  // Errors: ResourceExhausted where what is kept alone is too much.
  absl::Status BeginOperation();

  // Errors of all of these: ResourceExhausted when the operation needs more work than
  // kOperationWorkMax, or more memory than it may; that is where the grammar is ambiguous beyond
  // measure. Aborted: EndAt.
  absl::StatusOr<StateId> Start();
  // kDead: no text goes on like this.
  absl::StatusOr<StateId> Step(StateId state, uint8_t byte);
  // The tokens that may come next. Valid until the next operation.
  absl::StatusOr<const TokenMask*> Mask(StateId state);

  // Whether the text may end here.
  bool IsComplete(StateId state) const { return states_[state].complete; }

  const TokenTrie& tokens() const { return *tokens_; }
  // Units spent since the operation began, and bytes held.
  int64_t work() const { return work_; }
  size_t bytes() const;
  // How often it has forgotten.
  uint64_t forgotten() const { return forgotten_; }

 private:
  static constexpr StateId kUnknown = Transitions::kUnknown;
  struct State {
    Transitions next;
    Touch touch;               // of bytes
    StateId alike = kUnknown;  // a state with the same mask
    uint32_t mask = 0;         // in masks_, and one more; 0: not made
    bool complete = false;
  };
  // How many bytes of a family a state takes, or not, as far as it is known; and what that took.
  struct FamilyReach {
    uint32_t most = 0;
    int64_t cost = 0;
    uint64_t counted_in = 0;  // the last operation
  };

  // Completes a set of readings by those that are reached without a byte.
  class Closure;
  // Copies what is kept from what was held before.
  class Mover;

  void Clear();
  absl::Status Forget();
  bool Exhausted();
  absl::Status ExhaustedError() const;
  StateId Intern(std::span<const Reading> readings);
  uint32_t InternReturns(std::span<const Return> returns);
  // The readings that take a byte, and the end, of `readings` and of what is reached from them
  // without a byte; in order.
  std::vector<Reading> Close(const std::vector<Reading>& readings);

  // Counts a step that is remembered, the first time in an operation, as if it were not.
  void CountStep(StateId state, uint8_t byte);
  // Whether the reading, behind a byte, is one that takes another and nothing else.
  bool TakesByte(const Reading& reading) const;
  // False: it does not take the byte. Costs next to nothing.
  bool MayTake(const Reading& reading, uint8_t byte) const;
  std::optional<Reading> StepReading(const Reading& reading, uint8_t byte);
  std::optional<Reading> StepString(const Node& node, Reading reading, uint8_t byte);
  std::optional<Reading> StepFree(const Node& node, Reading reading, uint8_t byte) const;
  std::optional<Reading> StepKey(const Node& node, Reading reading, uint8_t byte) const;
  std::optional<Reading> StepClass(const Node& node, const Reading& reading, uint8_t byte) const;
  // Whether one of the characters that are possible leads on.
  bool SomeLeadsOn(uint32_t string, const Reading& reading, const PossibleCharacters& possible);
  // A character under way that is alike: what completes it is of the same class, whatever it is.
  DecoderState AlikeCharacter(uint32_t string, DecoderState state,
                              const PossibleCharacters& possible);
  uint32_t StepCharacter(uint32_t string, uint32_t state, uint32_t character_class);
  // The same, adding all that it takes to `cost`, also where it was looked at before.
  uint32_t StepCharacterFor(uint32_t string, uint32_t state, uint32_t character_class,
                            int64_t* cost);
  bool AcceptsString(uint32_t string, uint32_t state);
  StringStates& StatesOf(uint32_t string);
  const CharClasses& ClassesOf(uint32_t string) const;

  Reading Alike(Reading reading);
  uint32_t AlikeReturns(uint32_t returns);
  StateId AlikeState(StateId state);

  // How many characters a plain token may have and be allowed in `state` unseen, because a string
  // goes on there whatever comes. `alone`: there are only such strings.
  size_t PlainCharacters(StateId state, bool* alone);
  // Whether all texts of at most `bytes` bytes of a family lead on from the state; false also where
  // that is not seen soon.
  bool TakesFamily(StateId state, ByteFamily family, size_t bytes);
  // How many of them, as far as `bytes`; 255: any number.
  uint32_t StringReach(const Reading& reading, ByteFamily family, size_t bytes, int64_t* cost);
  uint32_t FreeReach(const Reading& reading, ByteFamily family, size_t bytes) const;
  absl::Status Walk(StateId state, const TokenTrie::Part& part, std::vector<uint32_t>* mask);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTrie> tokens_;
  const Graph& graph_;
  std::unique_ptr<Interned<Return>> returns_;
  std::vector<uint16_t> depths_;  // of returns_: open calls
  std::unique_ptr<Interned<Reading>> sets_;
  std::vector<State> states_;  // numbered as sets_
  std::vector<std::unique_ptr<StringStates>> strings_;
  absl::flat_hash_map<uint32_t, uint32_t> alike_returns_;
  absl::flat_hash_map<uint64_t, DecoderState> alike_characters_;  // by string, class and what lacks
  // By state and family.
  absl::flat_hash_map<uint64_t, FamilyReach> families_;
  std::vector<TokenMask> masks_;
  std::vector<StateId> places_;  // of Places
  std::vector<uint32_t> free_places_;
  absl::flat_hash_set<Reading> seen_;  // of the closure under way
  size_t table_bytes_ = 0;
  size_t mask_bytes_ = 0;
  size_t string_bytes_ = 0;
  size_t bytes_max_;
  // Of the operation: a function of the grammar, the vocabulary and the text, and not of what is
  // remembered, so that whether it is too much is one, too.
  int64_t work_ = 0;
  int64_t look_at_ = 0;  // the work at which the clock is looked at again
  bool is_late_ = false;
  std::optional<Duration> end_at_;
  Touched touched_;
  uint64_t forgotten_ = 0;
};

}  // namespace tutti::grammar
