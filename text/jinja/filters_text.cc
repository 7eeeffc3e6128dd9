// Filters that make strings of strings.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/case_mapping.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/builtin_tables.h"
#include "text/jinja/format.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/number_text.h"
#include "text/jinja/operations.h"
#include "text/jinja/percent_format.h"
#include "text/jinja/strings.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

// str(self), which stays markup.
absl::StatusOr<Value> SoftStr(const Value& self, Work* work) {
  if (self.IsStr()) return self;
  TUTTI_ASSIGN_OR_RETURN(Text text, ToText(self, work));
  return Value::Str(std::move(text));
}

template <Text (*map)(const Text&)>
absl::StatusOr<Value> CaseFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value value, SoftStr(self, call.work));
  // Four bytes a character while it is mapped.
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(value.text().memory()));
  TUTTI_RETURN_IF_ERROR(
      call.work->Charge(static_cast<int64_t>(value.text().size()) * 4 / kTemplateBytesPerStep));
  return Value::Str(map(value.text()), value.IsMarkup());
}

// Puts the words together again, so that markup is markup no more.
absl::StatusOr<Value> TitleFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value title, CaseFilter<TitleWords>(self, call));
  return Value::Str(title.text());
}

absl::StatusOr<Value> StringFilter(const Value& self, const Call& call) {
  return SoftStr(self, call.work);
}

absl::StatusOr<Value> Trim(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value value, SoftStr(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const auto chars, StrArgument(call, 0));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(value.text().memory()));
  // Each character is looked for in all of them.
  if (chars.has_value()) {
    TUTTI_RETURN_IF_ERROR(call.work->Charge(value.weight() * call.values[0].weight()));
  }
  return Value::Str(Strip(value.text(), chars, Side::kBoth), value.IsMarkup());
}

absl::StatusOr<Value> ReplaceFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const Text old, TextArgument(call, 0));
  TUTTI_ASSIGN_OR_RETURN(const Text by, TextArgument(call, 1));
  int64_t count = -1;
  if (call.HasValue(2)) {
    TUTTI_ASSIGN_OR_RETURN(count, IntArgument(call, 2, -1));
  }
  TUTTI_ASSIGN_OR_RETURN(Text replaced, Replace(text, old.bytes(), by, count, call.work));
  return Value::Str(std::move(replaced));
}

absl::StatusOr<Value> FormatFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value format, SoftStr(self, call.work));
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> named;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (call.names[i].empty()) {
      positional.push_back(call.values[i]);
    } else {
      named.emplace_back(Value::Literal(call.names[i]), call.values[i]);
    }
  }
  if (!positional.empty() && !named.empty()) {
    return absl::InvalidArgumentError(
        "can't handle positional and keyword arguments at the same "
        "time");
  }
  if (!named.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const Value arguments, Value::MakeDict(std::move(named)));
    return PercentFormat(format, arguments, call.work);
  }
  TUTTI_ASSIGN_OR_RETURN(const Value arguments,
                         Value::MakeList(std::move(positional), List::kTuple));
  return PercentFormat(format, arguments, call.work);
}

absl::StatusOr<Value> Indent(const Value& self, const Call& call) {
  enum { kWidth, kFirst, kBlank };
  if (!self.IsStr()) return TypeError(self, "cannot be indented, it is no str");
  Text indention(std::string(4, ' '), false);
  if (call.Has(kWidth) && call.values[kWidth].IsStr()) {
    indention = call.values[kWidth].text();
  } else {
    TUTTI_ASSIGN_OR_RETURN(const int64_t width, IntArgument(call, kWidth, 4));
    if (width > kTemplateFormatWidthMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("indent: a width beyond ", kTemplateFormatWidthMax));
    }
    indention = Text(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '), false);
  }
  Text with_newline = self.text();
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(with_newline.memory()));
  with_newline.Append("\n", false);
  const std::vector<Text> lines = SplitLines(with_newline, /*keep_ends=*/false);
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(lines.size()));
  Text out;
  if (BoolArgument(call, kFirst)) out.Append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.Append("\n", false);
      if (BoolArgument(call, kBlank) || !lines[i].empty()) out.Append(indention);
    }
    out.Append(lines[i]);
    TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(indention.memory()));
    if (out.size() > kTemplateOutputBytesMax) return call.work->ChargeBytes(out.size());
  }
  return Value::Str(std::move(out), self.IsMarkup());
}

absl::StatusOr<Value> Center(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value value, SoftStr(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const int64_t columns, IntArgument(call, 0, 80));
  CallArguments arguments;
  arguments.positional.push_back(Value::Int(columns));
  return CallBuiltin(*FindStrMethod("center"), value, arguments, call.work);
}

