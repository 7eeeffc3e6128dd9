#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/check.h"

namespace tutti::text {
namespace {

// Every code point below this one is its own NFC and composes with nothing before it.
constexpr char32_t kFirstCombining = 0x300;

// Upper bound of the canonical decomposition of one code point: the longest has 4 (U+1F82 and
// others).
constexpr int kDecompositionMax = 18;

// Marks that came after Unicode 9.0, which is what the tokenizers library normalizes by: to it they
// are ordinary characters that combine with nothing. In order. (U+11930 is the second half of the
// one pair that composes since.)
struct MarkRange {
  char32_t first, last;
};
// clang-format off
constexpr MarkRange kNewerMarks[] = {
    {0x7FD, 0x7FD}, {0x898, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE}, {0xC3C, 0xC3C},
    {0xD3B, 0xD3C}, {0xEBA, 0xEBA}, {0x1715, 0x1715}, {0x1ABF, 0x1ACE}, {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x1193D, 0x1193E},
    {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};
// clang-format on

bool IsNewerMark(char32_t c) {
  if (c < kNewerMarks[0].first) return false;
  const auto* const found =
      std::lower_bound(std::begin(kNewerMarks), std::end(kNewerMarks), c,
                       [](const MarkRange& range, char32_t mark) { return range.last < mark; });
  return found != std::end(kNewerMarks) && found->first <= c;
}

// A vowel that ends no syllable and begins none. The library takes it for the final consonant which
// a syllable without one does not have, and drops it.
constexpr char32_t kNoFinalConsonant = 0x11A7;

// Whether nothing before the character has to do with what comes after it, and neither with it: it
// stays as it is, and text is normalized up to it and from it on.
bool StandsAlone(char32_t c) { return IsNewerMark(c) || c == kNoFinalConsonant; }

constexpr auto kNfcOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

struct LeadByte {
  int length;               // 0: never begins a character
  unsigned char low, high;  // allowed range of the second byte
};

LeadByte ClassifyLead(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // nothing above U+10FFFF
  return {0, 0, 0};
}

bool NeedsNoNormalization(std::string_view text) {
  // Code points up to U+02FF are encoded with lead bytes below 0xCC.
  static_assert(kFirstCombining == 0x300);
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

int CombiningClass(utf8proc_int32_t code_point) {
  if (code_point < static_cast<utf8proc_int32_t>(kFirstCombining)) return 0;
  return utf8proc_get_property(code_point)->combining_class;
}

// Canonical ordering. The library's own is quadratic in the length of a run of marks, which a
// prompt of nothing but marks would make very long.
void SortCombiningMarks(std::vector<utf8proc_int32_t>* code_points) {
  auto begin = code_points->begin();
  while (begin != code_points->end()) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, code_points->end(),
                                  [](utf8proc_int32_t c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

// Normalizes decomposed characters, none of which stands alone, appends them to *out, and empties
// the vector.
void Compose(std::vector<utf8proc_int32_t>* code_points, std::string* out) {
  SortCombiningMarks(code_points);
  const utf8proc_ssize_t length = utf8proc_normalize_utf32(
      code_points->data(), static_cast<utf8proc_ssize_t>(code_points->size()), kNfcOptions);
  CHECK(length >= 0) << utf8proc_errmsg(length);
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    AppendUtf8(static_cast<char32_t>((*code_points)[i]), out);
  }
  code_points->clear();
}

}  // namespace

Utf8Unit FirstUtf8Unit(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const LeadByte rule = ClassifyLead(lead);
  if (rule.length == 0) return {Utf8Unit::kInvalid, 1, 0};
  if (rule.length == 1) return {Utf8Unit::kCharacter, 1, lead};
  char32_t code_point = lead & (0xFF >> (rule.length + 1));
  for (int i = 1; i < rule.length; ++i) {
    if (static_cast<size_t>(i) >= bytes.size()) return {Utf8Unit::kIncomplete, i, 0};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char low = i == 1 ? rule.low : 0x80;
    const unsigned char high = i == 1 ? rule.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Unit::kInvalid, i, 0};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {Utf8Unit::kCharacter, rule.length, code_point};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    if (static_cast<unsigned char>(text[offset]) < 0x80) {
      ++offset;
      continue;
    }
    const Utf8Unit unit = FirstUtf8Unit(text.substr(offset));
    if (unit.kind != Utf8Unit::kCharacter) return offset;
    offset += unit.length;
  }
  return std::nullopt;
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

std::string NormalizeNfc(std::string_view text) {
  if (NeedsNoNormalization(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size() / 2 + 1);
  std::array<utf8proc_int32_t, kDecompositionMax> decomposed;
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Unit unit = FirstUtf8Unit(text.substr(offset));
    CHECK(unit.kind == Utf8Unit::kCharacter) << "NFC of invalid UTF-8 at byte " << offset;
    offset += unit.length;
    if (StandsAlone(unit.code_point)) {
      Compose(&code_points, &out);
      AppendUtf8(unit.code_point, &out);
      continue;
    }
    int last_boundclass = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(unit.code_point), decomposed.data(),
                                kDecompositionMax, kNfcOptions, &last_boundclass);
    CHECK(count >= 0 && count <= kDecompositionMax) << "decomposition of " << count;
    code_points.insert(code_points.end(), decomposed.begin(), decomposed.begin() + count);
  }
  Compose(&code_points, &out);
  return out;
}

bool IsPythonSpace(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsBlank(char32_t c) { return IsPythonSpace(c) && !(c >= 0x1C && c <= 0x1F); }

namespace {

// Symbols that Unicode counts among the letters (Other_Alphabetic).
bool IsEnclosedLetter(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

}  // namespace

bool IsWordCharacter(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;  // joiners
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return IsEnclosedLetter(c);
  }
}

bool IsPrintable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

}  // namespace tutti::text
