#include "grammar/graph.h"

#include <deque>
#include <optional>
#include <utility>

#include "grammar/limits.h"
#include "grammar/reversed.h"
#include "grammar/rule_ranks.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// What can be passed from one node to the next, for texts of any kind or for the empty one.
class Passing {
 public:
  Passing(const Graph& graph, const std::vector<bool>& rules, bool empty, BuildWork* work)
      : graph_(graph), rules_(rules), empty_(empty), work_(*work) {}

  uint32_t ArrayMax(const ArrayNode& array) const {
    work_.Add(static_cast<int64_t>(array.first.size() / 4));
    uint32_t max = array.max;
    for (uint32_t i = 0; i < array.first.size() && i < max; ++i) {
      if (!rules_[array.first[i]]) max = i;
    }
    if (!array.more || !rules_[array.rest]) {
      max = std::min(max, static_cast<uint32_t>(array.first.size()));
    }
    return max;
  }

  bool ObjectPasses(const ObjectNode& object) const {
    work_.Add(static_cast<int64_t>(object.properties.size() / 4));
    uint64_t possible = 0;
    uint64_t required = 0;
    for (const ObjectNode::Property& property : object.properties) {
      if (rules_[property.value]) ++possible;
      if (property.required) {
        ++required;
        if (!rules_[property.value]) return false;
      }
    }
    for (const ObjectNode::OpenKeys& open : object.open) {
      if (rules_[open.value] && rules_[open.key]) possible = kEndless;
    }
    return possible >= object.min && required <= object.max;
  }

  // Calls `visit` for the nodes that may follow `id` in its rule.
  template <typename Visit>
  void Follow(NodeId id, const Visit& visit) const {
    const Node& node = graph_.nodes[id];
    switch (node.kind) {
      case NodeKind::kText:
        if (!empty_ || graph_.texts[node.arg].empty()) visit(node.next);
        return;
      case NodeKind::kGap:
        visit(node.next);
        return;
      case NodeKind::kClass:
        if (!empty_ && !graph_.sets[node.arg].empty()) visit(node.next);
        return;
      case NodeKind::kTexts:
        if (!empty_ || graph_.tries[node.arg].EndsHere(TextTrie::kRoot) != TextTrie::kNone) {
          visit(node.next);
        }
        return;
      case NodeKind::kString:
        if (!empty_ || MatchesEmpty(graph_.strings[node.arg])) visit(node.next);
        return;
      case NodeKind::kFree:
        if (!empty_ || !graph_.frees[node.arg].until) visit(node.next);
        if (graph_.frees[node.arg].until) visit(graph_.frees[node.arg].special);
        return;
      case NodeKind::kNumber:
      case NodeKind::kKey:
      case NodeKind::kMember:
      case NodeKind::kValue:
      case NodeKind::kElement:
        if (!empty_) visit(node.next);
        return;
      case NodeKind::kCall:
        if (rules_[node.arg]) visit(node.next);
        return;
      case NodeKind::kSplit:
        work_.Add(static_cast<int64_t>(graph_.splits[node.arg].size() / 4));
        for (const NodeId other : graph_.splits[node.arg]) visit(other);
        return;
      case NodeKind::kRepeat:
        if (graph_.repeats[node.arg].min == 0 || rules_[graph_.repeats[node.arg].rule]) {
          visit(node.next);
        }
        return;
      case NodeKind::kObject:
        if (!empty_ && ObjectPasses(graph_.objects[node.arg])) {
          visit(graph_.objects[node.arg].close);
        }
        return;
      case NodeKind::kArray:
        if (!empty_ && ArrayMax(graph_.arrays[node.arg]) >= graph_.arrays[node.arg].min) {
          visit(graph_.arrays[node.arg].close);
        }
        return;
      case NodeKind::kGoto:
      case NodeKind::kReturn:
      case NodeKind::kEnd:
      case NodeKind::kNothing:
        return;
    }
  }

  bool Ends(NodeId id) const {
    const Node& node = graph_.nodes[id];
    return node.kind == NodeKind::kReturn || node.kind == NodeKind::kEnd ||
           (node.kind == NodeKind::kGoto && rules_[node.arg]);
  }

 private:
  static bool MatchesEmpty(const StringNode& string) {
    if (string.form != TextForm::kPlain) return false;
    bool accepts = true;
    for (const StringPart& part : string.machine.parts()) {
      accepts &= part.program->Start().accepts == part.matches;
    }
    return string.machine.MayEnd(accepts, 0);
  }

  const Graph& graph_;
  const std::vector<bool>& rules_;
  const bool empty_;
  BuildWork& work_;
};

