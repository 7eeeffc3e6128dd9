#include "text/jinja/percent_format.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"
#include "text/absl_text.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/format.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/markup.h"
#include "text/jinja/number_text.h"
#include "text/jinja/operations.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(const Value& format, const Value& arguments, Work* work)
      : text_(format.text()),
        is_markup_(format.IsMarkup()),
        arguments_(arguments),
        is_tuple_(arguments.IsList() && arguments.list()->is_tuple()),
        work_(work) {}

  absl::StatusOr<Value> Run() {
    TUTTI_RETURN_IF_ERROR(work_->ChargeBytes(text_.memory()));
    const std::string_view bytes = text_.bytes();
    while (true) {
      const size_t percent = std::min(bytes.find('%', at_), bytes.size());
      out_.Append(text_, at_, percent - at_);
      at_ = percent;
      if (at_ == bytes.size()) break;
      TUTTI_RETURN_IF_ERROR(One());
      if (out_.size() > kTemplateOutputBytesMax) return work_->ChargeBytes(out_.size());
    }
    const size_t given = is_tuple_ ? arguments_.list()->items.size() : 1;
    if (used_ < given && !named_ && !IsMapping()) {
      return Invalid("not all arguments converted during string formatting");
    }
    return Value::Str(std::move(out_), is_markup_);
  }

 private:
  // A mapping for Python: whatever has items by key. None of it need be used.
  bool IsMapping() const {
    if (arguments_.IsList()) return !is_tuple_ && !arguments_.list()->is_view();
    return arguments_.IsDict() || arguments_.IsUndefined();
  }

  char Now() const { return at_ < text_.size() ? text_.bytes()[at_] : '\0'; }

  absl::StatusOr<Value> NextArgument() {
    if (is_tuple_ && used_ < arguments_.list()->items.size()) {
      return arguments_.list()->items[used_++];
    }
    if (is_tuple_ || used_ > 0 || named_) {
      return Invalid("not enough arguments for format string");
    }
    ++used_;
    return arguments_;
  }

  absl::StatusOr<Value> Named() {
    size_t end = at_;
    for (int open = 0; end < text_.size(); ++end) {  // brackets inside the key are part of it
      const char c = text_.bytes()[end];
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (open == 0) break;
    }
    if (end == text_.size()) return Invalid("incomplete format key");
    const std::string_view name = text_.bytes().substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    named_ = true;
    if (!arguments_.IsDict()) return Invalid("format requires a mapping");
    const Value* found = arguments_.dict()->Find(name);
    if (found == nullptr) return Invalid(absl::StrCat("no value for '", Absl(name), "'"));
    return *found;
  }

  absl::StatusOr<int> Count(int absent) {
    if (Now() == '*') {
      ++at_;
      TUTTI_ASSIGN_OR_RETURN(const Value value, NextArgument());
      if (is_markup_ || (!value.IsInt() && !value.IsBool())) return Invalid("* wants int");
      if (value.AsInt() > kTemplateFormatWidthMax || value.AsInt() < -kTemplateFormatWidthMax) {
        return Invalid(absl::StrCat("a width or precision beyond ", kTemplateFormatWidthMax));
      }
      return static_cast<int>(value.AsInt());
    }
    int count = absent;
    for (; absl::ascii_isdigit(static_cast<unsigned char>(Now())); ++at_) {
      count = 10 * std::max(count, 0) + (Now() - '0');
      if (count > kTemplateFormatWidthMax) {
        return Invalid(absl::StrCat("a width or precision beyond ", kTemplateFormatWidthMax));
      }
    }
    return count;
  }

  // At "%".
  absl::Status One() {
    const size_t begin = at_++;
    FormatSpec spec;
    spec.align = '>';
    bool has_value = false, zero = false;
    Value value;
    if (Now() == '(') {
      TUTTI_ASSIGN_OR_RETURN(value, Named());
      has_value = true;
    }
    for (; at_ < text_.size() && std::string_view("-+ #0").find(Now()) != std::string_view::npos;
         ++at_) {
      if (Now() == '-') spec.align = '<';
      if (Now() == '+' || (Now() == ' ' && spec.sign != '+')) spec.sign = Now();
      if (Now() == '#') spec.alternate = true;
      if (Now() == '0') zero = true;
    }
    TUTTI_ASSIGN_OR_RETURN(spec.width, Count(0));
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (Now() == '.') {
      ++at_;
      TUTTI_ASSIGN_OR_RETURN(spec.precision, Count(0));
      spec.precision = std::max(spec.precision, 0);
    }
    if (Now() == 'h' || Now() == 'l' || Now() == 'L') ++at_;
    spec.type = Now();
    if (at_ >= text_.size()) return Invalid("incomplete format");
    ++at_;
    if (at_ == begin + 2 && spec.type == '%') {
      out_.Append("%", false);
      return absl::OkStatus();
    }
    if (!has_value) {
      TUTTI_ASSIGN_OR_RETURN(value, NextArgument());
    }
    TUTTI_ASSIGN_OR_RETURN(const Text text, Convert(value, zero, &spec));
    out_.Append(text);
    return absl::OkStatus();
  }

  // A value that markup formats is wrapped in an object that is a number where its text is one, but
  // is no integer and no str.
  absl::StatusOr<Value> Unwrapped(const Value& value, char type) {
    if (!is_markup_ || std::string_view("sra").find(type) != std::string_view::npos) return value;
    if (std::string_view("cxXo").find(type) != std::string_view::npos) {
      return Invalid(absl::StrCat("%", std::string(1, type), " format of markup"));
    }
    if (!value.IsStr()) return value;
    TUTTI_RETURN_IF_ERROR(ChargeNumber(value.text(), work_));
    if (std::string_view("diu").find(type) != std::string_view::npos) {
      TUTTI_ASSIGN_OR_RETURN(const std::optional<Value> integer, ReadInteger(value.text(), 10));
      return integer.value_or(value);
    }
    const std::optional<double> number = ReadFloat(value.text());
    return number.has_value() ? Value::Float(*number, value.text().AnyFromUser()) : value;
  }

  absl::StatusOr<Text> Convert(const Value& wrapped, bool zero, FormatSpec* spec) {
    TUTTI_ASSIGN_OR_RETURN(const Value value, Unwrapped(wrapped, spec->type));
    switch (spec->type) {
      case 's':
      case 'r':
      case 'a':
        return ConvertText(value, *spec);
      case 'c':
        if (value.IsStr() && CountCharacters(value.str()) == 1)
          return Pad(value.text(), *spec, work_);
        if (!value.IsInteger()) return Invalid("%c requires int or char");
        break;
      case 'd':
      case 'i':
      case 'u':
        if (!value.IsNumber()) {
          return Invalid(
              absl::StrCat("%d format: a real number is required, not ", Absl(value.TypeName())));
        }
        spec->type = 'd';
        break;
      case 'x':
      case 'X':
      case 'o':
        if (!value.IsInteger()) {
          return Invalid(
              absl::StrCat("%x format: an integer is required, not ", Absl(value.TypeName())));
        }
        break;
      default:
        if (std::string_view("eEfFgG").find(spec->type) == std::string_view::npos) {
          return Invalid(
              absl::StrCat("unsupported format character '", std::string(1, spec->type), "'"));
        }
        if (!value.IsNumber()) {
          return Invalid(absl::StrCat("must be real number, not ", Absl(value.TypeName())));
        }
    }
    if (zero && spec->align == '>') {
      spec->fill.assign(1, '0');
      spec->align = '=';
    }
    Value number = value;
    if (spec->type == 'd' && value.IsFloat()) {
      TUTTI_ASSIGN_OR_RETURN(number, IntegerFromDouble(value.AsDouble(), value.number_from_user()));
    }
    TUTTI_ASSIGN_OR_RETURN(std::string digits, FormatNumber(number, *spec));
    return Pad(Text(std::move(digits), value.number_from_user()), *spec, work_);
  }

  absl::StatusOr<Text> ConvertText(const Value& value, const FormatSpec& spec) {
    Text text;
    if (spec.type != 's') {
      TUTTI_ASSIGN_OR_RETURN(text, ToRepr(value, spec.type == 'a', work_));
      if (is_markup_) {
        TUTTI_ASSIGN_OR_RETURN(text, EscapeHtml(Value::Str(std::move(text)), work_));
      }
    } else if (is_markup_) {
      TUTTI_ASSIGN_OR_RETURN(text, EscapeHtml(value, work_));
    } else {
      TUTTI_ASSIGN_OR_RETURN(text, ToText(value, work_));
    }
    if (spec.precision >= 0) {
      size_t end = 0;
      for (int i = 0; i < spec.precision && end < text.size(); ++i) {
        end += FirstUtf8Unit(text.bytes().substr(end)).length;
      }
      text = text.Substr(0, end);
    }
    return Pad(text, spec, work_);
  }

  const Text& text_;
  const bool is_markup_;
  const Value& arguments_;
  const bool is_tuple_;
  Work* const work_;
  Text out_;
  size_t at_ = 0;
  size_t used_ = 0;  // of the arguments
  bool named_ = false;
};

}  // namespace

absl::StatusOr<Value> PercentFormat(const Value& format, const Value& arguments, Work* work) {
  return PercentFormatter(format, arguments, work).Run();
}

}  // namespace tutti::text::jinja
