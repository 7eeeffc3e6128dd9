#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {

// Calls that are made before the next byte are gathered by their rule, so that what is called has
// one reading whoever calls it. Rules come in the order of their ranks: when one is begun, all its
// callers are known.
class Automaton::Closure {
 public:
  explicit Closure(Automaton* automaton) : automaton_(*automaton), graph_(automaton->graph_) {
    automaton_.seen_.clear();
  }

  void Add(const Reading& reading) {
    if (graph_.leads[reading.node] && automaton_.seen_.insert(reading).second)
      work_.push_back(reading);
  }

  // The readings that take a byte, and the end; in order.
  std::vector<Reading> Finish() {
    Drain();
    fresh_ = true;
    while (!callers_.empty() && !automaton_.Exhausted()) {
      auto first = callers_.extract(callers_.begin());
      Calls& calls = first.mapped();
      automaton_.work_ += static_cast<int64_t>(8 + calls.returns.size());
      std::sort(calls.returns.begin(), calls.returns.end());
      calls.returns.erase(std::unique(calls.returns.begin(), calls.returns.end()),
                          calls.returns.end());
      const uint32_t returns = automaton_.InternReturns(calls.returns);
      Add({graph_.rules[calls.rule], 0, 0, 0, returns});
      Drain();
    }
    std::sort(readings_.begin(), readings_.end());
    return std::move(readings_);
  }

 private:
  struct Calls {
    RuleId rule = 0;
    std::vector<Return> returns;
  };

  void Drain() {
    while (!work_.empty() && !automaton_.Exhausted()) {
      const Reading reading = work_.back();
      work_.pop_back();
      ++automaton_.work_;
      Expand(reading, graph_.nodes[reading.node]);
    }
  }

  void Call(RuleId rule, const Return& to) {
    if (!graph_.productive[rule] || !graph_.leads[to.node]) return;
    if (automaton_.depths_[to.returns] + 1u >= kTextDepthMax) return;
    Calls& calls = callers_[{graph_.rank[rule], rule}];
    calls.rule = rule;
    calls.returns.push_back(to);
    automaton_.work_ += 3;
  }

  void Expand(const Reading& p, const Node& node) {
    switch (node.kind) {
      case NodeKind::kText:
        if (graph_.texts[node.arg].empty()) {
          Add({node.next, p.a, p.b, 0, p.returns});
        } else {
          readings_.push_back(p);
        }
        return;
      case NodeKind::kClass:
      case NodeKind::kKey:
      case NodeKind::kEnd:
        readings_.push_back(p);
        return;
      case NodeKind::kGap:
        readings_.push_back(p);
        Add({node.next, p.a, p.b, 0, p.returns});
        return;
      case NodeKind::kTexts: {
        const TextTrie& trie = graph_.tries[node.arg];
        if (trie.GoesOn(p.c)) readings_.push_back(p);
        if (trie.EndsHere(p.c) != TextTrie::kNone) Add({node.next, p.a, p.b, 0, p.returns});
        return;
      }
      case NodeKind::kString:
        ExpandString(p, node);
        return;
      case NodeKind::kFree:
        readings_.push_back(p);
        if (p.b == 0) {
          const FreeNode& free = graph_.frees[node.arg];
          Add({free.until ? free.special : node.next, 0, 0, 0, p.returns});
        }
        return;
      case NodeKind::kNumber:
        readings_.push_back(p);
        if (graph_.numbers[node.arg].Accepts({p.a, uint64_t{p.c} << 32 | p.b})) {
          Add({node.next, 0, 0, 0, p.returns});
        }
        return;
      case NodeKind::kReturn:
        // What began without a byte since has read nothing: its caller has gone on by itself.
        if (fresh_) return;
        for (const Return& to : (*automaton_.returns_)[p.returns]) {
          Add({to.node, to.a, to.b, 0, to.returns});
        }
        return;
      default:
        ExpandCalling(p, node);
        return;
    }
  }

