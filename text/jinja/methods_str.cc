// Methods of strings.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"
#include "text/absl_text.h"
#include "text/case_mapping.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/markup.h"
#include "text/jinja/operations.h"
#include "text/jinja/percent_format.h"
#include "text/jinja/strings.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

Value Like(const Value& self, Text text) { return Value::Str(std::move(text), self.IsMarkup()); }

// The argument as text that is put into `self`: escaped where that is markup.
absl::StatusOr<Text> Inserted(const Value& self, const Value& argument, Work* work) {
  if (!argument.IsStr()) return BadArgument(argument, "str");
  if (self.IsMarkup()) return EscapeHtml(argument, work);
  return argument.text();
}

template <Side side>
absl::StatusOr<Value> StripMethod(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto chars, StrArgument(call, 0));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  // Each character is looked for in all of `chars`.
  if (chars.has_value()) {
    TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() * call.values[0].weight()));
  }
  return Like(self, Strip(self.text(), chars, side));
}

// text[begin:end] by characters, for methods that look at a part: nothing when `begin` is behind
// the end. `offset` becomes how many characters lie before it.
absl::StatusOr<std::optional<std::string_view>> PartOf(const Value& self, const Call& call,
                                                       size_t first, int64_t* offset) {
  if (!call.HasValue(first) && !call.HasValue(first + 1)) {
    return std::optional<std::string_view>(self.str());
  }
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().size()));
  const auto length = static_cast<int64_t>(CountCharacters(self.str()));
  int64_t begin = 0, end = length;
  if (call.HasValue(first)) {
    TUTTI_ASSIGN_OR_RETURN(begin, IntArgument(call, first, 0));
  }
  if (call.HasValue(first + 1)) {
    TUTTI_ASSIGN_OR_RETURN(end, IntArgument(call, first + 1, length));
  }
  if (begin < 0) begin = std::max<int64_t>(begin + length, 0);
  if (end < 0) end = std::max<int64_t>(end + length, 0);
  if (begin > length || begin > end) return std::optional<std::string_view>();
  *offset = begin;
  size_t at = 0;
  for (int64_t i = 0; i < begin; ++i) at += FirstUtf8Unit(self.str().substr(at)).length;
  size_t behind = at;
  for (int64_t i = begin; i < std::min(end, length); ++i) {
    behind += FirstUtf8Unit(self.str().substr(behind)).length;
  }
  return std::optional<std::string_view>(self.str().substr(at, behind - at));
}