// Calls `visit` for the rules that a node calls.
template <typename Visit>
void VisitCalled(const Graph& graph, NodeId id, const Visit& visit) {
  const Node& node = graph.nodes[id];
  switch (node.kind) {
    case NodeKind::kCall:
    case NodeKind::kGoto:
      visit(node.arg);
      return;
    case NodeKind::kRepeat:
      visit(graph.repeats[node.arg].rule);
      return;
    case NodeKind::kObject:
      for (const auto& property : graph.objects[node.arg].properties) visit(property.value);
      for (const auto& open : graph.objects[node.arg].open) {
        visit(open.key);
        visit(open.value);
      }
      return;
    case NodeKind::kArray:
      for (const RuleId rule : graph.arrays[node.arg].first) visit(rule);
      if (graph.arrays[node.arg].more) visit(graph.arrays[node.arg].rest);
      return;
    default:
      return;
  }
}

class Finisher {
 public:
  Finisher(Graph* graph, BuildWork* work) : graph_(graph), work_(work) {}

  // The nodes of each rule, and who uses whom.
  absl::Status FindUsers() {
    std::vector<bool> everything(graph_->rules.size(), true);
    const Passing all(*graph_, everything, /*empty=*/false, work_);
    std::vector<std::pair<RuleId, RuleId>> uses;
    seen_.assign(graph_->nodes.size(), 0);
    for (RuleId rule = 0; rule < graph_->rules.size(); ++rule) {
      Walk(all, rule, [&](NodeId id) {
        VisitCalled(*graph_, id, [&](RuleId used) { uses.emplace_back(rule, used); });
      });
      TUTTI_RETURN_IF_ERROR(work_->Spend(2));
    }
    users_ = Reverse(static_cast<uint32_t>(graph_->rules.size()), [&](const auto& edge) {
      for (const auto& [rule, used] : uses) edge(rule, used);
    });
    return work_->Spend(static_cast<int64_t>(uses.size()));
  }

  // The rules that have a text, or the empty one.
  absl::StatusOr<std::vector<bool>> FindRules(bool empty) {
    std::vector<bool> rules(graph_->rules.size());
    const Passing passing(*graph_, rules, empty, work_);
    std::deque<RuleId> waiting;
    std::vector<bool> waits(rules.size(), true);
    for (RuleId rule = 0; rule < rules.size(); ++rule) waiting.push_front(rule);
    while (!waiting.empty()) {
      const RuleId rule = waiting.front();
      waiting.pop_front();
      waits[rule] = false;
      if (rules[rule]) continue;
      bool ends = false;
      Walk(passing, rule, [&](NodeId id) { ends |= passing.Ends(id); });
      TUTTI_RETURN_IF_ERROR(work_->Spend(2));
      if (!ends) continue;
      rules[rule] = true;
      for (const RuleId user : users_.Of(rule)) {
        if (rules[user] || waits[user]) continue;
        waits[user] = true;
        waiting.push_back(user);
      }
    }
    return rules;
  }

  // For every node whether it leads to an end of its rule.
  std::vector<bool> FindLeads() {
    const Passing passing(*graph_, graph_->productive, /*empty=*/false, work_);
    const auto count = static_cast<uint32_t>(graph_->nodes.size());
    work_->Add(5 * int64_t{count});
    const Reversed before = Reverse(count, [&](const auto& edge) {
      for (NodeId id = 0; id < count; ++id) {
        passing.Follow(id, [&](NodeId next) { edge(id, next); });
      }
    });
    std::vector<bool> leads(count);
    std::vector<NodeId> found;
    for (NodeId id = 0; id < count; ++id) {
      if (passing.Ends(id)) found.push_back(id);
    }
    for (const NodeId id : found) leads[id] = true;
    while (!found.empty()) {
      const NodeId at = found.back();
      found.pop_back();
      for (const NodeId id : before.Of(at)) {
        if (leads[id]) continue;
        leads[id] = true;
        found.push_back(id);
      }
    }
    return leads;
  }

  // Orders rules so that callers before any byte come first; the name of one that calls itself.
  absl::Status FindRanks(const std::vector<std::string>& names) {
    const Passing passing(*graph_, graph_->nullable, /*empty=*/true, work_);
    std::vector<RuleUses> uses(graph_->rules.size());
    for (RuleId rule = 0; rule < uses.size(); ++rule) {
      Walk(passing, rule, [&](NodeId id) {
        const NodeKind kind = graph_->nodes[id].kind;
        // The values of objects and arrays come behind a bracket.
        if (kind == NodeKind::kObject || kind == NodeKind::kArray) return;
        VisitCalled(*graph_, id, [&](RuleId used) {
          (kind == NodeKind::kGoto ? uses[rule].gotos : uses[rule].calls).push_back(used);
          work_->Add(4);
        });
      });
      TUTTI_RETURN_IF_ERROR(work_->Spend(4));
    }
    const std::optional<RuleId> culprit = FindRuleRanks(uses, &graph_->rank);
    if (!culprit) return absl::OkStatus();
    return absl::InvalidArgumentError(Concat(
        "rule ", *culprit < names.size() ? names[*culprit] : Concat(*culprit),
        " begins with itself: left recursion is not served, write the repetition to the right"));
  }

