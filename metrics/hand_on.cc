#include "metrics/hand_on.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tutti::metrics {
namespace {

struct FamilyText {
  std::string name, comments, samples;
};

std::vector<FamilyText> Families(std::string_view text) {
  std::vector<FamilyText> families;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n', absl::SkipEmpty())) {
    const bool is_comment = absl::StartsWith(line, "# HELP ") || absl::StartsWith(line, "# TYPE ");
    if (is_comment) {
      const absl::string_view rest = line.substr(7);
      const std::string name(rest.substr(0, rest.find(' ')));
      if (families.empty() || families.back().name != name) families.push_back({name, "", ""});
    }
    // A sample without a family is one of its own.
    if (families.empty()) families.emplace_back();
    absl::StrAppend(is_comment ? &families.back().comments : &families.back().samples, line, "\n");
  }
  return families;
}

// name{a="b"} 1 → name{process="p",a="b"} 1
std::string Labelled(const std::string& samples, std::string_view process) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(samples, '\n', absl::SkipEmpty())) {
    const size_t end = line.find_first_of("{ ");
    const bool has_labels = end != absl::string_view::npos && line[end] == '{';
    absl::StrAppend(&out, line.substr(0, end), "{process=\"",
                    absl::string_view(process.data(), process.size()), "\"", has_labels ? "," : "}",
                    line.substr(has_labels ? end + 1 : end), "\n");
  }
  return out;
}

}  // namespace

std::string JoinExpositions(std::string_view own, std::string_view others,
                            std::string_view process) {
  std::vector<FamilyText> all = Families(own);
  absl::flat_hash_map<std::string, size_t> places;
  for (size_t i = 0; i < all.size(); ++i) places.emplace(all[i].name, i);
  for (FamilyText& family : Families(others)) {
    const auto place = places.find(family.name);
    if (place == places.end()) {
      all.push_back(std::move(family));
    } else {
      all[place->second].samples += Labelled(family.samples, process);
    }
  }
  std::string text;
  for (const FamilyText& family : all) absl::StrAppend(&text, family.comments, family.samples);
  return text;
}

}  // namespace tutti::metrics
