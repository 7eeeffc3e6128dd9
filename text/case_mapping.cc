#include "text/case_mapping.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/unicode.h"

namespace tutti::text {
namespace {

// Characters that become several: the unconditional mappings of Unicode's SpecialCasing.txt. In
// the order of the code points.
struct SpecialCase {
  char32_t from;
  std::u32string_view upper, title;
};
// clang-format off
constexpr SpecialCase kSpecialCases[] = {
    {0x00DF, U"SS", U"Ss"}, {0x0149, U"\u02BCN", U"\u02BCN"}, {0x01F0, U"J\u030C", U"J\u030C"},
    {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x03B0, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x0587, U"\u0535\u0552", U"\u0535\u0582"}, {0x1E96, U"H\u0331", U"H\u0331"},
    {0x1E97, U"T\u0308", U"T\u0308"}, {0x1E98, U"W\u030A", U"W\u030A"},
    {0x1E99, U"Y\u030A", U"Y\u030A"}, {0x1E9A, U"A\u02BE", U"A\u02BE"},
    {0x1F50, U"\u03A5\u0313", U"\u03A5\u0313"},
    {0x1F52, U"\u03A5\u0313\u0300", U"\u03A5\u0313\u0300"},
    {0x1F54, U"\u03A5\u0313\u0301", U"\u03A5\u0313\u0301"},
    {0x1F56, U"\u03A5\u0313\u0342", U"\u03A5\u0313\u0342"}, {0x1F80, U"\u1F08\u0399", U"\u1F88"},
    {0x1F81, U"\u1F09\u0399", U"\u1F89"}, {0x1F82, U"\u1F0A\u0399", U"\u1F8A"},
    {0x1F83, U"\u1F0B\u0399", U"\u1F8B"}, {0x1F84, U"\u1F0C\u0399", U"\u1F8C"},
    {0x1F85, U"\u1F0D\u0399", U"\u1F8D"}, {0x1F86, U"\u1F0E\u0399", U"\u1F8E"},
    {0x1F87, U"\u1F0F\u0399", U"\u1F8F"}, {0x1F88, U"\u1F08\u0399", U"\u1F88"},
    {0x1F89, U"\u1F09\u0399", U"\u1F89"}, {0x1F8A, U"\u1F0A\u0399", U"\u1F8A"},
    {0x1F8B, U"\u1F0B\u0399", U"\u1F8B"}, {0x1F8C, U"\u1F0C\u0399", U"\u1F8C"},
    {0x1F8D, U"\u1F0D\u0399", U"\u1F8D"}, {0x1F8E, U"\u1F0E\u0399", U"\u1F8E"},
    {0x1F8F, U"\u1F0F\u0399", U"\u1F8F"}, {0x1F90, U"\u1F28\u0399", U"\u1F98"},
    {0x1F91, U"\u1F29\u0399", U"\u1F99"}, {0x1F92, U"\u1F2A\u0399", U"\u1F9A"},
    {0x1F93, U"\u1F2B\u0399", U"\u1F9B"}, {0x1F94, U"\u1F2C\u0399", U"\u1F9C"},
    {0x1F95, U"\u1F2D\u0399", U"\u1F9D"}, {0x1F96, U"\u1F2E\u0399", U"\u1F9E"},
    {0x1F97, U"\u1F2F\u0399", U"\u1F9F"}, {0x1F98, U"\u1F28\u0399", U"\u1F98"},
    {0x1F99, U"\u1F29\u0399", U"\u1F99"}, {0x1F9A, U"\u1F2A\u0399", U"\u1F9A"},
    {0x1F9B, U"\u1F2B\u0399", U"\u1F9B"}, {0x1F9C, U"\u1F2C\u0399", U"\u1F9C"},
    {0x1F9D, U"\u1F2D\u0399", U"\u1F9D"}, {0x1F9E, U"\u1F2E\u0399", U"\u1F9E"},
    {0x1F9F, U"\u1F2F\u0399", U"\u1F9F"}, {0x1FA0, U"\u1F68\u0399", U"\u1FA8"},
    {0x1FA1, U"\u1F69\u0399", U"\u1FA9"}, {0x1FA2, U"\u1F6A\u0399", U"\u1FAA"},
    {0x1FA3, U"\u1F6B\u0399", U"\u1FAB"}, {0x1FA4, U"\u1F6C\u0399", U"\u1FAC"},
    {0x1FA5, U"\u1F6D\u0399", U"\u1FAD"}, {0x1FA6, U"\u1F6E\u0399", U"\u1FAE"},
    {0x1FA7, U"\u1F6F\u0399", U"\u1FAF"}, {0x1FA8, U"\u1F68\u0399", U"\u1FA8"},
    {0x1FA9, U"\u1F69\u0399", U"\u1FA9"}, {0x1FAA, U"\u1F6A\u0399", U"\u1FAA"},
    {0x1FAB, U"\u1F6B\u0399", U"\u1FAB"}, {0x1FAC, U"\u1F6C\u0399", U"\u1FAC"},
    {0x1FAD, U"\u1F6D\u0399", U"\u1FAD"}, {0x1FAE, U"\u1F6E\u0399", U"\u1FAE"},
    {0x1FAF, U"\u1F6F\u0399", U"\u1FAF"}, {0x1FB2, U"\u1FBA\u0399", U"\u1FBA\u0345"},
    {0x1FB3, U"\u0391\u0399", U"\u1FBC"}, {0x1FB4, U"\u0386\u0399", U"\u0386\u0345"},
    {0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1FB7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"}, {0x1FBC, U"\u0391\u0399", U"\u1FBC"},
    {0x1FC2, U"\u1FCA\u0399", U"\u1FCA\u0345"}, {0x1FC3, U"\u0397\u0399", U"\u1FCC"},
    {0x1FC4, U"\u0389\u0399", U"\u0389\u0345"}, {0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1FC7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"}, {0x1FCC, U"\u0397\u0399", U"\u1FCC"},
    {0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    {0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342", U"\u0399\u0342"},
    {0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03A5\u0308\u0300", U"\u03A5\u0308\u0300"},
    {0x1FE3, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x1FE4, U"\u03A1\u0313", U"\u03A1\u0313"}, {0x1FE6, U"\u03A5\u0342", U"\u03A5\u0342"},
    {0x1FE7, U"\u03A5\u0308\u0342", U"\u03A5\u0308\u0342"},
    {0x1FF2, U"\u1FFA\u0399", U"\u1FFA\u0345"}, {0x1FF3, U"\u03A9\u0399", U"\u1FFC"},
    {0x1FF4, U"\u038F\u0399", U"\u038F\u0345"}, {0x1FF6, U"\u03A9\u0342", U"\u03A9\u0342"},
    {0x1FF7, U"\u03A9\u0342\u0399", U"\u03A9\u0342\u0345"}, {0x1FFC, U"\u03A9\u0399", U"\u1FFC"},
    {0xFB00, U"FF", U"Ff"}, {0xFB01, U"FI", U"Fi"}, {0xFB02, U"FL", U"Fl"},
    {0xFB03, U"FFI", U"Ffi"}, {0xFB04, U"FFL", U"Ffl"}, {0xFB05, U"ST", U"St"},
    {0xFB06, U"ST", U"St"}, {0xFB13, U"\u0544\u0546", U"\u0544\u0576"},
    {0xFB14, U"\u0544\u0535", U"\u0544\u0565"}, {0xFB15, U"\u0544\u053B", U"\u0544\u056B"},
    {0xFB16, U"\u054E\u0546", U"\u054E\u0576"}, {0xFB17, U"\u0544\u053D", U"\u0544\u056D"},
};
// clang-format on

const SpecialCase* FindSpecial(char32_t c) {
  if (c < kSpecialCases[0].from) return nullptr;
  const auto* const found = std::lower_bound(
      std::begin(kSpecialCases), std::end(kSpecialCases), c,
      [](const SpecialCase& special, char32_t wanted) { return special.from < wanted; });
  return found != std::end(kSpecialCases) && found->from == c ? found : nullptr;
}

constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2, kDottedI = 0x130, kDotAbove = 0x307;

bool IsIn(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

utf8proc_category_t CategoryOf(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Other_Uppercase and Other_Lowercase of Unicode, but for modifier letters, which are
// case-ignorable.
bool IsOtherUpper(char32_t c) {
  return IsIn(c, 0x2160, 0x216F) || IsIn(c, 0x24B6, 0x24CF) || IsIn(c, 0x1F130, 0x1F149) ||
         IsIn(c, 0x1F150, 0x1F169) || IsIn(c, 0x1F170, 0x1F189);
}
bool IsOtherLower(char32_t c) {
  return c == 0xAA || c == 0xBA || IsIn(c, 0x2170, 0x217F) || IsIn(c, 0x24D0, 0x24E9);
}

// Whether the sigma at `at` ends a word.
bool IsFinal(std::u32string_view text, size_t at) {
  size_t before = at, after = at + 1;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  while (after < text.size() && IsCaseIgnorable(text[after])) ++after;
  return before > 0 && IsCased(text[before - 1]) && (after == text.size() || !IsCased(text[after]));
}

}  // namespace

bool IsCaseIgnorable(char32_t c) {
  constexpr std::u32string_view kInsideWords =
      U"'.:^`\u00A8\u00AD\u00AF\u00B4\u00B7\u00B8\u0387\u055F\u05F4\u2018\u2019\u2024\u2027"
      U"\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  if (kInsideWords.find(c) != std::u32string_view::npos) return true;
  switch (CategoryOf(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

bool IsUpper(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LU || IsOtherUpper(c); }

bool IsLower(char32_t c) {
  return CategoryOf(c) == UTF8PROC_CATEGORY_LL || IsOtherLower(c) ||
         (CategoryOf(c) == UTF8PROC_CATEGORY_LM && utf8proc_islower(static_cast<int>(c)) != 0);
}

bool IsCased(char32_t c) {
  return IsUpper(c) || IsLower(c) || CategoryOf(c) == UTF8PROC_CATEGORY_LT;
}

void AppendUpper(char32_t c, std::string* out) {
  if (const SpecialCase* special = FindSpecial(c); special != nullptr) {
    for (const char32_t to : special->upper) AppendUtf8(to, out);
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
}

void AppendTitle(char32_t c, std::string* out) {
  if (const SpecialCase* special = FindSpecial(c); special != nullptr) {
    for (const char32_t to : special->title) AppendUtf8(to, out);
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
}

void AppendLower(std::u32string_view text, size_t at, std::string* out) {
  const char32_t c = text[at];
  if (c == kDottedI) {
    AppendUtf8(U'i', out);
    AppendUtf8(kDotAbove, out);
  } else if (c == kCapitalSigma && IsFinal(text, at)) {
    AppendUtf8(kFinalSigma, out);
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

bool IsAlphabetic(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(char32_t c) {
  // Superscripts, circled and other digits that are no decimals.
  struct Range {
    char32_t first, last;
  };
  static constexpr Range kOthers[] = {
      {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
      {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
      {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
      {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
      {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  if (IsDecimal(c)) return true;
  return std::any_of(std::begin(kOthers), std::end(kOthers),
                     [&](const Range& range) { return IsIn(c, range.first, range.last); });
}

}  // namespace tutti::text
