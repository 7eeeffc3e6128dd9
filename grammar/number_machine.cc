#include "grammar/number_machine.h"

#include <algorithm>
#include <string>

#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

using NumberState = NumberMachine::State;
using Wide = WideInteger;

// The phases of every kind, in the order of a number's text.
enum Phase : uint32_t {
  kStart,
  kMinus,
  kZero,  // the number begins with 0
  kDigits,
  kBeyond,  // digits beyond all bounds: the value is the remainder
  kPoint,
  kFraction,
  kExponent,
  kExponentSign,
  kExponentDigits,
};
// In a state's phase: bits 0 to 7 the phase, bit 8 the sign, from 16 on digits behind the point.
constexpr uint32_t kNegative = 0x100;

// Zeros right behind the point of a decimal below 1, which do not count as digits.
constexpr uint32_t kLeadingZerosMax = 24;
constexpr uint64_t kExponentDigitsMax = 3;

Phase PhaseOf(NumberState s) { return static_cast<Phase>(s.phase & 0xFF); }
bool IsNegative(NumberState s) { return (s.phase & kNegative) != 0; }
uint32_t PlacesOf(NumberState s) { return s.phase >> 16; }
bool IsDigit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

NumberState InPhase(NumberState s, Phase phase, uint64_t value) {
  return {(s.phase & ~0xFFu) | phase, value};
}

// Any number: the value counts digits of the part under way.
std::optional<NumberState> StepAny(NumberState s, uint8_t byte) {
  const Phase phase = PhaseOf(s);
  const bool exponent = byte == 'e' || byte == 'E';
  switch (phase) {
    case kStart:
    case kMinus:
      if (phase == kStart && byte == '-') return InPhase(s, kMinus, 0);
      if (byte == '0') return InPhase(s, kZero, 0);
      if (IsDigit(byte)) return InPhase(s, kDigits, 1);
      return std::nullopt;
    case kZero:
    case kDigits:
      if (byte == '.') return InPhase(s, kPoint, 0);
      if (exponent) return InPhase(s, kExponent, 0);
      if (phase == kDigits && IsDigit(byte) && s.value < kNumberDigitsMax) {
        return InPhase(s, kDigits, s.value + 1);
      }
      return std::nullopt;
    case kPoint:
    case kFraction:
      if (IsDigit(byte) && s.value < kNumberDigitsMax) return InPhase(s, kFraction, s.value + 1);
      if (phase == kFraction && exponent) return InPhase(s, kExponent, 0);
      return std::nullopt;
    case kExponent:
      if (byte == '+' || byte == '-') return InPhase(s, kExponentSign, 0);
      [[fallthrough]];
    case kExponentSign:
    case kExponentDigits:
      if (!IsDigit(byte) || s.value >= kExponentDigitsMax) return std::nullopt;
      return InPhase(s, kExponentDigits, s.value + 1);
    case kBeyond:
      break;
  }
  return std::nullopt;
}

// Bounds of an integer's magnitude, for its sign.
struct Magnitudes {
  uint64_t min = 0;
  std::optional<uint64_t> max;
  bool any = true;
};

Magnitudes MagnitudesOf(const NumberMachine& m, bool negative) {
  Magnitudes out;
  std::optional<Wide> low = m.min;
  std::optional<Wide> high = m.max;
  if (negative) {
    low = m.max ? std::optional(-*m.max) : std::nullopt;
    high = m.min ? std::optional(-*m.min) : std::nullopt;
  }
  const Wide least = std::max<Wide>(low.value_or(0), negative ? 1 : 0);
  out.min = static_cast<uint64_t>(least);
  out.any = !high || *high >= least;
  if (high && out.any) out.max = static_cast<uint64_t>(*high);
  return out;
}

// Whether a multiple of the step begins with the digits of `value`, or is it, within the bounds.
bool AliveInteger(const NumberMachine& m, bool negative, Wide value) {
  const Magnitudes bounds = MagnitudesOf(m, negative);
  if (!bounds.any) return false;
  if (!bounds.max) return value != 0 || bounds.min == 0;
  const auto step = static_cast<Wide>(m.step);
  Wide power = 1;
  for (int more = 0; more <= 18; ++more, power *= 10) {
    const Wide begin = value * power;
    if (begin > *bounds.max) return false;
    const Wide low = std::max<Wide>(begin, bounds.min);
    const Wide high = std::min<Wide>(begin + power - 1, *bounds.max);
    if ((low + step - 1) / step * step <= high) return true;
    if (value == 0) return false;
  }
  return false;
}

