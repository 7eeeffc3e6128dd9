// A regular expression as instructions, and which of them a text so far can be at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/char_set.h"
#include "grammar/regex_parser.h"

namespace tutti::grammar {

// Immutable.  Thread: any.
class RegexProgram {
 public:
  // `whole`: the whole text must match; otherwise a part of it anywhere.
  // Errors: ResourceExhausted beyond kRegexInstructionsMax.
  static absl::StatusOr<RegexProgram> Compile(const RegexTree& tree, bool whole, BuildWork* work);
  // Matches exactly the texts of `names`.  REQUIRES: valid UTF-8, no name twice
  static absl::StatusOr<RegexProgram> OfNames(std::vector<std::string> names, BuildWork* work);

  // Where a text so far can be: instructions that take a character, ascending, none of which leads
  // nowhere; and whether the text may end here.
  struct Reached {
    std::vector<uint32_t> at;
    bool accepts = false;

    bool operator==(const Reached&) const = default;
  };
  // Memory that steps use again. Of one program.
  struct Scratch {
    std::vector<uint32_t> seen;  // [code] the last step that came by
    std::vector<uint32_t> work;
    uint32_t step = 0;
    int64_t visited = 0;  // instructions looked at, of all steps; some 5 ns each
  };
  const Reached& Start() const { return start_; }
  // After a character.
  Reached Step(const std::vector<uint32_t>& at, uint32_t character, Scratch* scratch) const;

  // From here on every text matches.
  bool IsUniversal(const Reached& reached) const;

  const std::vector<CharSet>& sets() const { return sets_; }
  size_t size() const { return code_.size(); }

 private:
  enum class Op : uint8_t { kSet, kSplit, kJump, kBegin, kEnd, kMatch };
  struct Instruction {
    Op op = Op::kMatch;
    uint32_t a = 0;  // kSet: the set, and the next instruction follows; kSplit, kJump: where to
    uint32_t b = 0;  // kSplit
  };
  class Emitter;
  RegexProgram() = default;
  void Finish();
  void Close(uint32_t from, bool at_begin, Scratch* scratch, Reached* reached) const;
  Reached InOrder(Reached reached) const;

  std::vector<Instruction> code_;
  std::vector<CharSet> sets_;
  std::vector<bool> ends_;   // [code] the text may end here
  std::vector<bool> leads_;  // [code] to an end, after at least one character
  Reached start_;
  uint32_t tail_ = UINT32_MAX;  // takes any character for ever; only where not `whole`
};

}  // namespace tutti::grammar
