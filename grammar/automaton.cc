#include "grammar/automaton.h"

#include <algorithm>
#include <utility>

#include "grammar/limits.h"

namespace tutti::grammar {

Automaton::Automaton(std::shared_ptr<const Grammar> grammar,
                     std::shared_ptr<const TokenTrie> tokens)
    : grammar_(std::move(grammar)),
      tokens_(std::move(tokens)),
      graph_(grammar_->graph()),
      bytes_max_(kAutomatonBytesMax) {
  Clear();
}

bool Automaton::Exhausted() {
  if (end_at_.has_value() && work_ >= look_at_) {
    look_at_ = work_ + kWorkBetweenLooks;
    is_late_ = is_late_ || ThreadTime() >= *end_at_;
  }
  return is_late_ || work_ > kOperationWorkMax || seen_.size() > kReadingsMax * 4 ||
         sets_->bytes() + returns_->bytes() + table_bytes_ > bytes_max_ + kAutomatonBytesMax;
}

absl::Status Automaton::ExhaustedError() const {
  if (is_late_) return absl::AbortedError("takes longer than was given for now");
  return absl::ResourceExhaustedError(
      "the text can be read by the grammar in too many ways to go on with it");
}

Automaton::StateId Automaton::Intern(std::span<const Reading> readings) {
  const uint32_t number = sets_->Add(readings);
  if (number == states_.size()) {
    states_.emplace_back().complete =
        std::any_of(readings.begin(), readings.end(),
                    [&](const Reading& reading) { return reading.node == graph_.end; });
  }
  return number;
}

uint32_t Automaton::InternReturns(std::span<const Return> returns) {
  const uint32_t number = returns_->Add(returns);
  if (number < depths_.size()) return number;
  uint32_t deepest = 0;
  for (const Return& to : returns) {
    if (graph_.nodes[to.node].kind != NodeKind::kEnd)
      deepest = std::max(deepest, depths_[to.returns] + 1u);
  }
  depths_.push_back(static_cast<uint16_t>(deepest));
  return number;
}

absl::StatusOr<Automaton::StateId> Automaton::Start() {
  const std::vector<Return> end = {{graph_.end, 0, 0, 0}};
  const std::vector<Reading> readings =
      Close({{graph_.rules[graph_.root], 0, 0, 0, InternReturns(end)}});
  if (Exhausted()) return ExhaustedError();
  return Intern(readings);
}

absl::StatusOr<Automaton::StateId> Automaton::Step(StateId state, uint8_t byte) {
  const StateId known = states_[state].next.Find(byte);
  if (known != kUnknown) {
    CountStep(state, byte);
    if (Exhausted()) return ExhaustedError();
    return known;
  }
  const bool first = touched_.First(&states_[state].touch, byte);
  const std::span<const Reading> readings = (*sets_)[state];
  work_ += first ? 1 : 0;
  // Found again faster than remembered.
  if (std::none_of(readings.begin(), readings.end(),
                   [&](const Reading& reading) { return MayTake(reading, byte); })) {
    return kDead;
  }
  work_ += static_cast<int64_t>(readings.size());
  if (Exhausted()) return ExhaustedError();
  std::vector<Reading> after;
  bool close = false;
  for (const Reading& reading : readings) {
    if (const std::optional<Reading> next = StepReading(reading, byte)) {
      after.push_back(*next);
      close |= !TakesByte(*next);
    }
  }
  const int64_t before = work_;
  work_ += 4;
  if (close) {
    after = Close(after);
    if (Exhausted() || after.size() > kReadingsMax) return ExhaustedError();
  } else {
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }
  const StateId next = Intern(after);  // of none: kDead
  Transitions& steps = states_[state].next;
  table_bytes_ += steps.Add(byte, next, work_ - before);
  work_ = before + steps.CostOf(byte);
  if (Exhausted()) return ExhaustedError();
  return next;
}

void Automaton::CountStep(StateId state, uint8_t byte) {
  if (!touched_.First(&states_[state].touch, byte)) return;
  const std::span<const Reading> readings = (*sets_)[state];
  work_ += 1 + static_cast<int64_t>(readings.size()) + states_[state].next.CostOf(byte);
  // Steps of strings are counted by themselves, as several states share them.
  for (const Reading& reading : readings) {
    if (graph_.nodes[reading.node].kind == NodeKind::kString) StepReading(reading, byte);
  }
}

bool Automaton::MayTake(const Reading& reading, uint8_t byte) const {
  const Node& node = graph_.nodes[reading.node];
  switch (node.kind) {
    case NodeKind::kText:
      return static_cast<uint8_t>(graph_.texts[node.arg][reading.c]) == byte;
    case NodeKind::kGap:
      return byte == ' ' || byte == '\n' || byte == '\t';
    case NodeKind::kNumber:
      return (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == 'e' ||
             byte == 'E' || byte == '+';
    case NodeKind::kTexts:
    case NodeKind::kKey:
    case NodeKind::kClass:
    case NodeKind::kFree:
      return true;
    case NodeKind::kString:
      return byte >= 0x20 || graph_.strings[node.arg].form == TextForm::kPlain;
    default:
      return false;
  }
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
    case NodeKind::kKey:
      return StepKey(node, reading, byte);
    default:
      return std::nullopt;
  }
}

std::optional<Reading> Automaton::StepKey(const Node& node, Reading reading, uint8_t byte) const {
  const ObjectNode& object = graph_.objects[node.arg];
  const TextTrie& keys = graph_.tries[object.keys];
  reading.c = keys.Step(reading.c, byte);
  if (reading.c == TextTrie::kNone) return std::nullopt;
  const ObjectNode::Range range = object.MayCome(reading.a, reading.b);
  if (!keys.HasNumber(reading.c, range.first, range.last)) return std::nullopt;
  const uint32_t property = keys.EndsHere(reading.c);
  if (property == TextTrie::kNone) return reading;
  return Reading{node.next, property, reading.b, 0, reading.returns};
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
      const CharRange& other = possible.ranges[static_cast<size_t>(i)];
      if (range.first > other.last || range.last < other.first) continue;
      // Whatever completes it is in the set: all of these are alike.
      const int any = AnyContinuations(decoded.state);
      const bool within = range.first <= other.first && range.last >= other.last;
      const DecoderState state = any > 0 && within ? AnyCharacter(any) : decoded.state;
      return Reading{reading.node, reading.a, reading.b, state, reading.returns};
    }
  }
  return std::nullopt;
}

}  // namespace tutti::grammar