std::optional<NumberState> StepInteger(const NumberMachine& m, NumberState s, uint8_t byte) {
  const Phase phase = PhaseOf(s);
  if (phase == kStart && byte == '-') {
    for (uint64_t digit = 1; digit <= 9; ++digit) {
      if (AliveInteger(m, true, digit)) return NumberState{kMinus | kNegative, 0};
    }
    return std::nullopt;
  }
  if (!IsDigit(byte) || phase == kZero) return std::nullopt;
  const auto digit = static_cast<uint64_t>(byte - '0');
  const bool negative = IsNegative(s);
  if (phase == kStart || phase == kMinus) {
    if (!AliveInteger(m, negative, digit) || (negative && digit == 0)) return std::nullopt;
    return InPhase(s, digit == 0 ? kZero : kDigits, digit);
  }
  const Magnitudes bounds = MagnitudesOf(m, negative);
  const Wide value = Wide{s.value} * 10 + digit;
  const auto step = static_cast<Wide>(m.step);
  if (phase == kBeyond) {
    const uint32_t count = PlacesOf(s) + 1;
    // A step may need more digits to end.
    if (m.step == 1 && count > static_cast<uint32_t>(kNumberDigitsMax)) return std::nullopt;
    const uint32_t counted = m.step == 1 ? count << 16 : 0;
    return NumberState{kBeyond | (s.phase & kNegative) | counted,
                       static_cast<uint64_t>(value % step)};
  }
  if (bounds.max) {
    if (!AliveInteger(m, negative, value)) return std::nullopt;
    return InPhase(s, kDigits, static_cast<uint64_t>(value));
  }
  if (value >= Wide{bounds.min} && value >= step) {
    return InPhase(s, kBeyond, static_cast<uint64_t>(value % step));
  }
  return InPhase(s, kDigits, static_cast<uint64_t>(value));
}

bool AcceptsInteger(const NumberMachine& m, NumberState s) {
  const Phase phase = PhaseOf(s);
  const auto step = static_cast<uint64_t>(m.step);
  if (phase == kBeyond) return s.value % step == 0;
  if (phase != kZero && phase != kDigits) return false;
  const Magnitudes bounds = MagnitudesOf(m, IsNegative(s));
  return bounds.any && s.value >= bounds.min && (!bounds.max || s.value <= *bounds.max) &&
         s.value % step == 0;
}

constexpr Wide kHuge = Wide{1} << 100;

// The value, 10^places times, as a whole number: rounded down, or up. kHuge for all that is larger
// than any decimal here.
Wide Scaled(const Decimal& d, int64_t places, bool up) {
  if (d.digits.empty()) return 0;
  const int64_t power = d.exponent + places;
  const int64_t top = power + static_cast<int64_t>(d.digits.size());
  Wide magnitude = 0;
  bool exact = true;
  if (top > 28) {
    magnitude = kHuge;
  } else {
    for (int64_t i = 0; i < static_cast<int64_t>(d.digits.size()); ++i) {
      if (i < top) {
        magnitude = magnitude * 10 + (d.digits[static_cast<size_t>(i)] - '0');
      } else {
        exact = false;  // the last digit is no zero
      }
    }
    for (int64_t i = static_cast<int64_t>(d.digits.size()); i < top; ++i) magnitude *= 10;
  }
  if (!exact && up != d.negative) ++magnitude;
  return d.negative ? -magnitude : magnitude;
}

// Whether a multiple of 10^-places in [begin, end] times that is within the bounds.
bool Meets(const NumberMachine& m, bool negative, Wide begin, Wide end, int64_t places) {
  const auto exclusive = [&](const NumberMachine::Bound& bound) {
    return bound.exclusive &&
           Scaled(bound.value, places, true) == Scaled(bound.value, places, false);
  };
  Wide low = negative ? -end : begin;
  Wide high = negative ? -begin : end;
  if (m.low) low = std::max<Wide>(low, Scaled(m.low->value, places, true) + exclusive(*m.low));
  if (m.high)
    high = std::min<Wide>(high, Scaled(m.high->value, places, false) - exclusive(*m.high));
  return low <= high;
}

Wide Power10(int64_t n) {
  Wide out = 1;
  for (; n > 0; --n) out *= 10;
  return out;
}

int64_t DigitsOf(uint64_t value) {
  return value == 0 ? 0 : static_cast<int64_t>(std::to_string(value).size());
}

