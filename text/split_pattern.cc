#include "text/split_pattern.h"

#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

// Unicode White_Space, which is \s of Oniguruma. PCRE2's \s also takes U+180E.
constexpr std::string_view kSpaceSet =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028})"
    R"(\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNonSpaceSet =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f})"
    R"(\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// Letters and numbers of Unicode 15 and 16, which Oniguruma knows and the PCRE2 of Debian 12
// (Unicode 14) does not: mostly rare Chinese characters (extensions H and I) and historic scripts.
constexpr std::string_view kNewLetters =
    R"(\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3})"
    R"(\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240})"
    R"(\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3})"
    R"(\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d40}-\x{16d6c})"
    R"(\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb})"
    R"(\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kNewNumbers =
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59})"
    R"(\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3})"
    R"(\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < in_.size()) TUTTI_RETURN_IF_ERROR(Item());
    return std::move(out_);
  }

 private:
  absl::Status Refuse(size_t length) const {
    return absl::InvalidArgumentError(absl::StrCat("construct \"", Absl(in_.substr(at_, length)),
                                                   "\" at byte ", at_, " is not supported"));
  }

  absl::Status Item() {
    switch (in_[at_]) {
      case '\\':
        return Escape(/*in_class=*/false);
      case '[':
        return CharacterClass();
      case '(':
        return Group();
      case '?':
      case '*':
      case '+':
        return Quantifier();
      case '{':
        return Repeat();
      case ')':
      case '|':
        out_.push_back(in_[at_++]);
        return absl::OkStatus();
      case '.':
      case '^':
      case '$':
      case ']':
      case '}':
        return Refuse(1);
      default:
        return Literal();
    }
  }

  absl::Status Literal() {
    const Utf8Unit unit = FirstUtf8Unit(in_.substr(at_));
    if (unit.kind != Utf8Unit::kCharacter || unit.code_point == 0) return Refuse(1);
    out_.append(in_.substr(at_, unit.length));
    at_ += unit.length;
    return absl::OkStatus();
  }

  absl::Status Escape(bool in_class) {
    if (at_ + 1 >= in_.size()) return Refuse(1);
    const char c = in_[at_ + 1];
    if (c == 's' || c == 'S') {
      const std::string_view set = c == 's' ? kSpaceSet : kNonSpaceSet;
      if (in_class) {
        out_.append(set);
      } else {
        out_.append("[").append(set).append("]");
      }
      at_ += 2;
      return absl::OkStatus();
    }
    if (c == 'p') return Property(in_class);
    const bool punctuation = absl::ascii_ispunct(static_cast<unsigned char>(c));
    if (c != 'r' && c != 'n' && c != 't' && c != 'd' && !punctuation) return Refuse(2);
    out_.append(in_.substr(at_, 2));
    at_ += 2;
    return absl::OkStatus();
  }

  // \p{L}, \p{Lu}: general categories only; names of scripts depend on the Unicode version.
  absl::Status Property(bool in_class) {
    constexpr std::string_view kMajor = "CLMNPSZ";
    const size_t close = in_.find('}', at_);
    if (in_.substr(at_, 3) != "\\p{" || close == std::string_view::npos) return Refuse(3);
    const std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    const bool known = (name.size() == 1 || (name.size() == 2 && absl::ascii_islower(name[1]))) &&
                       kMajor.find(name[0]) != std::string_view::npos;
    if (!known) return Refuse(close - at_ + 1);
    if (!in_class) out_.push_back('[');
    out_.append(in_.substr(at_, close - at_ + 1));
    if (name == "L") out_.append(kNewLetters);
    if (name == "N") out_.append(kNewNumbers);
    if (!in_class) out_.push_back(']');
    at_ = close + 1;
    return absl::OkStatus();
  }

  absl::Status CharacterClass() {
    out_.push_back('[');
    ++at_;
    if (at_ < in_.size() && in_[at_] == '^') {
      out_.push_back('^');
      ++at_;
    }
    bool empty = true;
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '[' || in_.substr(at_, 2) == "&&") return Refuse(2);
      TUTTI_RETURN_IF_ERROR(in_[at_] == '\\' ? Escape(/*in_class=*/true) : Literal());
      empty = false;
    }
    if (at_ >= in_.size() || empty) return Refuse(1);
    out_.push_back(in_[at_++]);
    return absl::OkStatus();
  }

  absl::Status Group() {
    static constexpr std::array<std::string_view, 6> kOpenings = {
        "(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!"};
    for (const std::string_view opening : kOpenings) {
      if (in_.substr(at_, opening.size()) == opening) {
        out_.append(opening);
        at_ += opening.size();
        return absl::OkStatus();
      }
    }
    if (in_.substr(at_, 2) == "(?" || in_.substr(at_, 2) == "(*") return Refuse(3);
    out_.append("(?:");  // nothing refers to captures
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Quantifier() {
    out_.push_back(in_[at_++]);
    if (at_ < in_.size() && (in_[at_] == '?' || in_[at_] == '+')) out_.push_back(in_[at_++]);
    return absl::OkStatus();
  }

  // {n}, {n,}, {n,m}. A following ? or + means different things in the two dialects.
  absl::Status Repeat() {
    const size_t close = in_.find('}', at_);
    if (close == std::string_view::npos) return Refuse(1);
    const std::string_view body = in_.substr(at_ + 1, close - at_ - 1);
    const bool digits_first = !body.empty() && absl::ascii_isdigit(body[0]);
    if (!digits_first || body.find_first_not_of("0123456789,") != std::string_view::npos ||
        body.find(',') != body.rfind(',')) {
      return Refuse(close - at_ + 1);
    }
    const char next = close + 1 < in_.size() ? in_[close + 1] : '\0';
    if (next == '?' || next == '+') return Refuse(close - at_ + 2);
    out_.append(in_.substr(at_, close - at_ + 1));
    at_ = close + 1;
    return absl::OkStatus();
  }

  const std::string_view in_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> TranslateSplitPattern(std::string_view pattern) {
  if (pattern.size() > kSplitPatternBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern of ", pattern.size(), " bytes, at most ", kSplitPatternBytesMax));
  }
  return Translator(pattern).Run();
}

}  // namespace tutti::text
