#include "program/flag_checks.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/address.h"
#include "base/byte_size.h"
#include "program/suggestion.h"

namespace tutti {
namespace {

// The error of a value; "" if nothing is.
using Check = std::function<std::string(const std::string& text)>;

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// `kind` stands in --help where the value does.
void AddOne(const std::string& kind, const Check& check, CLI::Option* option) {
  option->check(CLI::Validator([check](std::string& text) { return check(text); }, kind));
}

std::string CheckInteger(const std::string& text, int64_t min, int64_t max) {
  int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(text, &number);
  if (is_number && number >= min && number <= max) return "";
  return absl::StrCat(Quoted(text), " is no whole number from ", min, " to ", max);
}

std::string CheckNumber(const std::string& text, std::optional<double> min,
                        std::optional<double> max) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || number != number) {
    return absl::StrCat(Quoted(text), " is no number");
  }
  if (min.has_value() && max.has_value() && (number < *min || number > *max)) {
    return absl::StrFormat("%s is not from %.10g to %.10g", Quoted(text), *min, *max);
  }
  if (min.has_value() && number < *min) return absl::StrCat(Quoted(text), " is below ", *min);
  return "";
}

std::string CheckPositive(const std::string& text) {
  const std::string wrong = CheckNumber(text, 0, std::nullopt);
  double number = 0;
  const bool is_zero = wrong.empty() && absl::SimpleAtod(text, &number) && number == 0;
  return is_zero ? absl::StrCat(Quoted(text), " is not above 0") : wrong;
}

void AddChoices(absl::string_view choices, CLI::Option* option) {
  const std::vector<std::string> all = absl::StrSplit(choices, ',');
  AddOne(
      absl::StrCat("{", choices, "}"),
      [all](const std::string& text) {
        if (std::find(all.begin(), all.end(), text) != all.end()) return std::string();
        return absl::StrCat(Quoted(text), " is not one of ", absl::StrJoin(all, ", "),
                            DidYouMean(text, all));
      },
      option);
}

std::string CheckFile(const std::string& text) {
  std::error_code error;
  const auto status = std::filesystem::status(text, error);
  if (!std::filesystem::exists(status)) return absl::StrCat("there is no file ", Quoted(text));
  return std::filesystem::is_directory(status)
             ? absl::StrCat(Quoted(text), " is a folder; give a file")
             : "";
}

std::string CheckFolder(const std::string& text) {
  std::error_code error;
  const auto status = std::filesystem::status(text, error);
  if (!std::filesystem::exists(status)) return absl::StrCat("there is no folder ", Quoted(text));
  return std::filesystem::is_directory(status)
             ? ""
             : absl::StrCat(Quoted(text), " is a file; give a folder");
}

// Several with commas between, of which each is dialled.
std::string CheckAddresses(const std::string& text) {
  for (const absl::string_view one : absl::StrSplit(text, ',')) {
    const absl::Status status = CheckAddress(one, AddressUse::kDial);
    if (!status.ok()) return MessageOf(status);
  }
  return "";
}

}  // namespace

void RefuseSign(CLI::Option* option) {
  AddOne(
      "",
      [](const std::string& text) {
        return absl::StartsWith(text, "-")
                   ? absl::StrCat(Quoted(text), " is no whole number from 0 up")
                   : std::string();
      },
      option);
}

void AddFlagCheck(const FlagCheck& check, CLI::Option* option) {
  switch (check.kind) {
    case FlagCheck::Kind::kAny:
      return;
    case FlagCheck::Kind::kMilliseconds:
    case FlagCheck::Kind::kIntegerIn: {
      const int64_t min = check.integer_min, max = check.integer_max;
      return AddOne(
          absl::StrCat("INT in [", min, " - ", max, "]"),
          [=](const std::string& text) { return CheckInteger(text, min, max); }, option);
    }
    case FlagCheck::Kind::kSeconds:
      if (check.number_min == 0 && std::isinf(check.number_max)) {
        return AddFlagCheck(NotNegative(), option);
      }
      return AddFlagCheck(NumberIn(check.number_min, check.number_max), option);
    case FlagCheck::Kind::kNumberIn: {
      const double min = check.number_min, max = check.number_max;
      return AddOne(
          absl::StrCat("FLOAT in [", min, " - ", max, "]"),
          [=](const std::string& text) { return CheckNumber(text, min, max); }, option);
    }
    case FlagCheck::Kind::kNotNegative:
      return AddOne(
          "NONNEGATIVE", [](const std::string& text) { return CheckNumber(text, 0, std::nullopt); },
          option);
    case FlagCheck::Kind::kPositive:
      return AddOne("POSITIVE", CheckPositive, option);
    case FlagCheck::Kind::kOneOf:
      return AddChoices(check.choices, option);
    case FlagCheck::Kind::kByteCount:
      return AddOne(
          "SIZE", [](const std::string& text) { return MessageOf(ParseBytes(text).status()); },
          option);
    case FlagCheck::Kind::kFile:
      return AddOne("FILE", CheckFile, option);
    case FlagCheck::Kind::kFolder:
      return AddOne("DIR", CheckFolder, option);
    case FlagCheck::Kind::kAddress:
      return AddOne(
          "ADDRESS",
          [](const std::string& text) { return MessageOf(CheckAddress(text, AddressUse::kDial)); },
          option);
    case FlagCheck::Kind::kListenAddress:
      return AddOne(
          "ADDRESS",
          [](const std::string& text) {
            return MessageOf(CheckAddress(text, AddressUse::kListen));
          },
          option);
    case FlagCheck::Kind::kAddresses:
      return AddOne("ADDRESS,…", CheckAddresses, option);
  }
}

}  // namespace tutti
