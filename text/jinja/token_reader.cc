#include "text/jinja/token_reader.h"

#include "absl/strings/str_cat.h"
#include "text/absl_text.h"
#include "text/limits.h"

namespace tutti::text::jinja {

std::string Describe(const Token& token) {
  switch (token.kind) {
    case Token::kEnd:
      return "end of template";
    case Token::kText:
      return "text";
    case Token::kOutputBegin:
      return "\"{{\"";
    case Token::kOutputEnd:
      return "\"}}\"";
    case Token::kBlockBegin:
      return "\"{%\"";
    case Token::kBlockEnd:
      return "\"%}\"";
    default:
      return absl::StrCat("\"", token.text, "\"");
  }
}

absl::Status FailAt(int line, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", Absl(why)));
}

Token TokenReader::Pop() {
  Token token = tokens_[at_];
  if (token.kind != Token::kEnd) ++at_;
  return token;
}

bool TokenReader::SkipOperator(std::string_view op) {
  if (!Now().IsOperator(op)) return false;
  ++at_;
  return true;
}

bool TokenReader::SkipName(std::string_view name) {
  if (!Now().IsName(name)) return false;
  ++at_;
  return true;
}

absl::Status TokenReader::Fail(std::string_view why) const { return FailAt(Now().line, why); }

absl::Status TokenReader::Unexpected(std::string_view wanted) const {
  return Fail(absl::StrCat("expected ", Absl(wanted), ", found ", Describe(Now())));
}

absl::Status TokenReader::Expect(Token::Kind kind, std::string_view wanted) {
  if (Now().kind != kind) return Unexpected(wanted);
  Skip();
  return absl::OkStatus();
}

absl::Status TokenReader::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) return Unexpected(absl::StrCat("\"", Absl(op), "\""));
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenReader::ExpectName(std::string_view wanted) {
  if (Now().kind != Token::kName || Contains(kKeywords, Now().text)) return Unexpected(wanted);
  return Pop().text;
}

absl::Status TokenReader::CheckNesting() const {
  if (nesting_ <= kTemplateDepthMax) return absl::OkStatus();
  return Fail(absl::StrCat("nests deeper than ", kTemplateDepthMax));
}

}  // namespace tutti::text::jinja