// startswith, endswith: of one string or any of a tuple.
template <bool at_end>
absl::StatusOr<Value> Affix(const Value& self, const Call& call) {
  const Value& argument = call.values[0];
  int64_t offset = 0;
  TUTTI_ASSIGN_OR_RETURN(const auto part, PartOf(self, call, 1, &offset));
  const auto matches = [&](const Value& affix) {
    return part.has_value() &&
           (at_end ? part->ends_with(affix.str()) : part->starts_with(affix.str()));
  };
  TUTTI_RETURN_IF_ERROR(call.work->Charge(argument.weight()));
  if (argument.IsStr()) return Value::Bool(matches(argument));
  if (!argument.IsList() || !argument.list()->is_tuple()) return BadArgument(argument, "str");
  for (const Value& affix : argument.list()->items) {
    if (!affix.IsStr()) return BadArgument(affix, "str");
    if (matches(affix)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool at_end>
absl::StatusOr<Value> RemoveAffix(const Value& self, const Call& call) {
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  const std::string_view affix = call.values[0].str();
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  const Text& text = self.text();
  const bool found = at_end ? text.bytes().ends_with(affix) : text.bytes().starts_with(affix);
  const size_t length = found ? affix.size() : 0;
  return Like(self, text.Substr(at_end ? 0 : length, text.size() - length));
}

// The strings of a list, as markup where `self` is.
absl::StatusOr<Value> LikeAll(const Value& self, const Value& list) {
  if (!self.IsMarkup()) return list;
  std::vector<Value> items;
  for (const Value& item : list.list()->items) items.push_back(Like(self, item.text()));
  return Value::MakeList(std::move(items), list.list()->kind);
}

template <bool from_right>
absl::StatusOr<Value> SplitMethod(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto separator, StrArgument(call, 0));
  TUTTI_ASSIGN_OR_RETURN(const int64_t max, IntArgument(call, 1, -1));
  TUTTI_ASSIGN_OR_RETURN(const Value parts,
                         Split(self.text(), separator, max, from_right, call.work));
  return LikeAll(self, parts);
}

absl::StatusOr<Value> SplitLinesMethod(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  std::vector<Value> lines;
  for (Text& line : SplitLines(self.text(), BoolArgument(call, 0))) {
    lines.push_back(Like(self, std::move(line)));
  }
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(lines.size()));
  return Value::MakeList(std::move(lines));
}

template <bool from_right>
absl::StatusOr<Value> Partition(const Value& self, const Call& call) {
  // Markup escapes whatever it is given, which makes a string of it.
  if (!call.values[0].IsStr() && !self.IsMarkup()) return BadArgument(call.values[0], "str");
  Text escaped;
  if (self.IsMarkup()) {
    TUTTI_ASSIGN_OR_RETURN(escaped, EscapeHtml(call.values[0], call.work));
  }
  const std::string_view separator = self.IsMarkup() ? escaped.bytes() : call.values[0].str();
  if (separator.empty()) return absl::InvalidArgumentError("empty separator");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(separator.size()));
  TUTTI_RETURN_IF_ERROR(call.work->Charge(
      self.weight() * (1 + static_cast<int64_t>(separator.size()) / kTemplateBytesPerStep)));
  const Text& text = self.text();
  const size_t at = from_right ? text.bytes().rfind(separator) : text.bytes().find(separator);
  Text parts[3];
  if (at == std::string_view::npos) {
    parts[from_right ? 2 : 0] = text;
  } else {
    parts[0] = text.Substr(0, at);
    parts[1] = text.Substr(at, separator.size());
    parts[2] = text.Substr(at + separator.size(), text.size() - at - separator.size());
  }
  return Value::MakeList({Like(self, std::move(parts[0])), Like(self, std::move(parts[1])),
                          Like(self, std::move(parts[2]))},
                         List::kTuple);
}

absl::StatusOr<Value> ReplaceMethod(const Value& self, const Call& call) {
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  TUTTI_ASSIGN_OR_RETURN(const Text old, Inserted(self, call.values[0], call.work));
  TUTTI_ASSIGN_OR_RETURN(const Text by, Inserted(self, call.values[1], call.work));
  TUTTI_ASSIGN_OR_RETURN(const int64_t count, IntArgument(call, 2, -1));
  TUTTI_ASSIGN_OR_RETURN(Text text, Replace(self.text(), old.bytes(), by, count, call.work));
  return Like(self, std::move(text));
}

template <Text (*map)(const Text&)>
absl::StatusOr<Value> CaseMethod(const Value& self, const Call& call) {
  // Four bytes a character while it is mapped.
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  TUTTI_RETURN_IF_ERROR(
      call.work->Charge(static_cast<int64_t>(self.text().size()) * 4 / kTemplateBytesPerStep));
  return Like(self, map(self.text()));
}

absl::StatusOr<Value> JoinMethod(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(call.values[0], call.work));
  Text out;
  for (const Value& item : items->items) {
    TUTTI_ASSIGN_OR_RETURN(const Text text, Inserted(self, item, call.work));
    if (&item != &items->items.front()) out.Append(self.text());
    out.Append(text);
    TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() + item.weight()));
    if (out.size() > kTemplateOutputBytesMax) return call.work->ChargeBytes(out.size());
  }
  return Like(self, std::move(out));
}