// Whether a decimal goes on from digits `value`, `places` of which are behind the point, with a
// fraction that is not yet there or may grow.
bool AliveDecimal(const NumberMachine& m, bool negative, uint64_t value, bool behind_point,
                  int64_t places) {
  const int64_t left = kBoundedDigitsMax - DigitsOf(value);
  const Wide least = negative && value == 0 ? 1 : 0;
  if (value == 0) {  // 0.000…: zeros do not count
    for (int64_t zeros = places; zeros <= kLeadingZerosMax; ++zeros) {
      if (Meets(m, negative, least, Power10(left) - 1, zeros + left)) return true;
    }
    return false;
  }
  const Wide begin = static_cast<Wide>(value) * Power10(left);
  const Wide end = begin + Power10(left) - 1;
  if (behind_point) return Meets(m, negative, begin, end, places + left);
  for (int64_t whole = 0; whole < left; ++whole) {
    if (Meets(m, negative, begin, end, left - whole)) return true;
  }
  return false;
}

std::optional<NumberState> StepDecimal(const NumberMachine& m, NumberState s, uint8_t byte) {
  const Phase phase = PhaseOf(s);
  const bool negative = IsNegative(s);
  if (phase == kStart && byte == '-') {
    for (uint64_t digit = 0; digit <= 9; ++digit) {
      if (AliveDecimal(m, true, digit, false, 0)) return NumberState{kMinus | kNegative, 0};
    }
    return std::nullopt;
  }
  if (byte == '.') {
    if (phase != kZero && phase != kDigits) return std::nullopt;
    if (!AliveDecimal(m, negative, s.value, true, 0)) return std::nullopt;
    return InPhase(s, kPoint, s.value);
  }
  if (!IsDigit(byte) || phase == kZero) return std::nullopt;
  const uint64_t value = s.value * 10 + static_cast<uint64_t>(byte - '0');
  if (phase == kStart || phase == kMinus || phase == kDigits) {
    if (DigitsOf(value) >= kBoundedDigitsMax) return std::nullopt;
    if (!AliveDecimal(m, negative, value, false, 0)) return std::nullopt;
    return InPhase(s, value == 0 ? kZero : kDigits, value);
  }
  const uint32_t places = PlacesOf(s) + 1;
  if (DigitsOf(value) > kBoundedDigitsMax || (value == 0 && places > kLeadingZerosMax)) {
    return std::nullopt;
  }
  if (!AliveDecimal(m, negative, value, true, places)) return std::nullopt;
  return NumberState{kFraction | (s.phase & kNegative) | places << 16, value};
}

bool AcceptsDecimal(const NumberMachine& m, NumberState s) {
  if (PhaseOf(s) != kFraction) return false;
  const auto value = static_cast<Wide>(s.value);
  return (!IsNegative(s) || value != 0) && Meets(m, IsNegative(s), value, value, PlacesOf(s));
}

}  // namespace

std::optional<NumberState> NumberMachine::Step(NumberState state, uint8_t byte) const {
  switch (kind) {
    case Kind::kAny:
      return StepAny(state, byte);
    case Kind::kInteger:
      return StepInteger(*this, state, byte);
    case Kind::kDecimal:
      return StepDecimal(*this, state, byte);
  }
  return std::nullopt;
}

bool NumberMachine::Accepts(NumberState state) const {
  const Phase phase = PhaseOf(state);
  switch (kind) {
    case Kind::kAny:
      return phase == kZero || phase == kDigits || phase == kFraction || phase == kExponentDigits;
    case Kind::kInteger:
      return AcceptsInteger(*this, state);
    case Kind::kDecimal:
      return AcceptsDecimal(*this, state);
  }
  return false;
}

bool NumberMachine::possible() const {
  constexpr std::string_view kFirst = "-0123456789";
  return std::any_of(kFirst.begin(), kFirst.end(), [&](char c) {
    return Step(NumberState(), static_cast<uint8_t>(c)).has_value();
  });
}

NumberState NumberMachine::Alike(NumberState state) const {
  constexpr auto kFar = static_cast<uint64_t>(kNumberDigitsMax) - kTokenBytesMax;
  const Phase phase = PhaseOf(state);
  if (kind == Kind::kAny && (phase == kDigits || phase == kFraction) && state.value <= kFar) {
    state.value = 1;
  }
  if (kind == Kind::kInteger && phase == kBeyond && PlacesOf(state) <= kFar) {
    state.phase &= 0xFFFF;
  }
  return state;
}

}  // namespace tutti::grammar
