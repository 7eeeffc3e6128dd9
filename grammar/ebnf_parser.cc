#include "grammar/ebnf_parser.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "grammar/limits.h"
#include "grammar/regex_parser.h"
#include "grammar/text_cursor.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// Repetitions of one part right behind each other.
constexpr int kRepeatsMax = 4;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  *out += static_cast<char>((0xF0 << (3 - more) & 0xFF) | c >> (6 * more));
  for (int i = more; i-- > 0;) *out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

class EbnfParser {
 public:
  EbnfParser(std::string_view text, BuildWork* work) : text_(text), cursor_(text), work_(*work) {}

  absl::StatusOr<std::vector<EbnfRule>> Parse() {
    std::vector<EbnfRule> rules;
    std::set<std::string> names;
    SkipBlanks();
    while (!cursor_.AtEnd()) {
      const std::string name(TakeName());
      SkipBlanks();
      if (name.empty() || !cursor_.Take("::=")) return Error("not NAME ::=");
      if (!names.insert(name).second) return Error(Concat("a second rule ", name, ","));
      TUTTI_RETURN_IF_ERROR(work_.Spend(20));
      TUTTI_ASSIGN_OR_RETURN(EbnfPart body, ReadChoice());
      rules.push_back({name, std::move(body)});
      SkipBlanks();
    }
    if (rules.empty()) return Error("no rule");
    return rules;
  }

