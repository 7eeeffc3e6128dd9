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

}  // namespace

absl::StatusOr<ExprPtr> OperandParser::New(Expr::Kind kind, int line,
                                           std::vector<ExprPtr> children) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  for (const ExprPtr& child : children) {
    if (child != nullptr) expr->depth = std::max(expr->depth, child->depth + 1);
  }
  expr->children = std::move(children);
  return Checked(std::move(expr));
}

absl::StatusOr<ExprPtr> OperandParser::New(Expr::Kind kind, int line, ExprPtr child) {
  std::vector<ExprPtr> children;
  children.push_back(std::move(child));
  return New(kind, line, std::move(children));
}

absl::StatusOr<ExprPtr> OperandParser::New(Expr::Kind kind, int line, ExprPtr left, ExprPtr right) {
  std::vector<ExprPtr> children;
  children.push_back(std::move(left));
  children.push_back(std::move(right));
  return New(kind, line, std::move(children));
}

absl::StatusOr<ExprPtr> OperandParser::Checked(ExprPtr expr) {
  for (const Argument& argument : expr->arguments) {
    expr->depth = std::max(expr->depth, argument.value->depth + 1);
  }
  if (expr->depth > kTemplateDepthMax) {
    return FailAt(expr->line, absl::StrCat("nests deeper than ", kTemplateDepthMax));
  }
  return expr;
}

absl::StatusOr<ExprPtr> OperandParser::NewConstant(int line, Value value) {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kConstant, line, std::vector<ExprPtr>()));
  expr->constant = std::move(value);
  return expr;
}

absl::StatusOr<ExprPtr> OperandParser::ParsePrimary() {
  const Token token = Now();
  switch (token.kind) {
    case Token::kName:
      return ParseName();
    case Token::kString: {
      std::string text;
      while (Now().kind == Token::kString) text += Pop().text;
      return NewConstant(token.line, Value::Literal(std::move(text)));
    }
    case Token::kInteger: {
      Skip();
      TUTTI_ASSIGN_OR_RETURN(Value value, IntegerFromDigits(token.text, token.base, false));
      return NewConstant(token.line, std::move(value));
    }
    case Token::kFloat:
      Skip();
      return NewConstant(token.line, Value::Float(token.number));
    default:
      break;
  }
  if (SkipOperator("(")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple(/*conditional=*/true, /*brackets=*/true));
    TUTTI_RETURN_IF_ERROR(ExpectOperator(")"));
    return expr;
  }
  if (SkipOperator("[")) return ParseListOrDict(Expr::kList, "]");
  if (SkipOperator("{")) return ParseListOrDict(Expr::kDict, "}");
  return Unexpected("an expression");
}

absl::StatusOr<ExprPtr> OperandParser::ParseListOrDict(Expr::Kind kind, std::string_view close) {
  const int line = Now().line;
  std::vector<ExprPtr> children;
  while (!Now().IsOperator(close)) {
    if (!children.empty()) {
      TUTTI_RETURN_IF_ERROR(ExpectOperator(","));
      if (Now().IsOperator(close)) break;
    }
    TUTTI_ASSIGN_OR_RETURN(ExprPtr child, ParseExpression());
    children.push_back(std::move(child));
    if (kind != Expr::kDict) continue;
    TUTTI_RETURN_IF_ERROR(ExpectOperator(":"));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    children.push_back(std::move(value));
  }
  Skip();
  return New(kind, line, std::move(children));
}

absl::StatusOr<ExprPtr> OperandParser::ParseName() {
  const Token token = Pop();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return NewConstant(token.line, Value::Bool(true));
  if (name == "false" || name == "False") return NewConstant(token.line, Value::Bool(false));
  if (name == "none" || name == "None") return NewConstant(token.line, Value());
  if (Contains(kKeywords, name)) {
    return FailAt(token.line, absl::StrCat("expected an expression, found \"", name, "\""));
  }
  for (Macro* const macro : macros_) {
    if (bool* const uses = SpecialOf(macro, name); uses != nullptr) *uses = true;
  }
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kName, token.line, std::vector<ExprPtr>()));
  expr->name = name;
  return expr;
}

absl::StatusOr<ExprPtr> OperandParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (SkipOperator(".")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseAttribute(std::move(expr)));
    } else if (SkipOperator("[")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
    } else if (Now().IsOperator("(")) {
      TUTTI_ASSIGN_OR_RETURN(expr, New(Expr::kCall, Now().line, std::move(expr)));
      TUTTI_RETURN_IF_ERROR(ParseArguments(&expr->arguments));
      TUTTI_ASSIGN_OR_RETURN(expr, Checked(std::move(expr)));
    } else {
      return expr;
    }
  }
}

