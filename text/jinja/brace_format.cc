// str.format.
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/format.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/markup.h"
#include "text/jinja/operations.h"
#include "text/jinja/percent_format.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

class BraceFormatter {
 public:
  BraceFormatter(bool is_markup, const CallArguments& arguments, Work* work)
      : is_markup_(is_markup), arguments_(arguments), work_(work) {}

  // `nesting`: how many specs may still have fields.
  absl::StatusOr<Text> Run(const Text& format, int nesting) {
    TUTTI_RETURN_IF_ERROR(work_->ChargeBytes(format.memory()));
    if (nesting < 0) return Invalid("Max string recursion exceeded");
    const std::string_view bytes = format.bytes();
    Text out;
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.Append(format, at, brace - at);
      at = brace;
      if (at == bytes.size()) break;
      if (bytes.substr(at, 2) == "{{" || bytes.substr(at, 2) == "}}") {
        out.Append(format, at, 1);
        at += 2;
        continue;
      }
      if (bytes[at] == '}') return Invalid("Single '}' encountered in format string");
      const size_t end = FieldEnd(bytes, at + 1);
      if (end == std::string_view::npos) return Invalid("expected '}' before end of string");
      TUTTI_ASSIGN_OR_RETURN(const Text field, Field(format.Substr(at + 1, end - at - 1), nesting));
      out.Append(field);
      if (out.size() > kTemplateOutputBytesMax) return work_->ChargeBytes(out.size());
      at = end + 1;
    }
    return out;
  }

 private:
  // The place of the "}" that ends the field whose inside begins at `at`.
  static size_t FieldEnd(std::string_view bytes, size_t at) {
    int depth = 1;
    for (; at < bytes.size(); ++at) {
      if (bytes[at] == '{') ++depth;
      if (bytes[at] == '}' && --depth == 0) return at;
    }
    return std::string_view::npos;
  }

  absl::StatusOr<Text> Field(const Text& field, int nesting) {
    const std::string_view bytes = field.bytes();
    size_t name_end = 0;
    for (int brackets = 0; name_end < bytes.size(); ++name_end) {
      const char c = bytes[name_end];
      brackets += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (brackets <= 0 && (c == ':' || c == '!')) break;
    }
    TUTTI_ASSIGN_OR_RETURN(Value value, Find(bytes.substr(0, name_end)));
    size_t at = name_end;
    if (at < bytes.size() && bytes[at] == '!') {
      const char conversion = at + 1 < bytes.size() ? bytes[at + 1] : '\0';
      at += 2;
      if (conversion == '\0' || (at < bytes.size() && bytes[at] != ':')) {
        return Invalid("expected ':' after conversion specifier");
      }
      TUTTI_ASSIGN_OR_RETURN(value, Convert(value, conversion));
    }
    Text spec;
    if (at < bytes.size()) {
      TUTTI_ASSIGN_OR_RETURN(spec, Run(field.Substr(at + 1, bytes.size() - at - 1), nesting - 1));
    }
    if (!is_markup_) return FormatValue(value, spec.bytes(), work_);
    if (value.IsMarkup()) {
      if (spec.empty()) return value.text();
      return Invalid("Format specifier given, but Markup does not define one");
    }
    TUTTI_ASSIGN_OR_RETURN(Text text, FormatValue(value, spec.bytes(), work_));
    return EscapeHtml(Value::Str(std::move(text)), work_);
  }

  absl::StatusOr<Value> Convert(const Value& value, char conversion) {
    if (conversion == 's') {
      TUTTI_ASSIGN_OR_RETURN(Text text, ToText(value, work_));
      return Value::Str(std::move(text));
    }
    if (conversion != 'r' && conversion != 'a') {
      return Invalid(absl::StrCat("Unknown conversion specifier ", std::string(1, conversion)));
    }
    TUTTI_ASSIGN_OR_RETURN(Text text, ToRepr(value, conversion == 'a', work_));
    return Value::Str(std::move(text));
  }

  // The argument that "0.name[key]" names.
  absl::StatusOr<Value> Find(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    TUTTI_ASSIGN_OR_RETURN(Value value, Argument(name.substr(0, first_end)));
    size_t at = first_end;
    while (at < name.size()) {
      TUTTI_RETURN_IF_ERROR(work_->Charge(1));
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        TUTTI_ASSIGN_OR_RETURN(value,
                               GetAttribute(value, name.substr(at + 1, end - at - 1), work_));
        at = end;
        continue;
      }
      const size_t end = name.find(']', at);
      if (name[at] != '[' || end == std::string_view::npos) {
        return Invalid("Only '.' or '[' may follow ']' in format field specifier");
      }
      const std::string_view key = name.substr(at + 1, end - at - 1);
      int64_t index = 0;
      const bool is_index = IsDigits(key) && absl::SimpleAtoi(Absl(key), &index);
      const Value item = is_index ? Value::Int(index) : Value::Literal(std::string(key));
      TUTTI_ASSIGN_OR_RETURN(value, GetItem(value, item, work_));
      at = end + 1;
    }
    return value;
  }

  absl::StatusOr<Value> Argument(std::string_view name) {
    if (!name.empty() && !IsDigits(name)) {
      for (const auto& [known, value] : arguments_.named) {
        if (known == name) return value;
      }
      return Invalid(absl::StrCat("'", Absl(name), "'"));
    }
    const bool automatic = name.empty();
    if (automatic ? numbered_ : next_ > 0) {
      return Invalid("cannot switch between manual field specification and automatic numbering");
    }
    size_t index = next_;
    if (automatic) {
      ++next_;
    } else {
      numbered_ = true;
      uint32_t number = 0;
      if (!absl::SimpleAtoi(Absl(name), &number)) return Invalid("too many decimal digits");
      index = number;
    }
    if (index >= arguments_.positional.size()) {
      return Invalid(
          absl::StrCat("Replacement index ", index, " out of range for positional args tuple"));
    }
    return arguments_.positional[index];
  }

  const bool is_markup_;
  const CallArguments& arguments_;
  Work* const work_;
  size_t next_ = 0;
  bool numbered_ = false;
};

}  // namespace

absl::StatusOr<Value> BraceFormat(const Value& format, const CallArguments& arguments, Work* work) {
  constexpr int kNesting = 1;
  TUTTI_ASSIGN_OR_RETURN(
      Text text, BraceFormatter(format.IsMarkup(), arguments, work).Run(format.text(), kNesting));
  return Value::Str(std::move(text), format.IsMarkup());
}

}  // namespace tutti::text::jinja
