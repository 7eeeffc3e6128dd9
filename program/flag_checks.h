// The values that a flag takes, as a table has them (flags.h) and as the parser checks them. Each
// refusal quotes the value and says what would be right.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/strings/string_view.h"

namespace CLI {
class Option;
}  // namespace CLI

namespace tutti {

// The values that a flag takes. Made by the functions below.
struct FlagCheck {
  enum class Kind : uint8_t {
    kAny,
    kIntegerIn,
    kNumberIn,
    kNotNegative,
    kPositive,
    kSeconds,
    kMilliseconds,
    kOneOf,
    kByteCount,
    kFile,
    kFolder,
    kAddress,
    kListenAddress,
    kAddresses,
  };
  Kind kind = Kind::kAny;
  int64_t integer_min = 0, integer_max = 0;
  double number_min = 0, number_max = 0;
  absl::string_view choices = {};
};

inline FlagCheck IntegerIn(int64_t min, int64_t max) {
  return {.kind = FlagCheck::Kind::kIntegerIn, .integer_min = min, .integer_max = max};
}
inline FlagCheck NumberIn(double min, double max) {
  return {.kind = FlagCheck::Kind::kNumberIn, .number_min = min, .number_max = max};
}
inline FlagCheck NotNegative() { return {.kind = FlagCheck::Kind::kNotNegative}; }
inline FlagCheck Positive() { return {.kind = FlagCheck::Kind::kPositive}; }
// `choices` is "width,expert" and outlives the FlagSet's Add.
inline FlagCheck OneOf(absl::string_view choices) {
  return {.kind = FlagCheck::Kind::kOneOf, .choices = choices};
}
// Of variables that hold a Duration: a number of seconds, or a whole number of milliseconds.
inline FlagCheck SecondsIn(double min, double max) {
  return {.kind = FlagCheck::Kind::kSeconds, .number_min = min, .number_max = max};
}
inline FlagCheck AnySeconds() { return SecondsIn(0, std::numeric_limits<double>::infinity()); }
inline FlagCheck MillisecondsIn(int64_t min, int64_t max) {
  return {.kind = FlagCheck::Kind::kMilliseconds, .integer_min = min, .integer_max = max};
}
// An amount such as 500MB or 2GiB, as ParseBytes reads it; the variable holds the bytes.
inline FlagCheck IsByteCount() { return {.kind = FlagCheck::Kind::kByteCount}; }
// Of the three, see base/address.h: one to dial, one to listen on, several to dial with commas
// between.
inline FlagCheck IsAddress() { return {.kind = FlagCheck::Kind::kAddress}; }
inline FlagCheck IsListenAddress() { return {.kind = FlagCheck::Kind::kListenAddress}; }
inline FlagCheck IsAddresses() { return {.kind = FlagCheck::Kind::kAddresses}; }
inline FlagCheck IsFile() { return {.kind = FlagCheck::Kind::kFile}; }
inline FlagCheck IsFolder() { return {.kind = FlagCheck::Kind::kFolder}; }

// Functions for flags.cc, which alone knows the parser. RefuseSign is for numbers without a sign:
// the parser reads "-1" as the largest that there is.
void RefuseSign(CLI::Option* option);
void AddFlagCheck(const FlagCheck& check, CLI::Option* option);

}  // namespace tutti