absl::StatusOr<ExprPtr> OperandParser::ParseAttribute(ExprPtr object) {
  const Token token = Pop();
  if (token.kind == Token::kInteger) {
    TUTTI_ASSIGN_OR_RETURN(Value index, IntegerFromDigits(token.text, token.base, false));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr key, NewConstant(token.line, std::move(index)));
    return New(Expr::kItem, token.line, std::move(object), std::move(key));
  }
  if (token.kind != Token::kName) {
    return FailAt(token.line, absl::StrCat("expected an attribute, found ", Describe(token)));
  }
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kAttribute, token.line, std::move(object)));
  expr->name = token.text;
  return expr;
}

absl::StatusOr<ExprPtr> OperandParser::ParseSubscript(ExprPtr object) {
  const int line = Now().line;
  std::vector<ExprPtr> parts(4);  // object, begin, end, step
  size_t part = 1;
  bool is_slice = false;
  while (!Now().IsOperator("]")) {
    if (SkipOperator(":")) {
      is_slice = true;
      if (++part > 3) return Unexpected("\"]\"");
      continue;
    }
    if (parts[part] != nullptr) return Unexpected("\"]\"");
    TUTTI_ASSIGN_OR_RETURN(parts[part], ParseExpression());
  }
  Skip();
  parts[0] = std::move(object);
  if (is_slice) return New(Expr::kSlice, line, std::move(parts));
  if (parts[1] == nullptr) return FailAt(line, "expected an expression, found \"]\"");
  return New(Expr::kItem, line, std::move(parts[0]), std::move(parts[1]));
}

absl::StatusOr<std::string> OperandParser::ParseDottedName(std::string_view wanted) {
  if (Now().kind != Token::kName) return Unexpected(wanted);
  std::string name = Pop().text;  // may be a keyword: x is in [1, 2]
  while (SkipOperator(".")) {
    if (Now().kind != Token::kName) return Unexpected(wanted);
    absl::StrAppend(&name, ".", Pop().text);
  }
  return name;
}

absl::StatusOr<ExprPtr> OperandParser::ParseFilter(ExprPtr input) {
  const int line = Now().line;
  TUTTI_ASSIGN_OR_RETURN(const std::string name, ParseDottedName("the name of a filter"));
  const Builtin* filter = FindFilter(name);
  if (filter == nullptr)
    unknown_.push_back(FailAt(line, absl::StrCat("no filter named '", name, "'")));
  std::vector<ExprPtr> children;
  if (input != nullptr) children.push_back(std::move(input));
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kFilter, line, std::move(children)));
  expr->name = name;
  expr->builtin = filter;
  TUTTI_RETURN_IF_ERROR(ParseArguments(&expr->arguments));
  return Checked(std::move(expr));
}

absl::StatusOr<ExprPtr> OperandParser::ParseTest(ExprPtr input) {
  const int line = Now().line;
  const bool negated = SkipName("not");
  TUTTI_ASSIGN_OR_RETURN(const std::string name, ParseDottedName("the name of a test"));
  const Builtin* test = FindTest(name);
  if (test == nullptr) unknown_.push_back(FailAt(line, absl::StrCat("no test named '", name, "'")));
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kTest, line, std::move(input)));
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
  return New(Expr::kNot, line, std::move(expr));
}

bool OperandParser::AtBareArgument() const {
  if (Now().kind == Token::kName) return !Contains(kKeywords, Now().text);
  return Now().kind == Token::kString || Now().kind == Token::kInteger ||
         Now().kind == Token::kFloat || Now().IsOperator("[") || Now().IsOperator("{");
}

absl::Status OperandParser::ParseArguments(std::vector<Argument>* arguments) {
  if (!SkipOperator("(")) return absl::OkStatus();
  while (!Now().IsOperator(")")) {
    if (!arguments->empty()) {
      TUTTI_RETURN_IF_ERROR(ExpectOperator(","));
      if (Now().IsOperator(")")) break;
    }
    Argument argument;
    if (SkipOperator("*")) {
      argument.kind = Argument::kList;
    } else if (SkipOperator("**")) {
      argument.kind = Argument::kDict;
    } else if (Now().kind == Token::kName && Next().IsOperator("=")) {
      argument.kind = Argument::kNamed;
      argument.name = Pop().text;
      Skip();
    } else if (!arguments->empty() && arguments->back().kind != Argument::kPositional) {
      return Fail("a positional argument follows a named one");
    }
    TUTTI_ASSIGN_OR_RETURN(argument.value, ParseExpression());
    arguments->push_back(std::move(argument));
  }
  Skip();
  return absl::OkStatus();
}

}  // namespace tutti::text::jinja
