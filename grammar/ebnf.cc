#include "grammar/ebnf.h"

#include <map>
#include <utility>

#include "grammar/ebnf_parser.h"
#include "grammar/limits.h"
#include "grammar/schema.h"
#include "grammar/text_pieces.h"
#include "grammar/token_trie.h"

namespace tutti::grammar {
namespace {

static_assert(EbnfPart::kUnbounded == kEndless);

// Adds the nodes of each rule to a graph.
class EbnfEmitter {
 public:
  EbnfEmitter(Whitespace whitespace, BuildWork* work, Graph* graph)
      : whitespace_(whitespace), work_(work), graph_(graph) {}

  absl::Status Emit(const std::vector<EbnfRule>& rules) {
    for (const EbnfRule& rule : rules) rule_of_[rule.name] = graph_->AddRule();
    graph_->end = graph_->Add({NodeKind::kEnd});
    return_ = graph_->Add({NodeKind::kReturn});
    for (const EbnfRule& rule : rules) {
      TUTTI_ASSIGN_OR_RETURN(graph_->rules[rule_of_[rule.name]], Emit(rule.body, return_));
    }
    const auto root = rule_of_.find("root");
    graph_->root = root == rule_of_.end() ? 0 : root->second;
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<NodeId> Emit(const EbnfPart& part, NodeId next) {
    TUTTI_RETURN_IF_ERROR(work_->Spend(8));
    if (graph_->nodes.size() > kNodesMax) {
      return absl::ResourceExhaustedError(Concat("more than ", kNodesMax, " nodes"));
    }
    switch (part.kind) {
      case EbnfPart::Kind::kText:
        return graph_->AddText(part.text, next);
      case EbnfPart::Kind::kSet:
        graph_->sets.push_back(part.set);
        return graph_->Add(
            {NodeKind::kClass, next, static_cast<uint32_t>(graph_->sets.size()) - 1});
      case EbnfPart::Kind::kRule: {
        const auto found = rule_of_.find(part.text);
        if (found == rule_of_.end()) {
          return absl::InvalidArgumentError(
              Concat("no rule ", part.text, ", named at byte ", part.at));
        }
        const NodeKind kind = next == return_ ? NodeKind::kGoto : NodeKind::kCall;
        return graph_->Add({kind, next, found->second});
      }
      case EbnfPart::Kind::kJson:
        return EmitJson(part, next);
      case EbnfPart::Kind::kWithout:
        return EmitWithout(part, next);
      case EbnfPart::Kind::kSpecial:
        graph_->specials.push_back(part.text);
        return graph_->AddText(SpecialTokenBytes(part.text), next);
      case EbnfPart::Kind::kSequence:
        for (size_t i = part.children.size(); i-- > 0;) {
          TUTTI_ASSIGN_OR_RETURN(next, Emit(part.children[i], next));
        }
        return next;
      case EbnfPart::Kind::kChoice: {
        std::vector<NodeId> alternatives;
        for (const EbnfPart& child : part.children) {
          TUTTI_ASSIGN_OR_RETURN(const NodeId entry, Emit(child, next));
          alternatives.push_back(entry);
        }
        if (alternatives.size() == 1) return alternatives.front();
        graph_->splits.push_back(std::move(alternatives));
        return graph_->Add({NodeKind::kSplit, 0, static_cast<uint32_t>(graph_->splits.size()) - 1});
      }
      case EbnfPart::Kind::kRepeat: {
        if (part.min == 0 && part.max == 1) return EmitOptional(part.children.front(), next);
        TUTTI_ASSIGN_OR_RETURN(const NodeId entry, Emit(part.children.front(), return_));
        graph_->repeats.push_back({graph_->AddRule(entry), part.min, part.max});
        return graph_->Add(
            {NodeKind::kRepeat, next, static_cast<uint32_t>(graph_->repeats.size()) - 1});
      }
    }
    return next;
  }

  // No rule of its own: what calls at its end calls in the stead of the rule around it, so that
  // `list ::= item ("," list)?` nests no deeper the longer the list is.
  absl::StatusOr<NodeId> EmitOptional(const EbnfPart& part, NodeId next) {
    TUTTI_ASSIGN_OR_RETURN(const NodeId entry, Emit(part, next));
    graph_->splits.push_back({entry, next});
    return graph_->Add({NodeKind::kSplit, 0, static_cast<uint32_t>(graph_->splits.size()) - 1});
  }

  absl::StatusOr<NodeId> EmitJson(const EbnfPart& part, NodeId next) {
    const auto [known, added] = schemas_.try_emplace(part.text, 0);
    if (added) {
      TUTTI_RETURN_IF_ERROR(work_->Spend(128));
      absl::StatusOr<RuleId> rule = ReadSchema(part.text, whitespace_, work_, graph_);
      if (!rule.ok()) return Annotate(rule.status(), Concat("%json at byte ", part.at));
      known->second = *rule;
    }
    return graph_->Add({NodeKind::kCall, next, known->second});
  }

  absl::StatusOr<NodeId> EmitWithout(const EbnfPart& part, NodeId next) {
    graph_->frees.push_back({.search = TextSearch(part.texts)});
    search_entries_ += graph_->frees.back().search.entries();
    TUTTI_RETURN_IF_ERROR(
        work_->Spend(static_cast<int64_t>(graph_->frees.back().search.entries() / 8)));
    if (search_entries_ > kSearchEntriesMax) {
      return absl::ResourceExhaustedError("the strings of all %without are too many");
    }
    return graph_->Add({NodeKind::kFree, next, static_cast<uint32_t>(graph_->frees.size()) - 1});
  }

  const Whitespace whitespace_;
  BuildWork* const work_;
  Graph* const graph_;
  std::map<std::string, RuleId> rule_of_;
  std::map<std::string, RuleId> schemas_;  // by their text
  size_t search_entries_ = 0;
  NodeId return_ = 0;
};

}  // namespace

absl::StatusOr<Graph> ReadEbnf(std::string_view text, Whitespace whitespace, BuildWork* work,
                               std::vector<std::string>* names) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<EbnfRule> rules, ParseEbnf(text, work));
  for (const EbnfRule& rule : rules) names->push_back(rule.name);
  Graph graph;
  EbnfEmitter emitter(whitespace, work, &graph);
  TUTTI_RETURN_IF_ERROR(emitter.Emit(rules));
  return graph;
}

}  // namespace tutti::grammar
