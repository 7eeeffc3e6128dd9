#include "text/text_normalizer.h"

#include "text/unicode.h"

namespace tutti::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// The text without the spaces at the ends and all but one of every run of them. U+2581 is none
// here, as in sentencepiece, except at the end.
std::string_view TrimSpaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with(kSpaceMark)) {
    text.remove_suffix(text.ends_with(' ') ? 1 : kSpaceMark.size());
  }
  return text;
}

}  // namespace

std::string TextNormalizer::Normalize(std::string_view stretch, bool first) const {
  if (stretch.empty()) return {};
  if (options_.nfc) return NormalizeSpaces(NormalizeNfc(stretch), first);
  if (options_.characters != nullptr) {
    return NormalizeSpaces(options_.characters->Apply(stretch), first);
  }
  return NormalizeSpaces(stretch, first);
}

std::string TextNormalizer::NormalizeToken(std::string_view content) const {
  Options options = options_;
  if (!options.prefix_tokens) options.prefix = SpacePrefix::kNone;
  return TextNormalizer(options).Normalize(content, /*first=*/true);
}

std::string TextNormalizer::NormalizeSpaces(std::string_view stretch, bool first) const {
  std::string text;
  if (options_.collapse_spaces) {
    stretch = TrimSpaces(stretch);
    if (stretch.empty()) return text;
  }
  text.reserve(stretch.size() + 1);
  if (options_.prefix == SpacePrefix::kEveryStretch ||
      (options_.prefix == SpacePrefix::kFirstStretch && first)) {
    const bool begins_with_space =
        stretch.starts_with(' ') || (options_.mark_is_space && stretch.starts_with(kSpaceMark));
    if (!options_.prefix_unless_space || !begins_with_space) text.push_back(' ');
  }
  if (!options_.mark_is_space && !options_.collapse_spaces) return text.append(stretch);
  bool after_space = false;
  while (!stretch.empty()) {
    size_t word = 0;
    while (word < stretch.size() && stretch[word] != ' ' && stretch[word] != kSpaceMark[0]) ++word;
    if (word > 0) {
      text.append(stretch.substr(0, word));
      stretch.remove_prefix(word);
      after_space = false;
      continue;
    }
    if (options_.mark_is_space && stretch.starts_with(kSpaceMark)) {
      text.push_back(' ');
      stretch.remove_prefix(kSpaceMark.size());
      after_space = false;
      continue;
    }
    const bool space = stretch[0] == ' ';
    if (!(options_.collapse_spaces && space && after_space)) text.push_back(stretch[0]);
    after_space = space;
    stretch.remove_prefix(1);
  }
  return text;
}

bool TextNormalizer::ChangesText() const {
  return options_.nfc || options_.characters != nullptr || options_.mark_is_space ||
         options_.collapse_spaces || AddsSpace();
}

}  // namespace tutti::text
