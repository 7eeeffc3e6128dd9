// Numbers of JSON within bounds, digit by digit: which beginnings can still become one.
//
// Values; pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/json_tree.h"

namespace tutti::grammar {

using WideInteger = __int128;

// The numbers that are asked for. Integers are spelled without fraction and exponent.
struct NumberMachine {
  enum class Kind : uint8_t {
    kAny,      // every number of JSON, fractions and exponents too
    kInteger,  // within bounds, a multiple of `step`
    kDecimal,  // with a fraction, within bounds, no more than kBoundedDigitsMax digits that count
  };
  struct Bound {
    Decimal value;
    bool exclusive = false;
  };

  Kind kind = Kind::kAny;
  std::optional<WideInteger> min;  // kInteger; at most kIntegerBoundMax from zero
  std::optional<WideInteger> max;
  int64_t step = 1;          // at least 1, at most kStepMax
  std::optional<Bound> low;  // kDecimal
  std::optional<Bound> high;

  // What has been read; the first state is all zero.
  struct State {
    uint32_t phase = 0;
    uint64_t value = 0;

    bool operator==(const State&) const = default;
  };

  // The state after another byte; nothing where no number goes on like this.
  std::optional<State> Step(State state, uint8_t byte) const;
  // Whether the text may end here.
  bool Accepts(State state) const;
  // Whether any number at all is within the bounds.
  bool possible() const;
  // A state from which the next kTokenBytesMax bytes are judged alike: digits are counted up to a
  // limit that is far away.
  State Alike(State state) const;
};

}  // namespace tutti::grammar
