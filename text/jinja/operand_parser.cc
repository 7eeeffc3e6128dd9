#include "text/jinja/operand_parser.h"

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/big_integer.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

// The place where the innermost macro learns that it uses `name`.
bool* SpecialOf(Macro* macro, std::string_view name) {
  if (name == "varargs") return &macro->uses_varargs;
  if (name == "kwargs") return &macro->uses_kwargs;
  return name == "caller" ? &macro->uses_caller : nullptr;
}

// The expression, with the depth of its arguments.
absl::StatusOr<ExprPtr> Checked(ExprPtr expr) {
  for (const Argument& argument : expr->arguments) {
    expr->depth = std::max(expr->depth, argument.value->depth + 1);
  }
  if (expr->depth > kTemplateDepthMax) {
    return FailAt(expr->line, absl::StrCat("nests deeper than ", kTemplateDepthMax));
  }
  return expr;
}

absl::StatusOr<ExprPtr> NewConstant(int line, Value value) {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, NewExpr(Expr::kConstant, line, std::vector<ExprPtr>()));
  expr->constant = std::move(value);
  return expr;
}

}  // namespace

absl::StatusOr<ExprPtr> NewExpr(Expr::Kind kind, int line, std::vector<ExprPtr> children) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  for (const ExprPtr& child : children) {
    if (child != nullptr) expr->depth = std::max(expr->depth, child->depth + 1);
  }
  expr->children = std::move(children);
  return Checked(std::move(expr));
}

absl::StatusOr<ExprPtr> NewExpr(Expr::Kind kind, int line, ExprPtr child) {
  std::vector<ExprPtr> children;
  children.push_back(std::move(child));
  return NewExpr(kind, line, std::move(children));
}

absl::StatusOr<ExprPtr> NewExpr(Expr::Kind kind, int line, ExprPtr left, ExprPtr right) {
  std::vector<ExprPtr> children;
  children.push_back(std::move(left));
  children.push_back(std::move(right));
  return NewExpr(kind, line, std::move(children));
}

absl::StatusOr<ExprPtr> OperandParser::ParsePrimary() {
  const Token token = tokens_->Now();
  switch (token.kind) {
    case Token::kName:
      return ParseName();
    case Token::kString: {
      std::string text;
      while (tokens_->Now().kind == Token::kString) text += tokens_->Pop().text;
      return NewConstant(token.line, Value::Literal(std::move(text)));
    }
    case Token::kInteger: {
      tokens_->Skip();
      TUTTI_ASSIGN_OR_RETURN(Value value, IntegerFromDigits(token.text, token.base, false));
      return NewConstant(token.line, std::move(value));
    }
    case Token::kFloat:
      tokens_->Skip();
      return NewConstant(token.line, Value::Float(token.number));
    default:
      break;
  }
  if (tokens_->SkipOperator("(")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, whole_.in_brackets());
    TUTTI_RETURN_IF_ERROR(tokens_->ExpectOperator(")"));
    return expr;
  }
  if (tokens_->SkipOperator("[")) return ParseListOrDict(Expr::kList, "]");
  if (tokens_->SkipOperator("{")) return ParseListOrDict(Expr::kDict, "}");
  return tokens_->Unexpected("an expression");
}

absl::StatusOr<ExprPtr> OperandParser::ParseListOrDict(Expr::Kind kind, std::string_view close) {
  const int line = tokens_->Now().line;
  std::vector<ExprPtr> children;
  while (!tokens_->Now().IsOperator(close)) {
    if (!children.empty()) {
      TUTTI_RETURN_IF_ERROR(tokens_->ExpectOperator(","));
      if (tokens_->Now().IsOperator(close)) break;
    }
    TUTTI_ASSIGN_OR_RETURN(ExprPtr child, whole_.expression());
    children.push_back(std::move(child));
    if (kind != Expr::kDict) continue;
    TUTTI_RETURN_IF_ERROR(tokens_->ExpectOperator(":"));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr value, whole_.expression());
    children.push_back(std::move(value));
  }
  tokens_->Skip();
  return NewExpr(kind, line, std::move(children));
}

absl::StatusOr<ExprPtr> OperandParser::ParseName() {
  const Token token = tokens_->Pop();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return NewConstant(token.line, Value::Bool(true));
  if (name == "false" || name == "False") return NewConstant(token.line, Value::Bool(false));
  if (name == "none" || name == "None") return NewConstant(token.line, Value());
  if (Contains(kKeywords, name)) {
    return FailAt(token.line, absl::StrCat("expected an expression, found \"", name, "\""));
  }
  for (Macro* const macro : so_far_->macros) {
    if (bool* const uses = SpecialOf(macro, name); uses != nullptr) *uses = true;
  }
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, NewExpr(Expr::kName, token.line, std::vector<ExprPtr>()));
  expr->name = name;
  return expr;
}

absl::StatusOr<ExprPtr> OperandParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (tokens_->SkipOperator(".")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseAttribute(std::move(expr)));
    } else if (tokens_->SkipOperator("[")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
    } else if (tokens_->Now().IsOperator("(")) {
      TUTTI_ASSIGN_OR_RETURN(expr, NewExpr(Expr::kCall, tokens_->Now().line, std::move(expr)));
      TUTTI_RETURN_IF_ERROR(ParseArguments(&expr->arguments));
      TUTTI_ASSIGN_OR_RETURN(expr, Checked(std::move(expr)));
    } else {
      return expr;
    }
  }
}

