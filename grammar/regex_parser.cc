#include "grammar/regex_parser.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "grammar/limits.h"
#include "grammar/text_cursor.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

CharSet AsciiDigits() { return CharSet({{'0', '9'}}); }
CharSet WordCharacters() { return CharSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); }
const std::vector<CharRange> kBlanks = {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},
                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                        {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
// Blanks of ECMA-262 or of Python alone.
const std::vector<CharRange> kBlanksOfOne = {{0x1C, 0x1F}, {0x85, 0x85}, {0xFEFF, 0xFEFF}};

CharSet NoBlanks() {
  std::vector<CharRange> blanks = kBlanks;
  blanks.insert(blanks.end(), kBlanksOfOne.begin(), kBlanksOfOne.end());
  return CharSet(std::move(blanks)).Complement();
}

// The set that \d and its like stand for.
std::optional<CharSet> SetOfEscape(char letter) {
  switch (letter) {
    case 'd':
      return AsciiDigits();
    case 'D':
      return AsciiDigits().Complement();
    case 'w':
      return WordCharacters();
    case 'W':
      return WordCharacters().Complement();
    case 's': {
      static const CharSet kSet(kBlanks);
      return kSet;
    }
    case 'S': {
      static const CharSet kSet = NoBlanks();
      return kSet;
    }
    default:
      return std::nullopt;
  }
}

RegexTree SetTree(CharSet set) { return {.kind = RegexTree::Kind::kSet, .set = std::move(set)}; }

class RegexParser {
 public:
  explicit RegexParser(std::string_view text) : cursor_(text) {}

  absl::StatusOr<RegexTree> Parse() {
    TUTTI_ASSIGN_OR_RETURN(RegexTree tree, ParseChoice());
    if (!cursor_.AtEnd()) return Error("a ) without its (");
    return tree;
  }

 private:
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(Concat(what, " at byte ", cursor_.at()));
  }

  absl::StatusOr<RegexTree> ParseChoice() {
    if (++depth_ > kSourceDepthMax) return Error("groups nested too deep");
    RegexTree choice{.kind = RegexTree::Kind::kChoice};
    do {
      RegexTree sequence{.kind = RegexTree::Kind::kSequence};
      while (!cursor_.AtEnd() && cursor_.Peek() != '|' && cursor_.Peek() != ')') {
        TUTTI_ASSIGN_OR_RETURN(RegexTree part, ParsePart());
        sequence.children.push_back(std::move(part));
      }
      choice.children.push_back(std::move(sequence));
    } while (cursor_.Take("|"));
    --depth_;
    return choice;
  }

  absl::StatusOr<RegexTree> ParsePart() {
    TUTTI_ASSIGN_OR_RETURN(RegexTree part, ParseAtom());
    for (bool repeated = false;; repeated = true) {
      RegexTree repeat{.kind = RegexTree::Kind::kRepeat};
      if (cursor_.Take("*")) {
        repeat.max = RegexTree::kUnbounded;
      } else if (cursor_.Take("+")) {
        repeat.min = 1;
        repeat.max = RegexTree::kUnbounded;
      } else if (cursor_.Take("?")) {
        repeat.max = 1;
      } else if (cursor_.Peek() == '{') {
        TUTTI_RETURN_IF_ERROR(ParseCount(&repeat));
      } else {
        return part;
      }
      if (repeated) return Error("a repetition of nothing");
      if (part.kind == RegexTree::Kind::kBegin || part.kind == RegexTree::Kind::kEnd) {
        return Error("a repetition of an anchor");
      }
      cursor_.Take("?");  // which of several ways is taken, not whether there is one
      repeat.children.push_back(std::move(part));
      part = std::move(repeat);
    }
  }

  absl::StatusOr<int64_t> ParseCountNumber() {
    int64_t value = 0;
    if (!absl::ascii_isdigit(static_cast<unsigned char>(cursor_.Peek()))) {
      return Error("a repetition without its count");
    }
    while (absl::ascii_isdigit(static_cast<unsigned char>(cursor_.Peek()))) {
      value = value * 10 + (cursor_.Peek() - '0');
      if (value > kRegexCountMax) {
        return Error(Concat("a repetition of more than ", kRegexCountMax));
      }
      cursor_.set_at(cursor_.at() + 1);
    }
    return value;
  }

  absl::Status ParseCount(RegexTree* repeat) {
    cursor_.Take("{");
    TUTTI_ASSIGN_OR_RETURN(repeat->min, ParseCountNumber());
    repeat->max = repeat->min;
    if (cursor_.Take(",")) {
      repeat->max = RegexTree::kUnbounded;
      if (cursor_.Peek() != '}') {
        TUTTI_ASSIGN_OR_RETURN(repeat->max, ParseCountNumber());
      }
    }
    if (!cursor_.Take("}")) return Error("a { without its }");
    if (repeat->max < repeat->min) return Error("a repetition with its counts turned round");
    return absl::OkStatus();
  }

  absl::StatusOr<RegexTree> ParseAtom() {
    if (cursor_.Take("(")) return ParseGroup();
    if (cursor_.Take("[")) {
      TUTTI_ASSIGN_OR_RETURN(CharSet set, ParseClass());
      return SetTree(std::move(set));
    }
    if (cursor_.Take("^")) return RegexTree{.kind = RegexTree::Kind::kBegin};
    if (cursor_.Take("$")) return RegexTree{.kind = RegexTree::Kind::kEnd};
    if (cursor_.Take(".")) {
      return SetTree(CharSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).Complement());
    }
    if (cursor_.Peek() == '*' || cursor_.Peek() == '+' || cursor_.Peek() == '?' ||
        cursor_.Peek() == '{') {
      return Error("a repetition of nothing");
    }
    if (!cursor_.Take("\\")) return SetTree(CharSet::One(cursor_.TakeCharacter()));
    if (auto set = SetOfEscape(cursor_.Peek())) {
      cursor_.set_at(cursor_.at() + 1);
      return SetTree(*std::move(set));
    }
    TUTTI_ASSIGN_OR_RETURN(const uint32_t character, ParseEscape(/*in_class=*/false));
    return SetTree(CharSet::One(character));
  }

  absl::StatusOr<RegexTree> ParseGroup() {
    for (const std::string_view look : {"?=", "?!", "?<=", "?<!"}) {
      if (cursor_.rest().starts_with(look)) {
        return Error(Concat("looking around, (", look, ", is not served"));
      }
    }
    if (cursor_.Take("?<")) return ParseNamedGroup();
    if (!cursor_.Take("?:") && cursor_.Peek() == '?') {
      return Error("a group with (?, other than (?: and (?<name>, is not served");
    }
    return ParseGroupEnd();
  }

  absl::StatusOr<RegexTree> ParseNamedGroup() {
    while (absl::ascii_isalnum(static_cast<unsigned char>(cursor_.Peek())) ||
           cursor_.Peek() == '_' || cursor_.Peek() == '$') {
      cursor_.set_at(cursor_.at() + 1);
    }
    if (!cursor_.Take(">")) return Error("a group's name without its end");
    return ParseGroupEnd();
  }

  absl::StatusOr<RegexTree> ParseGroupEnd() {
    TUTTI_ASSIGN_OR_RETURN(RegexTree group, ParseChoice());
    if (!cursor_.Take(")")) return Error("a ( without its )");
    return group;
  }

  absl::StatusOr<uint32_t> ParseUnicode() {
    uint32_t value = 0;
    if (cursor_.Take("{")) {
      int digits = 0;
      for (; TextCursor::HexDigit(cursor_.Peek()) >= 0 && digits < 6; ++digits) {
        value = value << 4 | cursor_.TakeHex(1);
      }
      if (digits == 0 || !cursor_.Take("}")) return Error("\\u{ without its number and }");
    } else {
      value = cursor_.TakeHex(4);
      // Two halves of one character.
      if (value >= 0xD800 && value < 0xDC00 && cursor_.Take("\\u")) {
        const uint32_t low = cursor_.TakeHex(4);
        if (low < 0xDC00 || low >= 0xE000) return Error("half a character");
        value = 0x10000 + ((value & 0x3FF) << 10) + (low & 0x3FF);
      }
    }
    if (value > kCodePointMax) return Error("\\u without a character's number");
    if (value >= kSurrogateBegin && value < kSurrogateEnd) return Error("half a character");
    return value;
  }

  absl::StatusOr<uint32_t> ParseEscape(bool in_class) {
    if (cursor_.AtEnd()) return Error("a \\ at the end");
    static constexpr std::string_view kLetters = "ntrfv";
    const uint32_t letter = cursor_.TakeCharacter();
    if (letter < 128) {
      const size_t at = kLetters.find(static_cast<char>(letter));
      if (at != std::string_view::npos) return static_cast<uint32_t>("\n\t\r\f\v"[at]);
    }
    if (letter == 'b' && in_class) return uint32_t{'\b'};
    if (letter == '0' && !absl::ascii_isdigit(static_cast<unsigned char>(cursor_.Peek()))) return 0;
    if (letter == 'u') return ParseUnicode();
    if (letter == 'x') {
      const uint32_t value = cursor_.TakeHex(2);
      return value == UINT32_MAX ? Error("\\x without two digits")
                                 : absl::StatusOr<uint32_t>(value);
    }
    if (letter == 'c' && absl::ascii_isalpha(static_cast<unsigned char>(cursor_.Peek()))) {
      return cursor_.TakeCharacter() & 31;
    }
    if (letter < 128 && absl::ascii_isalnum(static_cast<unsigned char>(letter))) {
      return Error(Concat("\\", std::string(1, static_cast<char>(letter)), " is not served"));
    }
    return letter;
  }

  // One end of a range, or a set such as \d.
  struct ClassPart {
    std::optional<CharSet> set;
    uint32_t character = 0;
  };
  absl::StatusOr<ClassPart> ParseClassPart() {
    if (cursor_.AtEnd()) return Error("a [ without its ]");
    if (!cursor_.Take("\\")) return ClassPart{.character = cursor_.TakeCharacter()};
    if (auto set = SetOfEscape(cursor_.Peek())) {
      cursor_.set_at(cursor_.at() + 1);
      return ClassPart{.set = std::move(set)};
    }
    TUTTI_ASSIGN_OR_RETURN(const uint32_t character, ParseEscape(/*in_class=*/true));
    return ClassPart{.character = character};
  }

  absl::StatusOr<CharSet> ParseClass() {
    const bool negated = cursor_.Take("^");
    std::vector<CharRange> ranges;
    while (!cursor_.Take("]")) {
      TUTTI_ASSIGN_OR_RETURN(const ClassPart first, ParseClassPart());
      if (first.set) {
        ranges.insert(ranges.end(), first.set->ranges().begin(), first.set->ranges().end());
        if (ranges.size() > kCharRangesMax) return Error("a class of too many ranges");
        continue;
      }
      uint32_t last = first.character;
      if (cursor_.Peek() == '-' && !cursor_.rest().starts_with("-]")) {
        cursor_.Take("-");
        TUTTI_ASSIGN_OR_RETURN(const ClassPart end, ParseClassPart());
        if (end.set || end.character < first.character) return Error("a range turned round");
        last = end.character;
      }
      ranges.push_back({first.character, last});
      if (ranges.size() > kCharRangesMax) return Error("a class of too many ranges");
    }
    const CharSet set(std::move(ranges));
    return negated ? set.Complement() : set;
  }

  TextCursor cursor_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<RegexTree> ParseRegex(std::string_view text, BuildWork* work) {
  if (text.size() > kRegexBytesMax) {
    return absl::InvalidArgumentError(
        Concat(text.size(), " bytes of expression, the limit is ", kRegexBytesMax));
  }
  // A part of the tree for each character; a set such as \S has a dozen ranges.
  TUTTI_RETURN_IF_ERROR(work->Spend(static_cast<int64_t>(text.size() * 10)));
  return RegexParser(text).Parse();
}

}  // namespace tutti::grammar
