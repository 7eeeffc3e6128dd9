// An order of rules in which callers come before what they call.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::grammar {

// Which rules one uses before it reads a byte.
struct RuleUses {
  std::vector<uint32_t> calls;
  std::vector<uint32_t> gotos;  // rules that stand for it: these may go round
};

// A rule that calls itself, or nothing and the ranks: those that a rule calls, or that stand for
// it, have larger ones, but for rules that stand for each other, which have the same.
std::optional<uint32_t> FindRuleRanks(const std::vector<RuleUses>& uses,
                                      std::vector<uint32_t>* ranks);

}  // namespace tutti::grammar