absl::StatusOr<ExprPtr> OperandParser::ParseAttribute(ExprPtr object) {
  const Token token = tokens_->Pop();
  if (token.kind == Token::kInteger) {
    TUTTI_ASSIGN_OR_RETURN(Value index, IntegerFromDigits(token.text, token.base, false));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr key, NewConstant(token.line, std::move(index)));
    return NewExpr(Expr::kItem, token.line, std::move(object), std::move(key));
  }
  if (token.kind != Token::kName) {
    return FailAt(token.line, absl::StrCat("expected an attribute, found ", Describe(token)));
  }
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, NewExpr(Expr::kAttribute, token.line, std::move(object)));
  expr->name = token.text;
  return expr;
}

absl::StatusOr<ExprPtr> OperandParser::ParseSubscript(ExprPtr object) {
  const int line = tokens_->Now().line;
  std::vector<ExprPtr> parts(4);  // object, begin, end, step
  size_t part = 1;
  bool is_slice = false;
  while (!tokens_->Now().IsOperator("]")) {
    if (tokens_->SkipOperator(":")) {
      is_slice = true;
      if (++part > 3) return tokens_->Unexpected("\"]\"");
      continue;
    }
    if (parts[part] != nullptr) return tokens_->Unexpected("\"]\"");
    TUTTI_ASSIGN_OR_RETURN(parts[part], whole_.expression());
  }
  tokens_->Skip();
  parts[0] = std::move(object);
  if (is_slice) return NewExpr(Expr::kSlice, line, std::move(parts));
  if (parts[1] == nullptr) return FailAt(line, "expected an expression, found \"]\"");
  return NewExpr(Expr::kItem, line, std::move(parts[0]), std::move(parts[1]));
}

absl::StatusOr<std::string> OperandParser::ParseDottedName(std::string_view wanted) {
  if (tokens_->Now().kind != Token::kName) return tokens_->Unexpected(wanted);
  std::string name = tokens_->Pop().text;  // may be a keyword: x is in [1, 2]
  while (tokens_->SkipOperator(".")) {
    if (tokens_->Now().kind != Token::kName) return tokens_->Unexpected(wanted);
    absl::StrAppend(&name, ".", tokens_->Pop().text);
  }
  return name;
}

absl::StatusOr<ExprPtr> OperandParser::ParseFilter(ExprPtr input) {
  const int line = tokens_->Now().line;
  TUTTI_ASSIGN_OR_RETURN(const std::string name, ParseDottedName("the name of a filter"));
  const Builtin* filter = FindFilter(name);
  if (filter == nullptr)
    so_far_->unknown.push_back(FailAt(line, absl::StrCat("no filter named '", name, "'")));
  std::vector<ExprPtr> children;
  if (input != nullptr) children.push_back(std::move(input));
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, NewExpr(Expr::kFilter, line, std::move(children)));
  expr->name = name;
  expr->builtin = filter;
  TUTTI_RETURN_IF_ERROR(ParseArguments(&expr->arguments));
  return Checked(std::move(expr));
}

absl::StatusOr<ExprPtr> OperandParser::ParseTest(ExprPtr input) {
  const int line = tokens_->Now().line;
  const bool negated = tokens_->SkipName("not");
  TUTTI_ASSIGN_OR_RETURN(const std::string name, ParseDottedName("the name of a test"));
  const Builtin* test = FindTest(name);
  if (test == nullptr)
    so_far_->unknown.push_back(FailAt(line, absl::StrCat("no test named '", name, "'")));
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, NewExpr(Expr::kTest, line, std::move(input)));
  expr->name = name;
  expr->builtin = test;
  if (AtBareArgument()) {
    Argument argument;
    TUTTI_ASSIGN_OR_RETURN(argument.value, ParsePrimary());
    TUTTI_ASSIGN_OR_RETURN(argument.value, ParsePostfix(std::move(argument.value)));
    expr->arguments.push_back(std::move(argument));
  } else {
    TUTTI_RETURN_IF_ERROR(ParseArguments(&expr->arguments));
  }
  TUTTI_ASSIGN_OR_RETURN(expr, Checked(std::move(expr)));
  if (!negated) return expr;
  return NewExpr(Expr::kNot, line, std::move(expr));
}

bool OperandParser::AtBareArgument() const {
  if (tokens_->Now().kind == Token::kName) return !Contains(kKeywords, tokens_->Now().text);
  return tokens_->Now().kind == Token::kString || tokens_->Now().kind == Token::kInteger ||
         tokens_->Now().kind == Token::kFloat || tokens_->Now().IsOperator("[") ||
         tokens_->Now().IsOperator("{");
}

absl::Status OperandParser::ParseArguments(std::vector<Argument>* arguments) {
  if (!tokens_->SkipOperator("(")) return absl::OkStatus();
  while (!tokens_->Now().IsOperator(")")) {
    if (!arguments->empty()) {
      TUTTI_RETURN_IF_ERROR(tokens_->ExpectOperator(","));
      if (tokens_->Now().IsOperator(")")) break;
    }
    Argument argument;
    if (tokens_->SkipOperator("*")) {
      argument.kind = Argument::kList;
    } else if (tokens_->SkipOperator("**")) {
      argument.kind = Argument::kDict;
    } else if (tokens_->Now().kind == Token::kName && tokens_->Next().IsOperator("=")) {
      argument.kind = Argument::kNamed;
      argument.name = tokens_->Pop().text;
      tokens_->Skip();
    } else if (!arguments->empty() && arguments->back().kind != Argument::kPositional) {
      return tokens_->Fail("a positional argument follows a named one");
    }
    TUTTI_ASSIGN_OR_RETURN(argument.value, whole_.expression());
    arguments->push_back(std::move(argument));
  }
  tokens_->Skip();
  return absl::OkStatus();
}

}  // namespace tutti::text::jinja
