#include "text/jinja/parser.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/jinja/lexer.h"
#include "text/jinja/statement_parser.h"
#include "text/limits.h"

namespace tutti::text::jinja {

absl::StatusOr<std::unique_ptr<Template>> ParseTemplate(std::string_view source) {
  if (source.size() > kTemplateBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", source.size(), " bytes, at most ", kTemplateBytesMax));
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return StatementParser(std::move(tokens)).Run();
}

}  // namespace tutti::text::jinja
