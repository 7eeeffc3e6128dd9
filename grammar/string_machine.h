// Texts that several regular expressions match, or do not match, and whose length is bounded: one
// deterministic automaton over classes of characters, whose states are made when they are met.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "grammar/build_work.h"
#include "grammar/regex_program.h"
#include "grammar/touched.h"

namespace tutti::grammar {

// One expression of several.
struct StringPart {
  std::shared_ptr<const RegexProgram> program;
  bool matches = true;    // false: the text must not match
  bool is_names = false;  // finitely many texts (RegexProgram::OfNames)
};

// The automaton of some parts, without their length. Grows as it is asked.  Thread: one; any number
// for const members.
class StringStates {
 public:
  static constexpr uint32_t kDead = 0;
  static constexpr uint32_t kStart = 1;
  static constexpr uint32_t kUnknown = UINT32_MAX;

  StringStates(std::vector<StringPart> parts, std::shared_ptr<const CharClasses> classes);

  const CharClasses& classes() const { return *classes_; }
  uint32_t size() const { return static_cast<uint32_t>(states_.size()); }
  // Bytes held, about.
  size_t bytes() const { return bytes_; }

  bool Accepts(uint32_t state) const { return states_[state].accepts; }
  // kDead: no text goes on like this.  Adds what it takes when nothing is remembered to `work`,
  // some for every instruction looked at.
  uint32_t Step(uint32_t state, uint32_t character_class, int64_t* work);
  // The same, of which only the first time in an operation is added.
  uint32_t StepOnce(uint32_t state, uint32_t character_class, Touched* touched, int64_t* work);
  // The same for a step taken before; kUnknown for others.
  uint32_t Known(uint32_t state, uint32_t character_class) const;
  // The number that a state of another automaton of the same parts has here.
  uint32_t Adopt(const StringStates& other, uint32_t state);
  // Whether no character leads from here into kDead, now or later, which is found by taking steps;
  // false where that takes more than a few. Adds what it takes when nothing is remembered.
  bool AllowsAnything(uint32_t state, int64_t* work);

 private:
  // With more classes than these, steps are kept one by one.
  static constexpr uint32_t kClassesOfTableMax = 64;
  // Where one part is: its reached are interned.
  struct PartState {
    RegexProgram::Reached reached;
    bool universal = false;
  };
  struct State {
    std::vector<uint32_t> parts;  // [parts] indexes of PartStates
    std::vector<uint32_t> next;   // [classes]; kUnknown; empty beyond kClassesOfTableMax
    std::vector<uint32_t> costs;  // [classes] of these, what they took
    Touch touch;                  // of classes, 256 of them for one that is looked at
    int64_t anything_cost = 0;    // what AllowsAnything took
    bool accepts = false;
    bool dead = false;     // nothing leads on
    int8_t anything = -1;  // AllowsAnything: not yet asked, false, true
  };
  uint32_t InternPart(size_t part, RegexProgram::Reached reached);
  // Of a step taken before: what Step added.
  int64_t CostOf(uint32_t state, uint32_t character_class) const;
  uint32_t Intern(std::vector<uint32_t> parts);

  std::vector<StringPart> parts_;
  std::shared_ptr<const CharClasses> classes_;
  std::vector<RegexProgram::Scratch> scratch_;       // [parts]
  std::vector<std::vector<PartState>> part_states_;  // [parts]
  std::vector<absl::flat_hash_map<std::vector<uint32_t>, uint32_t>> part_index_;
  std::vector<State> states_;
  absl::flat_hash_map<std::vector<uint32_t>, uint32_t> index_;
  struct Taken {
    uint32_t next = kUnknown;
    uint32_t cost = 0;
  };
  absl::flat_hash_map<uint64_t, Taken> steps_;  // by state and class, where there is no table
  // The steps of the last operation that were looked at, where there is no table.
  absl::flat_hash_set<uint64_t> touched_;
  uint64_t touched_in_ = 0;
  size_t bytes_ = 0;
};

// A count from which the next `far` are judged alike, where it must reach `min` and not pass `max`.
int64_t AlikeCount(int64_t count, int64_t min, int64_t max, int64_t far);

// What a grammar says of a string: parts and length. Immutable.  Thread: any.
class StringMachine {
 public:
  static constexpr int64_t kUnbounded = INT64_MAX;

  // Explores the automaton where that is needed to know which beginnings can still end, and adds
  // to `work` what that takes.
  // Errors: ResourceExhausted when it is too large for that; InvalidArgument when no text matches.
  static absl::StatusOr<StringMachine> Create(std::vector<StringPart> parts, int64_t min,
                                              int64_t max, BuildWork* work);

  const std::vector<StringPart>& parts() const { return parts_; }
  int64_t min() const { return min_; }
  int64_t max() const { return max_; }
  // Of the characters, for StringStates of these parts.
  const std::shared_ptr<const CharClasses>& classes() const { return classes_; }
  // The whole automaton, or null where states are made when they are met: then each but kDead can
  // still end, whatever the length.
  const StringStates* explored() const { return explored_.get(); }

  // Whether a text of `length` characters that has led to `state` can go on to an end, or end here.
  bool Alive(uint32_t state, int64_t length) const;
  // A length from which the next kTokenBytesMax characters are judged alike.
  int64_t AlikeLength(int64_t length) const;
  bool MayEnd(bool accepts, int64_t length) const {
    return accepts && length >= min_ && length <= max_;
  }

 private:
  StringMachine() = default;
  static absl::Status Explore(StringStates* states, BuildWork* work);
  absl::Status FindLengths(const StringStates& states, BuildWork* work);
  // Whether one of the lengths from `from` to `to`, all known, leads from `state` to an end.
  bool EndsWithin(uint32_t state, int64_t from, int64_t to) const;

  std::vector<StringPart> parts_;
  int64_t min_ = 0;
  int64_t max_ = kUnbounded;
  std::shared_ptr<const CharClasses> classes_;
  std::shared_ptr<const StringStates> explored_;
  // [state][length / 64]: a bit for each length: whether exactly so many more characters lead to an
  // end. From `cycle_begin_` on the lengths repeat every `cycle_`, which is 0 where all lengths up
  // to max are there.
  std::vector<std::vector<uint64_t>> ends_after_;
  size_t lengths_ = 0;
  size_t cycle_begin_ = 0;
  size_t cycle_ = 0;
};

}  // namespace tutti::grammar