// find, rfind, index, rindex.
template <bool from_right, bool must_be_there>
absl::StatusOr<Value> Find(const Value& self, const Call& call) {
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() * call.values[0].weight()));
  int64_t offset = 0;
  TUTTI_ASSIGN_OR_RETURN(const auto part, PartOf(self, call, 1, &offset));
  size_t at = std::string_view::npos;
  if (part.has_value()) {
    at = from_right ? part->rfind(call.values[0].str()) : part->find(call.values[0].str());
  }
  if (at != std::string_view::npos) {
    return Value::Int(offset + static_cast<int64_t>(CountCharacters(part->substr(0, at))));
  }
  if (must_be_there) return absl::InvalidArgumentError("substring not found");
  return Value::Int(-1);
}

absl::StatusOr<Value> Count(const Value& self, const Call& call) {
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() * call.values[0].weight()));
  int64_t offset = 0;
  TUTTI_ASSIGN_OR_RETURN(const auto part, PartOf(self, call, 1, &offset));
  if (!part.has_value()) return Value::Int(0);
  const std::string_view sub = call.values[0].str();
  if (sub.empty()) return Value::Int(static_cast<int64_t>(CountCharacters(*part)) + 1);
  int64_t count = 0;
  for (size_t at = part->find(sub); at != std::string_view::npos;
       at = part->find(sub, at + sub.size())) {
    ++count;
  }
  return Value::Int(count);
}

// Whether all characters, of which there must be one, are of a kind.
template <bool (*of_kind)(char32_t), bool of_empty = false>
absl::StatusOr<Value> All(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().size()));
  if (self.text().empty()) return Value::Bool(of_empty);
  for (size_t at = 0; at < self.text().size();) {
    const Utf8Unit unit = FirstUtf8Unit(self.str().substr(at));
    if (!of_kind(unit.code_point)) return Value::Bool(false);
    at += unit.length;
  }
  return Value::Bool(true);
}

bool IsAlnum(char32_t c) { return IsAlphabetic(c) || IsDigit(c); }
bool IsAscii(char32_t c) { return c < 0x80; }

// islower, isupper: at least one character has a case, and none another.
template <bool (*wanted)(char32_t)>
absl::StatusOr<Value> OneCase(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().size()));
  bool any = false;
  for (size_t at = 0; at < self.text().size();) {
    const Utf8Unit unit = FirstUtf8Unit(self.str().substr(at));
    at += unit.length;
    if (wanted(unit.code_point)) {
      any = true;
    } else if (IsCased(unit.code_point)) {
      return Value::Bool(false);
    }
  }
  return Value::Bool(any);
}

absl::StatusOr<Value> IsTitle(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().size()));
  bool any = false, inside = false;
  for (size_t at = 0; at < self.text().size();) {
    const Utf8Unit unit = FirstUtf8Unit(self.str().substr(at));
    at += unit.length;
    const bool cased = IsCased(unit.code_point);
    if (cased && inside != IsLower(unit.code_point)) return Value::Bool(false);
    any = any || cased;
    inside = cased;
  }
  return Value::Bool(any);
}

// ljust, rjust, center, zfill.
template <char align>
absl::StatusOr<Value> Justify(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const int64_t width, IntArgument(call, 0, 0));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(static_cast<size_t>(std::max<int64_t>(width, 0))));
  FormatSpec spec;
  spec.align = align;
  spec.width = static_cast<int>(std::max<int64_t>(width, 0));
  if (call.Has(1) && !call.values[1].IsStr()) return BadArgument(call.values[1], "str");
  TUTTI_ASSIGN_OR_RETURN(const auto fill, StrArgument(call, 1));
  if (fill.has_value()) {
    if (CountCharacters(*fill) != 1) {
      return absl::InvalidArgumentError("The fill character must be exactly one character long");
    }
    spec.fill = *fill;
  }
  if (align == '=') spec.fill = "0";
  // Python puts the odd one on the left where both the width and what is missing are odd.
  if (align == '^') {
    const auto length = static_cast<int64_t>(CountCharacters(self.str()));
    const int64_t missing = std::max<int64_t>(width - length, 0);
    FormatSpec left = spec;
    left.align = '>';
    left.width = static_cast<int>(length + missing / 2 + (missing & width & 1));
    spec.align = '<';
    TUTTI_ASSIGN_OR_RETURN(const Text padded, Pad(self.text(), left, call.work));
    TUTTI_ASSIGN_OR_RETURN(Text both, Pad(padded, spec, call.work));
    return Like(self, std::move(both));
  }
  TUTTI_ASSIGN_OR_RETURN(Text text, Pad(self.text(), spec, call.work));
  return Like(self, std::move(text));
}

