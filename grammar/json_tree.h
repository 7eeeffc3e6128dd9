// JSON from outside as a tree that keeps the order of members and the spelling of numbers.
//
// Values; pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grammar/build_work.h"

namespace tutti::grammar {

struct JsonValue {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject };
  struct Member;

  Kind kind = Kind::kNull;
  bool boolean = false;
  uint32_t weight = 0;  // units of work to look at all of it once (BuildWork)
  std::string text;     // of a string; the spelling of a number
  std::vector<JsonValue> items;
  std::vector<Member> members;    // in the order of the source
  std::vector<uint32_t> by_name;  // indexes of members, by ascending name
  uint64_t name_bits = 0;         // NameBit of each member

  // The member, or null.
  const Member* FindMember(std::string_view name) const;
  const JsonValue* Find(std::string_view name) const;
  bool is(Kind other) const { return kind == other; }
  // One bit that names of other beginnings, ends or lengths seldom have.
  static uint64_t NameBit(std::string_view name) {
    if (name.empty()) return 1;
    return uint64_t{1} << ((name.size() * 7 + static_cast<uint8_t>(name.front()) * 5 +
                            static_cast<uint8_t>(name.back())) &
                           63);
  }
  // Units of work to find one member of this object, and to look for all keywords.
  int64_t find_cost() const;
  int64_t look_cost() const;
};

struct JsonValue::Member {
  std::string name;
  JsonValue value;
};

// INVALID_ARGUMENT for text that is no JSON, with the byte; a key twice in one object; more values
// than kSourceValuesMax, nested deeper than kSourceDepthMax, or a number of more than
// kNumberCharactersMax.
absl::StatusOr<JsonValue> ParseJsonTree(std::string_view text, BuildWork* work);

// The text of a string in JSON, with its quotes: escapes only where there must be, the short ones
// where there are such.  REQUIRES: valid UTF-8
std::string JsonStringText(std::string_view text);

// The value's shortest text: no whitespace, members in their order, numbers as they are spelled but
// for integers, which have neither fraction nor exponent.
std::string JsonText(const JsonValue& value);

// A number as a sign, digits and a power of ten: 12.50e1 is +125 * 10^0. Equal numbers are equal.
struct Decimal {
  bool negative = false;
  std::string digits;    // no zero at either end; empty: zero
  int64_t exponent = 0;  // of the last digit

  bool operator==(const Decimal&) const = default;
  bool is_integer() const { return digits.empty() || exponent >= 0; }
};
// REQUIRES: a number of JSON.  Exponents beyond a million are cut to that.
Decimal ToDecimal(std::string_view number);

// < 0, 0 or > 0.
int Compare(const Decimal& a, const Decimal& b);

// Whether both are the same value: numbers by their value, objects in any order. Takes no more than
// the smaller of their weights.
bool SameValue(const JsonValue& a, const JsonValue& b);
// A text that equal values have in common, and others do not.
std::string SameText(const JsonValue& value);

}  // namespace tutti::grammar
