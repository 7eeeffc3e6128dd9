#include "grammar/number_machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/random.h"

namespace tutti::grammar {
namespace {

// Whether the text is a number of the machine's, and whether it can become one.
bool IsNumber(const NumberMachine& machine, const std::string& text, bool* prefix) {
  NumberMachine::State state;
  *prefix = true;
  for (const char c : text) {
    const auto next = machine.Step(state, static_cast<uint8_t>(c));
    if (!next) return *prefix = false;
    state = *next;
  }
  return machine.Accepts(state);
}

// Every integer of a few digits, against what arithmetic says; and a beginning is one exactly if a
// number begins with it.
TEST(NumberMachineTest, IntegersWithinBounds) {
  Random random(7);
  for (int trial = 0; trial < 60; ++trial) {
    NumberMachine machine{.kind = NumberMachine::Kind::kInteger};
    const auto number = [&] { return static_cast<int64_t>(random.Uniform() * 3000) - 1500; };
    if (random.Chance(0.8)) machine.min = number();
    if (random.Chance(0.8)) machine.max = number();
    if (random.Chance(0.5)) machine.step = 1 + static_cast<int64_t>(random.Uniform() * 40);
    std::string seen = "|";
    for (int64_t i = -2000; i <= 2000; ++i) {
      bool prefix = false;
      const bool expected = (!machine.min || i >= *machine.min) &&
                            (!machine.max || i <= *machine.max) && i % machine.step == 0;
      EXPECT_EQ(IsNumber(machine, std::to_string(i), &prefix), expected) << i << " trial " << trial;
      if (expected) seen += std::to_string(i) + "|";
    }
    if (!machine.min || !machine.max) continue;
    EXPECT_EQ(machine.possible(), seen.size() > 1) << trial;
    for (int64_t i = -2000; i <= 2000; ++i) {
      bool prefix = false;
      IsNumber(machine, std::to_string(i), &prefix);
      EXPECT_EQ(prefix, seen.find("|" + std::to_string(i)) != std::string::npos)
          << i << " trial " << trial;
    }
  }
}

TEST(NumberMachineTest, DecimalsWithinBounds) {
  Random random(8);
  for (int trial = 0; trial < 30; ++trial) {
    NumberMachine machine{.kind = NumberMachine::Kind::kDecimal};
    const auto bound = [&] {
      const int digits = static_cast<int>(random.Uniform() * 4000) - 2000;
      return NumberMachine::Bound{{ToDecimal(std::to_string(digits) + "e-2")}, random.Chance(0.5)};
    };
    if (random.Chance(0.8)) machine.low = bound();
    if (random.Chance(0.8)) machine.high = bound();
    for (int i = -2500; i <= 2500; ++i) {
      const std::string text = (i < 0 ? "-" : "") + std::to_string(std::abs(i) / 100) + "." +
                               std::to_string(std::abs(i) / 10 % 10) +
                               std::to_string(std::abs(i) % 10);
      const Decimal value = ToDecimal(text);
      const auto beyond = [&](const std::optional<NumberMachine::Bound>& limit, int side) {
        if (!limit) return false;
        const int order = Compare(value, limit->value) * side;
        return order > 0 || (order == 0 && limit->exclusive);
      };
      bool prefix = false;
      const bool accepted = IsNumber(machine, text, &prefix);
      EXPECT_EQ(accepted, !beyond(machine.high, 1) && !beyond(machine.low, -1)) << text;
      EXPECT_TRUE(prefix || !accepted);
    }
  }
}

TEST(NumberMachineTest, DecimalsLeadSomewhere) {
  NumberMachine machine{.kind = NumberMachine::Kind::kDecimal};
  machine.low = {{ToDecimal("0.12345")}, true};
  machine.high = {{ToDecimal("0.12346")}, true};
  for (const std::string part :
       {"0", "0.", "0.1", "0.1234", "0.12345", "0.123450", "0.1234500000"}) {
    bool prefix = false;
    EXPECT_FALSE(IsNumber(machine, part, &prefix) && part.size() < 9) << part;
    EXPECT_TRUE(prefix) << part;
  }
  for (const std::string part : {"1", "-", "0.2", "0.12346", "0.1233"}) {
    bool prefix = true;
    IsNumber(machine, part, &prefix);
    EXPECT_FALSE(prefix) << part;
  }
  machine.high = {{ToDecimal("0.12345")}, false};
  EXPECT_FALSE(machine.possible());
}

// Zero is below the least decimal, however many decimals it has.
TEST(NumberMachineTest, DecimalsNextToZero) {
  const std::string zeros(24, '0');
  for (const bool exclusive : {false, true}) {
    NumberMachine above{.kind = NumberMachine::Kind::kDecimal};
    above.low = {{ToDecimal("0")}, exclusive};
    NumberMachine below{.kind = NumberMachine::Kind::kDecimal};
    below.high = {{ToDecimal("0.0e5")}, exclusive};
    for (size_t digits = 1; digits <= 15; ++digits) {
      bool prefix = false;
      const std::string number = "0." + zeros + std::string(digits, '7');
      EXPECT_TRUE(IsNumber(above, number, &prefix)) << number;
      EXPECT_FALSE(IsNumber(above, "-" + number, &prefix)) << number;
      EXPECT_TRUE(IsNumber(below, "-" + number, &prefix)) << number;
      EXPECT_FALSE(IsNumber(below, number, &prefix)) << number;
    }
    bool prefix = false;
    EXPECT_EQ(IsNumber(above, "0.0", &prefix), !exclusive);
    EXPECT_EQ(IsNumber(below, "0.0", &prefix), !exclusive);
  }
}

TEST(NumberMachineTest, FarDigitsAreAlike) {
  const NumberMachine any{.kind = NumberMachine::Kind::kAny};
  NumberMachine::State state;
  for (const char c : std::string("123456789")) state = *any.Step(state, static_cast<uint8_t>(c));
  EXPECT_EQ(any.Alike(state), *any.Step({}, '1'));
  std::string digits(320, '1');
  bool prefix = false;
  EXPECT_TRUE(IsNumber(any, digits, &prefix));
  IsNumber(any, digits + "1", &prefix);
  EXPECT_FALSE(prefix);
}

}  // namespace
}  // namespace tutti::grammar