 private:
  template <typename Visit>
  void Walk(const Passing& passing, RuleId rule, const Visit& visit) {
    ++walk_;
    found_ = {graph_->rules[rule]};
    while (!found_.empty()) {
      const NodeId id = found_.back();
      found_.pop_back();
      if (seen_[id] == walk_) continue;
      seen_[id] = walk_;
      work_->Add(1);
      visit(id);
      passing.Follow(id, [&](NodeId next) { found_.push_back(next); });
    }
  }

  Graph* const graph_;
  BuildWork* const work_;
  Reversed users_;
  std::vector<NodeId> found_;   // of the walk under way
  std::vector<uint32_t> seen_;  // [nodes] the last walk that came by
  uint32_t walk_ = 0;
};

void FinishObject(Graph* graph, ObjectNode* object, BuildWork* work) {
  std::erase_if(object->properties,
                [&](const auto& property) { return !graph->productive[property.value]; });
  std::erase_if(object->open, [&](const auto& open) {
    return !graph->productive[open.value] || !graph->productive[open.key];
  });
  const size_t count = object->properties.size();
  object->required_after.assign(count + 1, 0);
  object->next_required.assign(count + 1, static_cast<uint32_t>(count));
  std::vector<std::pair<std::string, uint32_t>> keys;
  for (size_t i = count; i-- > 0;) {
    const ObjectNode::Property& property = object->properties[i];
    object->required_after[i] = object->required_after[i + 1] + (property.required ? 1 : 0);
    object->next_required[i] =
        property.required ? static_cast<uint32_t>(i) : object->next_required[i + 1];
    keys.emplace_back(JsonStringText(property.name), static_cast<uint32_t>(i));
    work->Add(static_cast<int64_t>(8 + property.name.size() / 8));
  }
  object->keys = static_cast<uint32_t>(graph->tries.size());
  graph->tries.emplace_back(std::move(keys), /*numbered=*/true, work);
}

}  // namespace

uint32_t ObjectNode::CountAfter(uint32_t count) const {
  if (max != kEndless) return count + 1;
  return std::min(count + 1, std::max<uint32_t>(min, 1));
}

ObjectNode::Range ObjectNode::MayCome(uint32_t next, uint32_t count) const {
  const auto size = static_cast<uint32_t>(properties.size());
  if (count >= max || next >= size) return {};
  Range range = {next, std::min(next_required[next], size - 1)};
  // No place is left but for those that must come.
  if (max != kEndless && count + required_after[next] >= max) range.first = next_required[next];
  // Enough must be left behind this one.
  if (open.empty() && min > count + 1) {
    const uint32_t behind = min - count - 1;
    if (behind > size - 1) return {};
    range.last = std::min(range.last, size - 1 - behind);
  }
  return range;
}

bool ObjectNode::OpenMayCome(uint32_t next, uint32_t count) const {
  return !open.empty() && required_after[next] == 0 && count < max;
}

bool ObjectNode::MayClose(uint32_t next, uint32_t count) const {
  return required_after[next] == 0 && count >= min;
}

uint32_t ArrayNode::CountAfter(uint32_t count) const {
  if (max != kEndless) return count + 1;
  return std::min(count + 1, std::max({min, static_cast<uint32_t>(first.size()), uint32_t{1}}));
}

uint32_t ArrayNode::AlikeCount(uint32_t count) const {
  if (max == kEndless && min <= kTokenBytesMax) return count;
  // Those that are counted as the first ones stay what they are.
  if (count <= first.size() || count == 0) return count;
  const int64_t limit = max == kEndless ? INT64_MAX : max;
  const int64_t alike = grammar::AlikeCount(count, min, limit, kTokenBytesMax);
  return static_cast<uint32_t>(std::max<int64_t>(alike, std::max<int64_t>(1, first.size())));
}

absl::Status Graph::Finish(const std::vector<std::string>& names, BuildWork* work) {
  if (nodes.size() > kNodesMax || rules.size() > kRulesMax) {
    return absl::ResourceExhaustedError(
        Concat("more than ", kNodesMax, " nodes or ", kRulesMax, " rules"));
  }
  Finisher finisher(this, work);
  TUTTI_RETURN_IF_ERROR(finisher.FindUsers());
  TUTTI_ASSIGN_OR_RETURN(productive, finisher.FindRules(/*empty=*/false));
  if (!productive[root]) return absl::InvalidArgumentError("no text satisfies this");
  TUTTI_ASSIGN_OR_RETURN(nullable, finisher.FindRules(/*empty=*/true));
  leads = finisher.FindLeads();
  TUTTI_RETURN_IF_ERROR(finisher.FindRanks(names));
  const Passing passing(*this, productive, /*empty=*/false, work);
  for (ArrayNode& array : arrays) array.max = passing.ArrayMax(array);
  for (ObjectNode& object : objects) {
    FinishObject(this, &object, work);
    TUTTI_RETURN_IF_ERROR(work->Spend(8));
  }
  return absl::OkStatus();
}

}  // namespace tutti::grammar