absl::StatusOr<Value> FormatMethod(const Value& self, const Call& call) {
  CallArguments arguments;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (call.names[i].empty()) {
      arguments.positional.push_back(call.values[i]);
    } else {
      arguments.named.emplace_back(call.names[i], call.values[i]);
    }
  }
  return BraceFormat(self, arguments, call.work);
}

}  // namespace

const Builtin* FindStrMethod(std::string_view name) {
  static const auto* const table = new std::vector<Builtin>{
      {"capitalize", CaseMethod<Capitalize>},
      {"center", Justify<'^'>, {"width", "fillchar"}, 1, false, kPositional},
      {"count", Count, {"sub", "start", "end"}, 1, false, kPositional},
      {"endswith", Affix<true>, {"suffix", "start", "end"}, 1, false, kPositional},
      {"find", Find<false, false>, {"sub", "start", "end"}, 1, false, kPositional},
      {.name = "format", .function = FormatMethod, .more = true},
      {"index", Find<false, true>, {"sub", "start", "end"}, 1, false, kPositional},
      {"isalnum", All<IsAlnum>},
      {"isalpha", All<IsAlphabetic>},
      {"isascii", All<IsAscii, true>},
      {"isdecimal", All<IsDecimal>},
      {"isdigit", All<IsDigit>},
      {"islower", OneCase<IsLower>},
      {"isprintable", All<IsPrintable, true>},
      {"isspace", All<IsPythonSpace>},
      {"istitle", IsTitle},
      {"isupper", OneCase<IsUpper>},
      {"join", JoinMethod, {"iterable"}, 1, false, kPositional},
      {"ljust", Justify<'<'>, {"width", "fillchar"}, 1, false, kPositional},
      {"lower", CaseMethod<Lower>},
      {"lstrip", StripMethod<Side::kLeft>, {"chars"}, 0, false, kPositional},
      {"partition", Partition<false>, {"sep"}, 1, false, kPositional},
      {"removeprefix", RemoveAffix<false>, {"prefix"}, 1, false, kPositional},
      {"removesuffix", RemoveAffix<true>, {"suffix"}, 1, false, kPositional},
      {"replace", ReplaceMethod, {"old", "new", "count"}, 2, false, kPositional},
      {"rfind", Find<true, false>, {"sub", "start", "end"}, 1, false, kPositional},
      {"rindex", Find<true, true>, {"sub", "start", "end"}, 1, false, kPositional},
      {"rjust", Justify<'>'>, {"width", "fillchar"}, 1, false, kPositional},
      {"rpartition", Partition<true>, {"sep"}, 1, false, kPositional},
      {"rsplit", SplitMethod<true>, {"sep", "maxsplit"}},
      {"rstrip", StripMethod<Side::kRight>, {"chars"}, 0, false, kPositional},
      {"split", SplitMethod<false>, {"sep", "maxsplit"}},
      {"splitlines", SplitLinesMethod, {"keepends"}},
      {"startswith", Affix<false>, {"prefix", "start", "end"}, 1, false, kPositional},
      {"strip", StripMethod<Side::kBoth>, {"chars"}, 0, false, kPositional},
      {"title", CaseMethod<Title>},
      {"upper", CaseMethod<Upper>},
      {"zfill", Justify<'='>, {"width"}, 1, false, kPositional},
  };
  return FindIn(*table, name);
}

}  // namespace tutti::text::jinja