 private:
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(Concat(what, " at byte ", cursor_.at()));
  }

  void SkipBlanks() {
    while (!cursor_.AtEnd()) {
      if (cursor_.Peek() == '#') {
        while (!cursor_.AtEnd() && cursor_.Peek() != '\n') cursor_.set_at(cursor_.at() + 1);
      } else if (absl::ascii_isspace(static_cast<unsigned char>(cursor_.Peek()))) {
        cursor_.set_at(cursor_.at() + 1);
      } else {
        return;
      }
    }
  }

  std::string_view TakeName() {
    const size_t begin = cursor_.at();
    while (!cursor_.AtEnd() && IsNameCharacter(cursor_.Peek()) &&
           !(cursor_.Peek() == '.' && cursor_.at() == begin)) {
      cursor_.set_at(cursor_.at() + 1);
    }
    return text_.substr(begin, cursor_.at() - begin);
  }

  // Whether another rule begins here.
  bool AtRule() {
    const size_t begin = cursor_.at();
    const bool name = !TakeName().empty();
    SkipBlanks();
    const bool rule = name && cursor_.rest().starts_with("::=");
    cursor_.set_at(begin);
    return rule;
  }

  absl::StatusOr<EbnfPart> ReadChoice() {
    if (++depth_ > kSourceDepthMax) return Error("groups nested too deep");
    EbnfPart choice{.kind = EbnfPart::Kind::kChoice};
    do {
      TUTTI_RETURN_IF_ERROR(work_.Spend(14));
      EbnfPart sequence{.kind = EbnfPart::Kind::kSequence};
      for (SkipBlanks();
           !cursor_.AtEnd() && cursor_.Peek() != '|' && cursor_.Peek() != ')' && !AtRule();
           SkipBlanks()) {
        TUTTI_ASSIGN_OR_RETURN(EbnfPart part, ReadPart());
        sequence.children.push_back(std::move(part));
      }
      choice.children.push_back(std::move(sequence));
    } while (cursor_.Take("|"));
    --depth_;
    return choice;
  }

  absl::StatusOr<EbnfPart> ReadPart() {
    TUTTI_ASSIGN_OR_RETURN(EbnfPart part, ReadAtom());
    for (int repeats = 0;; ++repeats) {
      SkipBlanks();
      EbnfPart repeat{.kind = EbnfPart::Kind::kRepeat};
      if (cursor_.Take("*")) {
        repeat.min = 0;
      } else if (cursor_.Take("+")) {
        repeat.min = 1;
      } else if (cursor_.Take("?")) {
        repeat.max = 1;
      } else if (cursor_.Take("{")) {
        TUTTI_RETURN_IF_ERROR(ReadCount(&repeat));
      } else {
        return part;
      }
      if (repeats == kRepeatsMax) return Error("repetitions of repetitions");
      repeat.children.push_back(std::move(part));
      part = std::move(repeat);
    }
  }

  absl::StatusOr<uint32_t> TakeCount() {
    SkipBlanks();
    uint64_t value = 0;
    if (!absl::ascii_isdigit(static_cast<unsigned char>(cursor_.Peek()))) {
      return Error("a repetition without its count");
    }
    while (absl::ascii_isdigit(static_cast<unsigned char>(cursor_.Peek()))) {
      value = value * 10 + static_cast<uint64_t>(cursor_.Peek() - '0');
      if (value >= EbnfPart::kUnbounded) return Error("a count that is too large");
      cursor_.set_at(cursor_.at() + 1);
    }
    SkipBlanks();
    return static_cast<uint32_t>(value);
  }

  absl::Status ReadCount(EbnfPart* repeat) {
    TUTTI_ASSIGN_OR_RETURN(repeat->min, TakeCount());
    repeat->max = repeat->min;
    if (cursor_.Take(",")) {
      SkipBlanks();
      repeat->max = EbnfPart::kUnbounded;
      if (cursor_.Peek() != '}') {
        TUTTI_ASSIGN_OR_RETURN(repeat->max, TakeCount());
      }
    }
    if (!cursor_.Take("}")) return Error("a { without its }");
    if (repeat->max < repeat->min) return Error("a repetition with its counts turned round");
    return absl::OkStatus();
  }

  absl::StatusOr<EbnfPart> ReadAtom() {
    TUTTI_RETURN_IF_ERROR(work_.Spend(14));
    const size_t begin = cursor_.at();
    if (cursor_.Take("(")) {
      TUTTI_ASSIGN_OR_RETURN(EbnfPart group, ReadChoice());
      if (!cursor_.Take(")")) return Error("a ( without its )");
      return group;
    }
    if (cursor_.Peek() == '"' || cursor_.Peek() == '[') return ReadQuoted();
    if (cursor_.Peek() == '%') return ReadOwnTerm();
    if (cursor_.Take(".")) return EbnfPart{.kind = EbnfPart::Kind::kSet, .set = CharSet::All()};
    EbnfPart rule{.kind = EbnfPart::Kind::kRule, .text = std::string(TakeName()), .at = begin};
    if (rule.text.empty()) return Error("no rule, string, class or group");
    return rule;
  }

  absl::StatusOr<EbnfPart> ReadOwnTerm() {
    EbnfPart part{.at = cursor_.at()};
    if (cursor_.Take("%json")) {
      SkipBlanks();
      const std::string_view json = TakeJsonObject();
      if (json.empty()) return Error("%json without a whole object of JSON behind it");
      part.kind = EbnfPart::Kind::kJson;
      part.text = std::string(json);
      return part;
    }
    const bool special = cursor_.Take("%special");
    if (!special && !cursor_.Take("%without")) {
      return Error("a word with % that is none of %json, %without and %special");
    }
    size_t bytes = 0;
    for (SkipBlanks(); cursor_.Peek() == '"' && !(special && !part.texts.empty()); SkipBlanks()) {
      TUTTI_ASSIGN_OR_RETURN(EbnfPart text, ReadQuoted());
      if (text.text.empty()) return Error("an empty string");
      bytes += text.text.size();
      part.texts.push_back(std::move(text.text));
    }
    if (part.texts.empty()) return Error("not a string");
    if (bytes > kSearchBytesMax) {
      return Error(Concat("strings of more than ", kSearchBytesMax, " bytes together"));
    }
    if (special) {
      return EbnfPart{.kind = EbnfPart::Kind::kSpecial, .text = part.texts.front()};
    }
    part.kind = EbnfPart::Kind::kWithout;
    return part;
  }

  // To the brace that closes the one here; empty when there is none.
  std::string_view TakeJsonObject() {
    const size_t begin = cursor_.at();
    size_t depth = 0;
    bool in_string = false;
    for (size_t at = begin; at < text_.size() && (at > begin || text_[at] == '{'); ++at) {
      const char c = text_[at];
      if (in_string && c == '\\') {
        ++at;
      } else if (c == '"') {
        in_string = !in_string;
      } else if (!in_string && c == '{') {
        ++depth;
      } else if (!in_string && c == '}' && --depth == 0) {
        cursor_.set_at(at + 1);
        return text_.substr(begin, at + 1 - begin);
      }
    }
    return {};
  }

  // A string or a class: the same escapes as those of regular expressions, which read it.
  absl::StatusOr<EbnfPart> ReadQuoted() {
    const size_t begin = cursor_.at();
    const char close = cursor_.Peek() == '"' ? '"' : ']';
    cursor_.set_at(begin + 1);
    while (!cursor_.AtEnd() && cursor_.Peek() != close) {
      if (cursor_.Take("\\") && cursor_.AtEnd()) break;
      cursor_.TakeCharacter();
    }
    if (cursor_.AtEnd()) return Error("a string or class without its end");
    cursor_.set_at(cursor_.at() + 1);
    const std::string_view all = text_.substr(begin, cursor_.at() - begin);
    if (close == ']') {
      TUTTI_ASSIGN_OR_RETURN(const RegexTree tree, ParseQuoted(all, begin));
      const RegexTree& sequence = tree.children.front();
      return EbnfPart{.kind = EbnfPart::Kind::kSet, .set = sequence.children.front().set};
    }
    EbnfPart part;
    TextCursor inside(all.substr(1, all.size() - 2));
    while (!inside.AtEnd()) {
      if (inside.Peek() != '\\') {
        AppendUtf8(inside.TakeCharacter(), &part.text);
        continue;
      }
      TUTTI_ASSIGN_OR_RETURN(const uint32_t character, TakeEscape(&inside, begin));
      AppendUtf8(character, &part.text);
    }
    return part;
  }

  absl::StatusOr<RegexTree> ParseQuoted(std::string_view text, size_t begin) const {
    absl::StatusOr<RegexTree> tree = ParseRegex(text, &work_);
    if (tree.ok()) return tree;
    return Annotate(tree.status(), Concat("in the string or class at byte ", begin));
  }

  // One escape, which is a class of one character.
  absl::StatusOr<uint32_t> TakeEscape(TextCursor* inside, size_t begin) const {
    TUTTI_RETURN_IF_ERROR(work_.Spend(24));
    const std::string_view rest = inside->rest();
    size_t size = 2;
    if (rest.starts_with("\\u{")) {
      size = std::min(rest.find('}'), rest.size() - 1) + 1;
    } else if (rest.starts_with("\\u")) {
      const bool goes_on = rest.size() > 6 && rest.substr(6).starts_with("\\u");
      size = goes_on ? 12 : 6;
    } else if (rest.starts_with("\\x")) {
      size = 4;
    } else {  // of a whole character
      TextCursor one(rest);
      one.set_at(1);
      one.TakeCharacter();
      size = one.at();
    }
    absl::StatusOr<RegexTree> tree = ParseQuoted(rest.substr(0, size), begin);
    if (size == 12 && !tree.ok()) tree = ParseQuoted(rest.substr(0, size = 6), begin);
    if (!tree.ok()) return tree.status();
    const std::vector<RegexTree>& parts = tree->children.front().children;
    const auto& ranges = parts.front().set.ranges();
    if (size == 12 && parts.size() == 2) size = 6;
    if (ranges.size() != 1 || ranges.front().first != ranges.front().last) {
      return absl::InvalidArgumentError(
          Concat("in the string at byte ", begin, ": a class, where a character must be"));
    }
    inside->set_at(inside->at() + std::min(size, rest.size()));
    return ranges.front().first;
  }

  const std::string_view text_;
  TextCursor cursor_;
  BuildWork& work_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<EbnfRule>> ParseEbnf(std::string_view text, BuildWork* work) {
  TUTTI_RETURN_IF_ERROR(work->Spend(static_cast<int64_t>(text.size() / 2)));
  return EbnfParser(text, work).Parse();
}

}  // namespace tutti::grammar
