#include "text/vocab_and_merges.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/split_pattern.h"
#include "text/vocabulary_json.h"

namespace tutti::text {

absl::StatusOr<TokenizerSpec> ParseVocabAndMerges(std::string_view vocab_json,
                                                  std::string_view merges_txt) {
  auto parsed = ParseVocabJson(vocab_json);
  if (!parsed.ok()) return Annotate(parsed.status(), "vocab.json");
  TokenizerSpec spec;
  spec.file = "vocab.json";
  spec.vocabulary = std::move(parsed->vocabulary);
  spec.split_patterns.emplace_back(kQwen2SplitPattern);
  spec.normalization.nfc = true;
  size_t line_number = 0;
  while (!merges_txt.empty()) {
    const size_t end = std::min(merges_txt.find('\n'), merges_txt.size());
    std::string_view line = merges_txt.substr(0, end);
    merges_txt.remove_prefix(std::min(end + 1, merges_txt.size()));
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.substr(0, 8) == "#version") continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("merges.txt:", line_number, ": not two tokens with a space between"));
    }
    spec.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return spec;
}

}  // namespace tutti::text
