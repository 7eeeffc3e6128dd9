#include "grammar/automaton.h"

#include <algorithm>
#include <utility>

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
      std::sort(calls.returns.begin(), calls.returns.end());
      calls.returns.erase(std::unique(calls.returns.begin(), calls.returns.end()),
                          calls.returns.end());
      const uint32_t returns = automaton_.returns_.Add(std::move(calls.returns));
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
    Calls& calls = callers_[{graph_.rank[rule], rule}];
    calls.rule = rule;
    calls.returns.push_back(to);
    ++automaton_.work_;
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
        for (const Return& to : automaton_.returns_[p.returns]) {
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

Automaton::Automaton(std::shared_ptr<const Grammar> grammar,
                     std::shared_ptr<const TokenTrie> tokens)
    : grammar_(std::move(grammar)), tokens_(std::move(tokens)), graph_(grammar_->graph()) {
  Forget();
}

void Automaton::Forget() {
  ++generation_;
  states_.clear();
  sets_.Clear();
  returns_.Clear();
  alike_returns_.clear();
  strings_.clear();
  strings_.resize(graph_.strings.size());
  table_bytes_ = 0;
  mask_bytes_ = 0;
  Intern({});  // kDead
}

size_t Automaton::bytes() const {
  size_t bytes = sets_.bytes() + returns_.bytes() + table_bytes_ + mask_bytes_ +
                 states_.size() * sizeof(State) + alike_returns_.size() * 64;
  for (const auto& string : strings_) bytes += string == nullptr ? 0 : string->bytes();
  return bytes;
}

void Automaton::BeginOperation() {
  work_ = 0;
  if (bytes() > kAutomatonBytesMax) Forget();
}

bool Automaton::Exhausted() const {
  return work_ > kOperationWorkMax || seen_.size() > kReadingsMax * 4 ||
         sets_.bytes() + returns_.bytes() + table_bytes_ > 2 * kAutomatonBytesMax;
}

absl::Status Automaton::ExhaustedError() const {
  return absl::ResourceExhaustedError(
      "the text can be read by the grammar in too many ways to go on with it");
}

Automaton::StateId Automaton::Intern(std::vector<Reading> readings) {
  const bool complete = std::any_of(readings.begin(), readings.end(), [&](const Reading& reading) {
    return reading.node == graph_.end && !graph_.nodes.empty();
  });
  const uint32_t number = sets_.Add(std::move(readings));
  if (number == states_.size()) {
    State& state = states_.emplace_back();
    state.readings = &sets_[number];
    state.complete = complete;
    work_ += 4;
  }
  return number;
}

absl::StatusOr<Automaton::StateId> Automaton::Start() {
  Closure closure(this);
  closure.Add({graph_.rules[graph_.root], 0, 0, 0, returns_.Add({{graph_.end, 0, 0, 0}})});
  std::vector<Reading> readings = closure.Finish();
  if (Exhausted()) return ExhaustedError();
  return Intern(std::move(readings));
}

absl::StatusOr<Automaton::StateId> Automaton::Step(StateId state, uint8_t byte) {
  if (states_[state].next == nullptr) {
    states_[state].next = std::make_unique<StateId[]>(256);
    std::fill_n(states_[state].next.get(), 256, kUnknown);
    table_bytes_ += 256 * sizeof(StateId);
  }
  const StateId known = states_[state].next[byte];
  if (known != kUnknown) return known;
  ++work_;
  if (Exhausted()) return ExhaustedError();
  std::vector<Reading> after;
  bool close = false;
  for (const Reading& reading : *states_[state].readings) {
    ++work_;
    if (const std::optional<Reading> next = StepReading(reading, byte)) {
      after.push_back(*next);
      close |= !TakesByte(*next);
    }
  }
  if (close) {
    Closure closure(this);
    for (const Reading& reading : after) closure.Add(reading);
    after = closure.Finish();
    if (Exhausted() || after.size() > kReadingsMax) return ExhaustedError();
  } else {
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }
  const StateId next = Intern(std::move(after));  // of none: kDead
  states_[state].next[byte] = next;
  return next;
}

bool Automaton::TakesByte(const Reading& reading) const {
  const Node& node = graph_.nodes[reading.node];
  switch (node.kind) {
    case NodeKind::kText:
      return reading.c > 0;
    case NodeKind::kString:
      return reading.a != 0 && graph_.strings[node.arg].form == TextForm::kJsonString;
    case NodeKind::kFree:
      return reading.b != 0;
    case NodeKind::kKey:
      return reading.c != TextTrie::kRoot;
    default:
      return false;
  }
}

std::optional<Reading> Automaton::StepReading(const Reading& reading, uint8_t byte) {
  const Node& node = graph_.nodes[reading.node];
  Reading next = reading;
  const Reading behind = {node.next, reading.a, reading.b, 0, reading.returns};
  switch (node.kind) {
    case NodeKind::kText: {
      const std::string& text = graph_.texts[node.arg];
      if (static_cast<uint8_t>(text[reading.c]) != byte) return std::nullopt;
      if (++next.c == text.size()) return behind;
      return next;
    }
    case NodeKind::kGap:
      if ((byte != ' ' && byte != '\n' && byte != '\t') ||
          reading.c >= static_cast<uint32_t>(kWhitespaceBytesMax)) {
        return std::nullopt;
      }
      ++next.c;
      return next;
    case NodeKind::kClass:
      return StepClass(node, reading, byte);
    case NodeKind::kTexts:
      next.c = graph_.tries[node.arg].Step(reading.c, byte);
      return next.c == TextTrie::kNone ? std::nullopt : std::optional(next);
    case NodeKind::kString:
      return StepString(node, reading, byte);
    case NodeKind::kFree:
      return StepFree(node, reading, byte);
    case NodeKind::kNumber: {
      const auto state =
          graph_.numbers[node.arg].Step({reading.a, uint64_t{reading.c} << 32 | reading.b}, byte);
      if (!state) return std::nullopt;
      next.a = state->phase;
      next.b = static_cast<uint32_t>(state->value);
      next.c = static_cast<uint32_t>(state->value >> 32);
      return next;
    }
    case NodeKind::kKey: {
      const ObjectNode& object = graph_.objects[node.arg];
      const TextTrie& keys = graph_.tries[object.keys];
      next.c = keys.Step(reading.c, byte);
      if (next.c == TextTrie::kNone) return std::nullopt;
      const ObjectNode::Range range = object.MayCome(reading.a, reading.b);
      if (!keys.HasNumber(next.c, range.first, range.last)) return std::nullopt;
      const uint32_t property = keys.EndsHere(next.c);
      if (property == TextTrie::kNone) return next;
      return Reading{node.next, property, reading.b, 0, reading.returns};
    }
    default:
      return std::nullopt;
  }
}

std::optional<Reading> Automaton::StepClass(const Node& node, const Reading& reading,
                                            uint8_t byte) const {
  const CharSet& set = graph_.sets[node.arg];
  const DecodedByte decoded = DecodeByte(TextForm::kPlain, reading.c, byte);
  if (decoded.kind == DecodedByte::Kind::kCharacter) {
    if (!set.Contains(decoded.character)) return std::nullopt;
    return Reading{node.next, reading.a, reading.b, 0, reading.returns};
  }
  if (decoded.kind != DecodedByte::Kind::kPart) return std::nullopt;
  const PossibleCharacters possible = Possible(decoded.state);
  for (int i = 0; i < possible.count; ++i) {
    for (const CharRange& range : set.ranges()) {
      if (range.first <= possible.ranges[static_cast<size_t>(i)].last &&
          range.last >= possible.ranges[static_cast<size_t>(i)].first) {
        return Reading{reading.node, reading.a, reading.b, decoded.state, reading.returns};
      }
    }
  }
  return std::nullopt;
}

}  // namespace tutti::grammar
