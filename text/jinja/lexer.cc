#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

// Longest first, so that the first that fits is the right one.
constexpr std::array<std::string_view, 25> kOperators = {
    "//", "**", "==", "!=", "<=", ">=", ".", ",", ":", "(", ")", "[", "]",
    "{",  "}",  "|",  "~",  "+",  "-",  "*", "/", "%", "<", ">", "="};

size_t SpaceLength(std::string_view text) {
  if (text.empty()) return 0;
  const Utf8Unit unit = FirstUtf8Unit(text);
  return IsPythonSpace(unit.code_point) ? unit.length : 0;
}

std::string_view StripLeft(std::string_view text) {
  while (const size_t length = SpaceLength(text)) text.remove_prefix(length);
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t begin = text.size() - 1;
    while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (SpaceLength(text.substr(begin)) == 0) break;
    text = text.substr(0, begin);
  }
  return text;
}

// \r\n and \r become \n; one newline at the very end is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : rest_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (!rest_.empty()) TUTTI_RETURN_IF_ERROR(TextAndTag());
    tokens_.push_back(MakeToken(Token::kEnd));
    return std::move(tokens_);
  }

 private:
  absl::Status Fail(std::string_view why) const { return FailAt(line_, why); }
  static absl::Status FailAt(int line, std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", Absl(why)));
  }

  Token MakeToken(Token::Kind kind, std::string_view text = {}) const {
    Token token;
    token.kind = kind;
    token.text = text;
    token.line = line_;
    return token;
  }

  // Moves over `length` bytes, counting lines.
  std::string_view Take(size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    rest_.remove_prefix(length);
    if (!taken.empty()) line_starting_ = taken.back() == '\n';
    return taken;
  }

  static size_t FindTag(std::string_view text) {
    for (size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
      if (at + 1 >= text.size()) break;
      const char next = text[at + 1];
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  absl::Status TextAndTag() {
    const size_t tag = FindTag(rest_);
    if (tag == std::string_view::npos) {
      tokens_.push_back(MakeToken(Token::kText, rest_));
      Take(rest_.size());
      return absl::OkStatus();
    }
    const char type = rest_[tag + 1];
    const char sign = tag + 2 < rest_.size() ? rest_[tag + 2] : '\0';
    std::string_view text = rest_.substr(0, tag);
    if (sign == '-') {
      text = StripRight(text);
    } else if (sign != '+' && type != '{') {
      text = StripIndentation(text);
    }
    if (!text.empty()) tokens_.push_back(MakeToken(Token::kText, text));
    Take(tag);
    const int begin_line = line_;
    Take(sign == '-' || sign == '+' ? 3 : 2);
    if (type == '#') return Comment(begin_line);
    if (type == '%' && IsRaw()) return Raw(begin_line);
    tokens_.push_back(MakeToken(type == '{' ? Token::kOutputBegin : Token::kBlockBegin));
    return Tag(type == '{' ? "}}" : "%}", begin_line);
  }

  // lstrip_blocks: spaces between the beginning of a line and a block or comment are dropped.
  std::string_view StripIndentation(std::string_view text) const {
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_begin == 0 && !line_starting_) return text;
    const bool only_space = StripLeft(text.substr(line_begin)).empty();
    return only_space ? text.substr(0, line_begin) : text;
  }

  absl::Status Comment(int begin_line) {
    const size_t end = rest_.find("#}");
    if (end == std::string_view::npos) return FailAt(begin_line, "comment does not end");
    const char sign = end > 0 ? rest_[end - 1] : '\0';
    Take(end);
    EndTag(2, sign, /*trim_newline=*/true);
    return absl::OkStatus();
  }

  // The length of `word` and the end of its block, behind "{%" and its sign; 0 when it is something
  // else. `end_sign` becomes the sign before "%}".
  static size_t WordAndEnd(std::string_view text, std::string_view word, char* end_sign) {
    const std::string_view begin = StripLeft(text);
    if (!begin.starts_with(word)) return 0;
    std::string_view rest = StripLeft(begin.substr(word.size()));
    *end_sign = rest.empty() ? '\0' : rest[0];
    if (*end_sign == '-' || *end_sign == '+') rest.remove_prefix(1);
    return rest.starts_with("%}") ? text.size() - rest.size() + 2 : 0;
  }

  bool IsRaw() const {
    char sign = '\0';
    return WordAndEnd(rest_, "raw", &sign) > 0 && sign != '+';
  }

  // {% raw %}: text up to {% endraw %}. No newline is dropped behind its beginning.
  absl::Status Raw(int begin_line) {
    char sign = '\0';
    Take(WordAndEnd(rest_, "raw", &sign));
    if (sign == '-') Take(rest_.size() - StripLeft(rest_).size());
    for (size_t at = rest_.find("{%"); at != std::string_view::npos;
         at = rest_.find("{%", at + 2)) {
      const char begin_sign = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
      const size_t skip = begin_sign == '-' || begin_sign == '+' ? 3 : 2;
      const size_t length =
          WordAndEnd(rest_.substr(std::min(at + skip, rest_.size())), "endraw", &sign);
      if (length == 0) continue;
      std::string_view text = rest_.substr(0, at);
      if (begin_sign == '-') text = StripRight(text);
      if (skip == 2) text = StripIndentation(text);
      if (!text.empty()) tokens_.push_back(MakeToken(Token::kText, text));
      Take(at + skip + length - 2);
      EndTag(2, sign, /*trim_newline=*/true);
      return absl::OkStatus();
    }
    return FailAt(begin_line, "{% raw %} does not end");
  }

  // Moves over the end of a tag and the whitespace that goes with it.
  void EndTag(size_t length, char sign, bool trim_newline) {
    Take(length);
    if (sign == '-') {
      Take(rest_.size() - StripLeft(rest_).size());
    } else if (sign != '+' && trim_newline && !rest_.empty() && rest_[0] == '\n') {
      Take(1);
    }
  }

  absl::Status Tag(std::string_view end, int begin_line) {
    const bool is_block = end == "%}";
    brackets_.clear();
    while (true) {
      Take(rest_.size() - StripLeft(rest_).size());
      if (rest_.empty()) return FailAt(begin_line, "tag does not end");
      const char sign = rest_[0] == '-' || (is_block && rest_[0] == '+') ? rest_[0] : '\0';
      const size_t skip = sign == '\0' ? 0 : 1;
      if (brackets_.empty() && rest_.substr(skip, 2) == end) {
        tokens_.push_back(MakeToken(is_block ? Token::kBlockEnd : Token::kOutputEnd));
        EndTag(skip + 2, sign, is_block);
        return absl::OkStatus();
      }
      TUTTI_RETURN_IF_ERROR(One());
    }
  }

  absl::Status One() {
    const char c = rest_[0];
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) return Number();
    if (absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_') return Name();
    if (c == '\'' || c == '"') return String();
    for (const std::string_view op : kOperators) {
      if (rest_.substr(0, op.size()) != op) continue;
      TUTTI_RETURN_IF_ERROR(Balance(op[0]));
      tokens_.push_back(MakeToken(Token::kOperator, op));
      Take(op.size());
      return absl::OkStatus();
    }
    const Utf8Unit unit = FirstUtf8Unit(rest_);
    return Fail(absl::StrCat("unexpected character \"", Absl(rest_.substr(0, unit.length)), "\""));
  }

  absl::Status Balance(char c) {
    if (c == '(') brackets_.push_back(')');
    if (c == '[') brackets_.push_back(']');
    if (c == '{') brackets_.push_back('}');
    if (c != ')' && c != ']' && c != '}') return absl::OkStatus();
    if (brackets_.empty() || brackets_.back() != c) {
      return Fail(absl::StrCat("unexpected \"", std::string(1, c), "\""));
    }
    brackets_.pop_back();
    return absl::OkStatus();
  }

  absl::Status Name() {
    size_t length = 0;
    while (
        length < rest_.size() &&
        (absl::ascii_isalnum(static_cast<unsigned char>(rest_[length])) || rest_[length] == '_')) {
      ++length;
    }
    tokens_.push_back(MakeToken(Token::kName, rest_.substr(0, length)));
    Take(length);
    return absl::OkStatus();
  }

  // The end of the digits of `base` from `at` on; an underscore may stand between two of them.
  size_t DigitsEnd(size_t at, int base) const {
    const auto is_digit = [&](size_t i) {
      if (i >= rest_.size() || !absl::ascii_isxdigit(static_cast<unsigned char>(rest_[i]))) {
        return false;
      }
      const char c = rest_[i];
      return (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10) < base;
    };
    while (is_digit(at) || (rest_.substr(at, 1) == "_" && is_digit(at - 1) && is_digit(at + 1))) {
      ++at;
    }
    return at;
  }

  // 12, 1_000, 0xFF, 1.5, 1e3. A point belongs to the number only where digits follow.
  absl::Status Number() {
    Token token = MakeToken(Token::kInteger);
    const char letter = rest_.size() > 1 && rest_[0] == '0' ? rest_[1] | 0x20 : '\0';
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    size_t begin = base == 10 ? 0 : 2;
    if (base != 10 && rest_.substr(begin, 1) == "_") ++begin;  // 0x_FF
    size_t end = DigitsEnd(begin, base);
    if (base == 10 && rest_.substr(end, 1) == "." && DigitsEnd(end + 1, 10) > end + 1) {
      token.kind = Token::kFloat;
      end = DigitsEnd(end + 1, 10);
    }
    if (base == 10 && end < rest_.size() && (rest_[end] | 0x20) == 'e') {
      const size_t sign =
          end + 1 < rest_.size() && (rest_[end + 1] == '+' || rest_[end + 1] == '-');
      if (DigitsEnd(end + 1 + sign, 10) > end + 1 + sign) {
        token.kind = Token::kFloat;
        end = DigitsEnd(end + 1 + sign, 10);
      }
    }
    const bool goes_on =
        end < rest_.size() &&
        (absl::ascii_isalnum(static_cast<unsigned char>(rest_[end])) || rest_[end] == '_');
    if (end == begin || goes_on) {
      return Fail(
          absl::StrCat("number \"", Absl(rest_.substr(0, end + goes_on)), "\" is not supported"));
    }
    for (size_t i = begin; i < end; ++i) {
      if (rest_[i] != '_') token.text.push_back(rest_[i]);
    }
    token.base = base;
    if (token.kind == Token::kFloat) (void)absl::SimpleAtod(token.text, &token.number);
    tokens_.push_back(std::move(token));
    Take(end);
    return absl::OkStatus();
  }

  absl::Status String() {
    const char quote = rest_[0];
    const int begin_line = line_;
    std::string value;
    size_t at = 1;
    while (at < rest_.size() && rest_[at] != quote) {
      if (rest_[at] != '\\') {
        value.push_back(rest_[at++]);
        continue;
      }
      TUTTI_RETURN_IF_ERROR(Escape(&at, &value));
    }
    if (at >= rest_.size()) return FailAt(begin_line, "string does not end");
    tokens_.push_back(MakeToken(Token::kString, value));
    Take(at + 1);
    return absl::OkStatus();
  }

  // Python's escapes, at rest_[*at] == '\\'. An unknown one keeps its backslash.
  absl::Status Escape(size_t* at, std::string* value) {
    if (*at + 1 >= rest_.size()) return Fail("string does not end");
    const char c = rest_[*at + 1];
    static constexpr std::string_view kNames = "\\'\"abfnrtv";
    static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t known = kNames.find(c); known != std::string_view::npos) {
      value->push_back(kMeanings[known]);
      *at += 2;
      return absl::OkStatus();
    }
    if (c == '\n') {  // a backslash at the end of a line joins it with the next
      *at += 2;
      return absl::OkStatus();
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      uint32_t code_point = 0;
      const std::string_view hex = rest_.substr(*at + 2, digits);
      const auto parsed = std::from_chars(hex.data(), hex.data() + hex.size(), code_point, 16);
      const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
      if (hex.size() != digits || parsed.ptr != hex.data() + digits || surrogate ||
          code_point > 0x10FFFF) {
        return Fail(
            absl::StrCat("escape \"", Absl(rest_.substr(*at, 2 + digits)), "\" is not supported"));
      }
      AppendUtf8(code_point, value);
      *at += 2 + digits;
      return absl::OkStatus();
    }
    if (c >= '0' && c <= '7') {
      const size_t end = std::min(DigitsEnd(*at + 1, 8), *at + 4);
      uint32_t code_point = 0;
      for (size_t i = *at + 1; i < end; ++i) code_point = 8 * code_point + (rest_[i] - '0');
      AppendUtf8(code_point, value);
      *at = end;
      return absl::OkStatus();
    }
    if (c == 'N') {
      return Fail(absl::StrCat("escape \"", Absl(rest_.substr(*at, 2)), "\" is not supported"));
    }
    value->push_back('\\');
    *at += 1;
    return absl::OkStatus();
  }

  std::string_view rest_;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // closing brackets that are due
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  if (const auto invalid = FindInvalidUtf8(source); invalid.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("not valid UTF-8 at byte ", *invalid));
  }
  const std::string normalized = NormalizeNewlines(source);
  return Lexer(normalized).Run();
}

}  // namespace tutti::text::jinja
