// The automaton of a grammar, made as it is walked: states are sets of readings in the grammar.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "grammar/grammar.h"
#include "grammar/readings.h"
#include "grammar/token_trie.h"

namespace tutti::grammar {

// The class is in three files, because readings in strings (automaton_strings.cc) and masks
// (automaton_mask.cc) are matters of their own.
//
// What it holds is only remembered: it forgets all when that becomes too much, and states have
// other numbers afterwards.  Thread: one.
class Automaton {
 public:
  using StateId = uint32_t;
  static constexpr StateId kDead = 0;

  Automaton(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> tokens);

  // Begins an operation of a matcher: sets its work to zero, and forgets if there is too much.
  void BeginOperation();
  // Sets the work to zero within an operation: a text is read again, a token as an operation.
  void ContinueOperation() { work_ = 0; }
  // How often it has forgotten; states of before mean nothing.
  uint64_t generation() const { return generation_; }

  // Errors of all of these: ResourceExhausted when the operation needs more work than
  // kOperationWorkMax, or more memory than it may; that is where the grammar is ambiguous beyond
  // measure.
  absl::StatusOr<StateId> Start();
  // kDead: no text goes on like this.
  absl::StatusOr<StateId> Step(StateId state, uint8_t byte);
  // The tokens that may come next, a bit each (TokenTrie). Valid until the next operation.
  absl::StatusOr<std::span<const uint32_t>> Mask(StateId state);

  // Whether the text may end here.
  bool IsComplete(StateId state) const { return states_[state].complete; }

  const TokenTrie& tokens() const { return *tokens_; }
  // Units spent since the operation began, and bytes held.
  int64_t work() const { return work_; }
  size_t bytes() const;

 private:
  static constexpr StateId kUnknown = UINT32_MAX;
  struct State {
    const std::vector<Reading>* readings = nullptr;
    std::unique_ptr<StateId[]> next;  // [256]; null until a step is taken
    std::unique_ptr<std::vector<uint32_t>> mask;
    StateId alike = kUnknown;  // a state with the same mask
    bool complete = false;
  };

  // Completes a set of readings by those that are reached without a byte.
  class Closure;

  void Forget();
  bool Exhausted() const;
  absl::Status ExhaustedError() const;
  StateId Intern(std::vector<Reading> readings);

  // Whether the reading, behind a byte, is one that takes another and nothing else.
  bool TakesByte(const Reading& reading) const;
  std::optional<Reading> StepReading(const Reading& reading, uint8_t byte);
  std::optional<Reading> StepString(const Node& node, Reading reading, uint8_t byte);
  std::optional<Reading> StepFree(const Node& node, Reading reading, uint8_t byte) const;
  std::optional<Reading> StepClass(const Node& node, const Reading& reading, uint8_t byte) const;
  // Whether one of the characters that are possible leads on.
  bool SomeLeadsOn(uint32_t string, const Reading& reading, const PossibleCharacters& possible);
  uint32_t StepCharacter(uint32_t string, uint32_t state, uint32_t character_class);
  bool AcceptsString(uint32_t string, uint32_t state);
  StringStates& StatesOf(uint32_t string);
  const CharClasses& ClassesOf(uint32_t string);

  Reading Alike(Reading reading);
  uint32_t AlikeReturns(uint32_t returns);
  StateId AlikeState(StateId state);

  // How many characters a plain token may have and be allowed in `state` unseen, because a string
  // goes on there whatever comes. `alone`: there are only such strings.
  size_t PlainCharacters(StateId state, bool* alone);
  absl::Status Walk(StateId state, const TokenTrie::Part& part, std::vector<uint32_t>* mask);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTrie> tokens_;
  const Graph& graph_;
  Interned<Return> returns_;
  Interned<Reading> sets_;
  std::vector<State> states_;  // numbered as sets_
  std::vector<std::unique_ptr<StringStates>> strings_;
  std::map<uint32_t, uint32_t> alike_returns_;
  absl::flat_hash_set<Reading> seen_;  // of the closure under way
  size_t table_bytes_ = 0;
  size_t mask_bytes_ = 0;
  int64_t work_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace tutti::grammar