absl::StatusOr<Value> Truncate(const Value& self, const Call& call) {
  enum { kLength, kKillWords, kEnd, kLeeway };
  const Value length = call.Has(kLength) ? call.values[kLength] : Value::Int(255);
  const Value leeway = call.HasValue(kLeeway) ? call.values[kLeeway] : Value::Int(5);
  const Value end = call.Has(kEnd) ? call.values[kEnd] : Value::Literal("...");
  TUTTI_ASSIGN_OR_RETURN(const int64_t end_length, Length(end, call.work));
  TUTTI_ASSIGN_OR_RETURN(const bool has_room,
                         Compare(">=", length, Value::Int(end_length), call.work));
  TUTTI_ASSIGN_OR_RETURN(const bool has_leeway, Compare(">=", leeway, Value::Int(0), call.work));
  if (!has_room || !has_leeway) {
    return absl::InvalidArgumentError(
        absl::StrCat("truncate: expected length >= ", end_length, " and leeway >= 0"));
  }
  // Whatever has a length and is short enough, stays as it is.
  TUTTI_ASSIGN_OR_RETURN(const int64_t self_length, Length(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const Value longest, Arithmetic("+", length, leeway, call.work));
  TUTTI_ASSIGN_OR_RETURN(const bool is_short,
                         Compare("<=", Value::Int(self_length), longest, call.work));
  if (is_short) return self;
  if (!self.IsStr()) return TypeError(self, "cannot be truncated, it is no str");
  if (!length.IsInt() && !length.IsBool()) return BadArgument(length, "int");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  TUTTI_ASSIGN_OR_RETURN(Text cut,
                         SliceText(self.text(), 0, length.AsInt() - end_length, 1, call.work));
  if (!BoolArgument(call, kKillWords)) {
    const size_t space = cut.bytes().rfind(' ');
    if (space != std::string_view::npos) cut = cut.Substr(0, space);
  }
  return Arithmetic("+", Value::Str(std::move(cut), self.IsMarkup()), end, call.work);
}

absl::StatusOr<Value> WordCount(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(self, call.work));
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = FirstUtf8Unit(text.bytes().substr(at));
    const char32_t c = unit.code_point;
    const bool is_word = c == U'_' || IsAlphabetic(c) || IsDigit(c);
    if (is_word && !inside) ++words;
    inside = is_word;
    at += unit.length;
  }
  return Value::Int(words);
}

absl::StatusOr<Value> FileSizeFormat(const Value& self, const Call& call) {
  if (self.IsStr()) TUTTI_RETURN_IF_ERROR(ChargeNumber(self.text(), call.work));
  const std::optional<double> read = self.IsStr() ? ReadFloat(self.text()) : std::nullopt;
  if (!self.IsNumber() && !read.has_value()) return TypeError(self, "is no number of bytes");
  const bool binary = BoolArgument(call, 0);
  const double base = binary ? 1024 : 1000;
  double bytes = read.value_or(0);
  if (self.IsNumber()) {
    TUTTI_ASSIGN_OR_RETURN(bytes, ToDouble(self));
  }
  const bool from_user = self.IsStr() ? self.text().AnyFromUser() : self.number_from_user();
  const auto text = [&](const std::string& written) {
    return Value::Str(Text(written, from_user));
  };
  if (bytes == 1) return text("1 Byte");
  if (bytes < base) {
    TUTTI_ASSIGN_OR_RETURN(const Value whole, IntegerFromDouble(bytes, from_user));
    return text(IntegerDigits(whole) + " Bytes");
  }
  double unit = base;
  std::string_view prefix;
  for (const char& letter : std::string_view("kMGTPEZY")) {
    unit *= base;
    prefix = std::string_view(&letter, 1);
    if (bytes < unit) break;
  }
  const std::string shown = prefix == "k" && binary ? "K" : std::string(prefix);
  return text(absl::StrFormat("%.1f %s%s", base * bytes / unit, shown, binary ? "iB" : "B"));
}

}  // namespace

const std::vector<Builtin>& TextFilters() {
  static const auto* const table = new std::vector<Builtin>{
      {"capitalize", CaseFilter<Capitalize>},
      {"center", Center, {"width"}},
      {"filesizeformat", FileSizeFormat, {"binary"}},
      {.name = "format", .function = FormatFilter, .more = true},
      {"indent", Indent, {"width", "first", "blank"}},
      {"lower", CaseFilter<Lower>},
      {"replace", ReplaceFilter, {"old", "new", "count"}, 2},
      {"string", StringFilter},
      {"title", TitleFilter},
      {"trim", Trim, {"chars"}},
      {"truncate", Truncate, {"length", "killwords", "end", "leeway"}},
      {"upper", CaseFilter<Upper>},
      {"wordcount", WordCount},
  };
  return *table;
}

}  // namespace tutti::text::jinja
