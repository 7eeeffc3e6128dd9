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

std::optional<Place> Automaton::StepString(const Node& node, Place place, uint8_t byte) {
  const StringNode& string = graph_.strings[node.arg];
  const StringMachine& machine = string.machine;
  const DecodedByte decoded = DecodeByte(string.form, place.b, byte);
  switch (decoded.kind) {
    case DecodedByte::Kind::kRefused:
      return std::nullopt;
    case DecodedByte::Kind::kQuote:
      if (!machine.MayEnd(AcceptsString(node.arg, place.a), place.c)) return std::nullopt;
      return Place{node.next, 0, 0, 0, place.returns};
    case DecodedByte::Kind::kPart:
      place.b = decoded.state;
      if (!SomeLeadsOn(node.arg, place, Possible(decoded.state))) return std::nullopt;
      return place;
    case DecodedByte::Kind::kCharacter:
      break;
  }
  place.a = StepCharacter(node.arg, place.a, ClassesOf(node.arg).Of(decoded.character));
  place.b = 0;
  // Without a largest length only the least one matters.
  ++place.c;
  if (machine.max() == StringMachine::kUnbounded && place.c > machine.min()) --place.c;
  if (!machine.Alive(place.a, place.c)) return std::nullopt;
  return place;
}

bool Automaton::SomeLeadsOn(uint32_t string, const Place& place,
                            const PossibleCharacters& possible) {
  const StringMachine& machine = graph_.strings[string].machine;
  if (machine.parts().empty()) return place.c < machine.max();
  for (int i = 0; i < possible.count; ++i) {
    const CharRange range = possible.ranges[static_cast<size_t>(i)];
    const bool some = ClassesOf(string).Any(range.first, range.last, [&](uint32_t c) {
      ++work_;
      return machine.Alive(StepCharacter(string, place.a, c), int64_t{place.c} + 1);
    });
    if (some) return true;
  }
  return false;
}

}  // namespace tutti::grammar
