#include "text/jinja/format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

absl::Status NoText(const Value& value, std::string_view as) {
  if (value.IsUndefined()) return absl::InvalidArgumentError(value.undefined());
  return absl::InvalidArgumentError(
      absl::StrCat("a value of type ", Absl(value.TypeName()), " cannot be written as ", Absl(as)));
}

std::string ReprString(std::string_view text, bool ascii) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(text);
    const char32_t c = unit.code_point;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x80 ? IsPrintable(c) : !ascii && IsPrintable(c)) {
      out += text.substr(0, unit.length);
    } else if (c < 0x100) {
      out += absl::StrFormat("\\x%02x", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += absl::StrFormat("\\u%04x", static_cast<uint32_t>(c));
    } else {
      out += absl::StrFormat("\\U%08x", static_cast<uint32_t>(c));
    }
    text.remove_prefix(unit.length);
  }
  out.push_back(quote);
  return out;
}

// True, 1, 2.5, None: values that str and repr write alike. Nothing for other types.
std::optional<std::string> ScalarText(const Value& value) {
  if (value.IsNone()) return "None";
  if (value.IsBool()) return value.AsBool() ? "True" : "False";
  if (value.IsInt() || value.IsBig()) return IntegerDigits(value);
  if (value.IsFloat()) return FloatRepr(value.AsDouble());
  return std::nullopt;
}

class ReprWriter {
 public:
  // `ascii`: other characters become escapes, too.
  ReprWriter(bool ascii, Work* work) : ascii_(ascii), work_(work) {}

  absl::Status Write(const Value& value) {
    TUTTI_RETURN_IF_ERROR(work_->ChargeBytes(value.IsStr() ? value.text().size() : 0));
    if (out_.size() > kTemplateOutputBytesMax) return work_->ChargeBytes(out_.size());
    if (const std::optional<std::string> scalar = ScalarText(value); scalar.has_value()) {
      out_.Append(*scalar, value.number_from_user());
      return absl::OkStatus();
    }
    if (value.IsStr()) {
      if (value.IsMarkup()) out_.Append("Markup(", false);
      out_.Append(ReprString(value.str(), ascii_), value.text().AnyFromUser());
      if (value.IsMarkup()) out_.Append(")", false);
      return absl::OkStatus();
    }
    if (value.IsList()) return WriteList(*value.list());
    if (value.IsDict()) return WriteDict(*value.dict());
    if (value.IsUndefined()) {
      out_.Append("Undefined", false);
      return absl::OkStatus();
    }
    return NoText(value, "text");
  }

  Text Finish() { return std::move(out_); }