  void ExpandString(Reading p, const Node& node) {
    const StringNode& string = graph_.strings[node.arg];
    if (p.a == 0) {  // before the first byte
      p.a = StringStates::kStart;
      if (!automaton_.seen_.insert(p).second) return;
    }
    readings_.push_back(p);
    if (string.form == TextForm::kPlain && p.b == 0 &&
        string.machine.MayEnd(automaton_.AcceptsString(node.arg, p.a), p.c)) {
      Add({node.next, 0, 0, 0, p.returns});
    }
  }

  // Those that take no byte themselves.
  void ExpandCalling(const Reading& p, const Node& node) {
    switch (node.kind) {
      case NodeKind::kCall:
        Call(node.arg, {node.next, p.a, p.b, p.returns});
        if (graph_.nullable[node.arg]) Add({node.next, p.a, p.b, 0, p.returns});
        return;
      case NodeKind::kGoto:
        if (graph_.productive[node.arg]) Add({graph_.rules[node.arg], 0, 0, 0, p.returns});
        return;
      case NodeKind::kSplit:
        for (const NodeId other : graph_.splits[node.arg]) Add({other, p.a, p.b, 0, p.returns});
        return;
      case NodeKind::kRepeat: {
        const RepeatNode& repeat = graph_.repeats[node.arg];
        if (p.a >= repeat.min || graph_.nullable[repeat.rule]) {
          Add({node.next, 0, 0, 0, p.returns});
        }
        if (p.a < repeat.max) Call(repeat.rule, {p.node, repeat.CountAfter(p.a), 0, p.returns});
        return;
      }
      case NodeKind::kObject:
      case NodeKind::kMember:
      case NodeKind::kValue:
        ExpandObject(p, node, graph_.objects[node.arg]);
        return;
      case NodeKind::kArray:
      case NodeKind::kElement:
        ExpandArray(p, node, graph_.arrays[node.arg]);
        return;
      default:
        return;
    }
  }

  void ExpandObject(const Reading& p, const Node& node, const ObjectNode& object) {
    if (node.kind == NodeKind::kValue) {
      Call(object.properties[p.a].value,
           {object.object, p.a + 1, object.CountAfter(p.b), p.returns});
      return;
    }
    const bool declared = !object.MayCome(p.a, p.b).empty();
    const bool open = object.OpenMayCome(p.a, p.b);
    if (node.kind == NodeKind::kObject) {
      if (object.MayClose(p.a, p.b)) {
        Add({p.b == 0 ? object.close_empty : object.close, 0, 0, 0, p.returns});
      }
      if (declared || open) {
        Add({p.b == 0 ? object.member : object.comma, p.a, p.b, 0, p.returns});
      }
      return;
    }
    if (declared) Add({object.key, p.a, p.b, TextTrie::kRoot, p.returns});
    if (!open) return;
    const auto behind = static_cast<uint32_t>(object.properties.size());
    for (const ObjectNode::OpenKeys& keys : object.open) {
      Call(keys.key, {keys.colon, behind, object.CountAfter(p.b), p.returns});
    }
  }

  void ExpandArray(const Reading& p, const Node& node, const ArrayNode& array) {
    if (node.kind == NodeKind::kElement) {
      Call(array.RuleOf(p.a), {array.array, array.CountAfter(p.a), 0, p.returns});
      return;
    }
    if (p.a >= array.min) {
      Add({p.a == 0 ? array.close_empty : array.close, 0, 0, 0, p.returns});
    }
    if (p.a < array.max) Add({p.a == 0 ? array.element : array.comma, p.a, 0, 0, p.returns});
  }

  Automaton& automaton_;
  const Graph& graph_;
  std::vector<Reading> work_;
  std::vector<Reading> readings_;
  std::map<std::pair<uint32_t, RuleId>, Calls> callers_;
  bool fresh_ = false;
};

std::vector<Reading> Automaton::Close(const std::vector<Reading>& readings) {
  Closure closure(this);
  for (const Reading& reading : readings) closure.Add(reading);
  return closure.Finish();
}

}  // namespace tutti::grammar
