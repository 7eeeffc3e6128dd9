#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace tutti::grammar {

StringStates& Automaton::StatesOf(uint32_t string) {
  std::unique_ptr<StringStates>& states = strings_[string];
  if (states == nullptr) {
    states = std::make_unique<StringStates>(graph_.strings[string].machine.parts(),
                                            graph_.strings[string].machine.classes());
    string_bytes_ += states->bytes();
  }
  return *states;
}

const CharClasses& Automaton::ClassesOf(uint32_t string) const {
  return *graph_.strings[string].machine.classes();
}

uint32_t Automaton::StepCharacter(uint32_t string, uint32_t state, uint32_t character_class) {
  const StringStates* explored = graph_.strings[string].machine.explored();
  if (explored != nullptr) return explored->Known(state, character_class);
  StringStates& states = StatesOf(string);
  const size_t before = states.bytes();
  const uint32_t next = states.StepOnce(state, character_class, &touched_, &work_);
  string_bytes_ += states.bytes() - before;
  return next;
}

uint32_t Automaton::StepCharacterFor(uint32_t string, uint32_t state, uint32_t character_class,
                                     int64_t* cost) {
  const StringStates* explored = graph_.strings[string].machine.explored();
  if (explored != nullptr) return explored->Known(state, character_class);
  StringStates& states = StatesOf(string);
  const size_t before = states.bytes();
  const uint32_t next = states.Step(state, character_class, cost);
  string_bytes_ += states.bytes() - before;
  return next;
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
    case DecodedByte::Kind::kPart: {
      const PossibleCharacters possible = Possible(decoded.state);
      reading.b = AlikeCharacter(node.arg, decoded.state, possible);
      if (!SomeLeadsOn(node.arg, reading, possible)) return std::nullopt;
      return reading;
    }
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
  const int any = AnyContinuations(decoded.state);
  reading.b = any > 0 ? AnyCharacter(any) : decoded.state;
  return reading;
}

DecoderState Automaton::AlikeCharacter(uint32_t string, DecoderState state,
                                       const PossibleCharacters& possible) {
  const int any = AnyContinuations(state);
  if (any == 0) return state;
  std::optional<uint32_t> only;
  const bool several =
      ClassesOf(string).Any(possible.ranges[0].first, possible.ranges[0].last, [&](uint32_t c) {
        const bool other = only && *only != c;
        only = c;
        return other;
      });
  if (several || !only) return state;
  // The first one met stands for all.
  const uint64_t key = uint64_t{string} << 32 | uint64_t{*only} << 2 | static_cast<uint64_t>(any);
  return alike_characters_.try_emplace(key, state).first->second;
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