 private:
  absl::Status WriteList(const List& list) {
    if (list.kind == List::kRange) {
      out_.Append(list.label, false);
      return absl::OkStatus();
    }
    const std::string_view name = list.kind == List::kItems    ? "dict_items("
                                  : list.kind == List::kKeys   ? "dict_keys("
                                  : list.kind == List::kValues ? "dict_values("
                                                               : "";
    out_.Append(name, false);
    out_.Append(list.is_tuple() ? "(" : "[", false);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.Append(", ", false);
      TUTTI_RETURN_IF_ERROR(Write(list.items[i]));
    }
    if (list.is_tuple() && list.items.size() == 1) out_.Append(",", false);
    out_.Append(list.is_tuple() ? ")" : "]", false);
    if (!name.empty()) out_.Append(")", false);
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict) {
    out_.Append("{", false);
    for (size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) out_.Append(", ", false);
      TUTTI_RETURN_IF_ERROR(Write(dict.items[i].first));
      out_.Append(": ", false);
      TUTTI_RETURN_IF_ERROR(Write(dict.items[i].second));
    }
    out_.Append("}", false);
    return absl::OkStatus();
  }

  const bool ascii_;
  Work* const work_;
  Text out_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Work* work)
      : style_(style),
        work_(work),
        item_separator_(style.item_separator.value_or(style.indent.has_value() ? "," : ", ")),
        key_separator_(style.key_separator.value_or(": ")) {}

  absl::Status Write(const Value& value, int level) {
    TUTTI_RETURN_IF_ERROR(work_->ChargeBytes(value.IsStr() ? value.text().size() : 0));
    if (out_.size() > kTemplateOutputBytesMax) return work_->ChargeBytes(out_.size());
    from_user_ |= value.number_from_user();
    if (value.IsNone()) return Put("null");
    if (value.IsBool()) return Put(value.AsBool() ? "true" : "false");
    if (value.IsInt() || value.IsBig()) return Put(IntegerDigits(value));
    if (value.IsFloat()) return Put(JsonFloat(value.AsDouble()));
    if (value.IsStr()) return WriteString(value.text());
    if (value.IsList() && value.list()->kind <= List::kGroup) {
      return WriteList(*value.list(), level);
    }
    if (value.IsDict()) return WriteDict(*value.dict(), level);
    return NoText(value, "JSON");
  }

  Text Finish() { return Text(std::move(out_), from_user_); }

 private:
  absl::Status Put(std::string_view text) {
    out_.append(text);
    return absl::OkStatus();
  }

  static std::string JsonFloat(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatRepr(value);
  }

  void NewLine(int level) {
    if (!style_.indent.has_value()) return;
    out_.push_back('\n');
    for (int i = 0; i < level; ++i) out_ += *style_.indent;
  }

  absl::Status WriteList(const List& list, int level) {
    if (list.items.empty()) return Put("[]");
    out_.push_back('[');
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      NewLine(level + 1);
      TUTTI_RETURN_IF_ERROR(Write(list.items[i], level + 1));
    }
    NewLine(level);
    return Put("]");
  }

  absl::Status SortKeys(std::vector<const std::pair<Value, Value>*>* items) {
    absl::Status status;
    TUTTI_RETURN_IF_ERROR(work_->ChargeValues(items->size() * std::bit_width(items->size())));
    std::stable_sort(items->begin(), items->end(), [&](const auto* a, const auto* b) {
      const absl::StatusOr<bool> less = Compare("<", a->first, b->first, work_);
      if (!less.ok()) status = less.status();
      return less.ok() && *less;
    });
    return status;
  }

  // Keys become strings as json.dumps does it.
  absl::Status WriteKey(const Value& key) {
    if (key.IsStr()) return WriteString(key.text());
    if (key.IsNumber() || key.IsNone()) {
      out_.push_back('"');
      TUTTI_RETURN_IF_ERROR(Write(key, 0));
      return Put("\"");
    }
    return absl::InvalidArgumentError(
        absl::StrCat("keys must be str, int, float, bool or None, not ", Absl(key.TypeName())));
  }

  absl::Status WriteDict(const Dict& dict, int level) {
    if (dict.items.empty()) return Put("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) TUTTI_RETURN_IF_ERROR(SortKeys(&items));
    out_.push_back('{');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      NewLine(level + 1);
      TUTTI_RETURN_IF_ERROR(WriteKey(items[i]->first));
      out_ += key_separator_;
      TUTTI_RETURN_IF_ERROR(Write(items[i]->second, level + 1));
    }
    NewLine(level);
    return Put("}");
  }

  absl::Status WriteString(const Text& text) {
    from_user_ |= text.AnyFromUser();
    out_.push_back('"');
    std::string_view rest = text.bytes();
    while (!rest.empty()) {
      const Utf8Unit unit = FirstUtf8Unit(rest);
      WriteCharacter(unit.code_point, rest.substr(0, unit.length));
      rest.remove_prefix(unit.length);
    }
    return Put("\"");
  }

  void WriteCharacter(char32_t c, std::string_view utf8) {
    switch (c) {
      case '"':
        out_ += "\\\"";
        return;
      case '\\':
        out_ += "\\\\";
        return;
      case '\n':
        out_ += "\\n";
        return;
      case '\r':
        out_ += "\\r";
        return;
      case '\t':
        out_ += "\\t";
        return;
      case '\b':
        out_ += "\\b";
        return;
      case '\f':
        out_ += "\\f";
        return;
      default:
        break;
    }
    if (c >= 0x20 && (c < 0x7F || !style_.ensure_ascii)) {
      out_ += utf8;
    } else if (c < 0x10000) {
      out_ += absl::StrFormat("\\u%04x", static_cast<uint32_t>(c));
    } else {
      const uint32_t offset = static_cast<uint32_t>(c) - 0x10000;
      out_ += absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
    }
  }

  const JsonStyle& style_;
  Work* const work_;
  const std::string item_separator_;
  const std::string key_separator_;
  std::string out_;
  bool from_user_ = false;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  const std::string_view scientific(buffer.data(), end.ptr - buffer.data());
  const size_t e = scientific.find('e');
  int exponent = 0;
  (void)absl::SimpleAtoi(Absl(scientific.substr(e + 1)), &exponent);
  // Python writes the exponent only where the point would lie far outside the digits.
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string text(buffer.data(), fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

absl::StatusOr<Text> ToText(const Value& value, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(value.IsStr() ? value.text().size() : 0));
  if (value.IsStr()) return value.text();
  if (value.IsUndefined()) return Text();
  return ToRepr(value, /*ascii=*/false, work);
}

absl::StatusOr<Text> ToRepr(const Value& value, bool ascii, Work* work) {
  ReprWriter writer(ascii, work);
  TUTTI_RETURN_IF_ERROR(writer.Write(value));
  return writer.Finish();
}

absl::StatusOr<Text> ToJson(const Value& value, const JsonStyle& style, Work* work) {
  JsonWriter writer(style, work);
  TUTTI_RETURN_IF_ERROR(writer.Write(value, 0));
  return writer.Finish();
}

}  // namespace tutti::text::jinja
