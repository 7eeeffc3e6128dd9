#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {

StringStates& Automaton::StatesOf(uint32_t string) {
  std::unique_ptr<StringStates>& states = strings_[string];
  if (states == nullptr) {
    states = std::make_unique<StringStates>(graph_.strings[string].machine.parts());
  }
  return *states;
}

const CharClasses& Automaton::ClassesOf(uint32_t string) {
  const StringStates* explored = graph_.strings[string].machine.explored();
  return explored != nullptr ? explored->classes() : StatesOf(string).classes();
}

uint32_t Automaton::StepCharacter(uint32_t string, uint32_t state, uint32_t character_class) {
  const StringStates* explored = graph_.strings[string].machine.explored();
  if (explored != nullptr) return explored->Known(state, character_class);
  return StatesOf(string).Step(state, character_class, &work_);
}

bool Automaton::AcceptsString(uint32_t string, uint32_t state) {
  const StringStates* explored = graph_.strings[string].machine.explored();
  return explored != nullptr ? explored->Accepts(state) : StatesOf(string).Accepts(state);
}

std::optional<Reading> Automaton::StepString(const Node& node, Reading reading, uint8_t byte) {
  const StringNode& string = graph_.strings[node.arg];
  const StringMachine& machine = string.machine;
  const DecodedByte decoded = DecodeByte(string.form, reading.b, byte);
  switch (decoded.kind) {
    case DecodedByte::Kind::kRefused:
      return std::nullopt;
    case DecodedByte::Kind::kQuote:
      if (!machine.MayEnd(AcceptsString(node.arg, reading.a), reading.c)) return std::nullopt;
      return Reading{node.next, 0, 0, 0, reading.returns};
    case DecodedByte::Kind::kPart:
      reading.b = decoded.state;
      if (!SomeLeadsOn(node.arg, reading, Possible(decoded.state))) return std::nullopt;
      return reading;
    case DecodedByte::Kind::kCharacter:
      break;
  }
  reading.a = StepCharacter(node.arg, reading.a, ClassesOf(node.arg).Of(decoded.character));
  reading.b = 0;
  // Without a largest length only the least one matters.
  ++reading.c;
  if (machine.max() == StringMachine::kUnbounded && reading.c > machine.min()) --reading.c;
  if (!machine.Alive(reading.a, reading.c)) return std::nullopt;
  return reading;
}

std::optional<Reading> Automaton::StepFree(const Node& node, Reading reading, uint8_t byte) const {
  const FreeNode& free = graph_.frees[node.arg];
  const DecodedByte decoded = DecodeByte(TextForm::kPlain, reading.b, byte);
  if (decoded.kind == DecodedByte::Kind::kRefused) return std::nullopt;
  const uint32_t state = free.search.Step(reading.a, byte);
  if (state == TextSearch::kFound) {
    if (!free.until) return std::nullopt;
    return Reading{node.next, 0, 0, 0, reading.returns};
  }
  if (!free.until && !free.search.CanMiss(state, decoded.state)) return std::nullopt;
  reading.a = state;
  reading.b = decoded.state;
  return reading;
}

bool Automaton::SomeLeadsOn(uint32_t string, const Reading& reading,
                            const PossibleCharacters& possible) {
  const StringMachine& machine = graph_.strings[string].machine;
  if (machine.parts().empty()) return reading.c < machine.max();
  for (int i = 0; i < possible.count; ++i) {
    const CharRange range = possible.ranges[static_cast<size_t>(i)];
    const bool some = ClassesOf(string).Any(range.first, range.last, [&](uint32_t c) {
      ++work_;
      return machine.Alive(StepCharacter(string, reading.a, c), int64_t{reading.c} + 1);
    });
    if (some) return true;
  }
  return false;
}

}  // namespace tutti::grammar
