#include "grammar/rule_ranks.h"

#include <algorithm>

namespace tutti::grammar {
namespace {

// The number of a group for every rule; those that stand for each other have one (Tarjan).
std::vector<uint32_t> GroupsOf(const std::vector<RuleUses>& uses) {
  constexpr uint32_t kNone = UINT32_MAX;
  struct Visit {
    uint32_t rule = 0;
    size_t next = 0;
  };
  std::vector<uint32_t> group(uses.size(), kNone);
  std::vector<uint32_t> index(uses.size(), kNone);
  std::vector<uint32_t> lowest(uses.size());
  std::vector<uint32_t> open;
  std::vector<Visit> path;
  uint32_t visited = 0;
  uint32_t groups = 0;
  for (uint32_t first = 0; first < uses.size(); ++first) {
    if (index[first] == kNone) path.push_back({first});
    while (!path.empty()) {
      Visit& visit = path.back();
      const uint32_t rule = visit.rule;
      if (visit.next == 0) {
        index[rule] = lowest[rule] = visited++;
        open.push_back(rule);
      } else {
        lowest[rule] = std::min(lowest[rule], lowest[uses[rule].gotos[visit.next - 1]]);
      }
      while (visit.next < uses[rule].gotos.size() && index[uses[rule].gotos[visit.next]] != kNone) {
        const uint32_t other = uses[rule].gotos[visit.next++];
        if (group[other] == kNone) lowest[rule] = std::min(lowest[rule], index[other]);
      }
      if (visit.next < uses[rule].gotos.size()) {
        path.push_back({uses[rule].gotos[visit.next++]});
        continue;
      }
      path.pop_back();
      if (lowest[rule] != index[rule]) continue;
      for (uint32_t member = kNone; member != rule; open.pop_back()) {
        member = open.back();
        group[member] = groups;
      }
      ++groups;
    }
  }
  return group;
}

}  // namespace

std::optional<uint32_t> FindRuleRanks(const std::vector<RuleUses>& uses,
                                      std::vector<uint32_t>* ranks) {
  const std::vector<uint32_t> group = GroupsOf(uses);
  uint32_t groups = 0;
  for (const uint32_t one : group) groups = std::max(groups, one + 1);
  std::vector<std::vector<uint32_t>> used(groups);
  std::vector<uint32_t> users(groups);
  for (uint32_t rule = 0; rule < uses.size(); ++rule) {
    const auto use = [&](uint32_t other) {
      used[group[rule]].push_back(group[other]);
      ++users[group[other]];
    };
    for (const uint32_t other : uses[rule].calls) use(other);
    for (const uint32_t other : uses[rule].gotos) {
      if (group[other] != group[rule]) use(other);
    }
  }
  std::vector<uint32_t> order;
  for (uint32_t one = 0; one < groups; ++one) {
    if (users[one] == 0) order.push_back(one);
  }
  std::vector<uint32_t> rank_of(groups);
  for (size_t i = 0; i < order.size(); ++i) {
    rank_of[order[i]] = static_cast<uint32_t>(i);
    for (const uint32_t other : used[order[i]]) {
      if (--users[other] == 0) order.push_back(other);
    }
  }
  ranks->clear();
  for (uint32_t rule = 0; rule < uses.size(); ++rule) {
    if (users[group[rule]] != 0) return rule;
    ranks->push_back(rank_of[group[rule]]);
  }
  return std::nullopt;
}

}  // namespace tutti::grammar
