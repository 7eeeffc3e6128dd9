#include "text/jinja/operand_parser.h"

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/arguments.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

constexpr std::array<std::string_view, 9> kLoopAttributes = {
    "index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem"};
// Inside a macro these would be its surplus arguments and the block of a call.
constexpr std::array<std::string_view, 3> kMacroSpecials = {"varargs", "kwargs", "caller"};
// Globals of Jinja that we do not have: a template that asks whether they are defined must not be
// told that they are not.
constexpr std::array<std::string_view, 4> kUnsupportedNames = {"cycler", "joiner", "lipsum",
                                                               "self"};

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
  for (const ExprPtr& value : expr->arguments.values) {
    if (value != nullptr) expr->depth = std::max(expr->depth, value->depth + 1);
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
    case Token::kInteger:
      Skip();
      return NewConstant(token.line, Value::Int(token.integer));
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
  if (Contains(kUnsupportedNames, name) || (macros_ > 0 && Contains(kMacroSpecials, name))) {
    return FailAt(token.line, absl::StrCat("\"", name, "\" is not supported"));
  }
  if (Now().IsOperator("(")) return ParseFunctionCall(token);
  // "strftime_now is defined" is asked, because it came late to transformers.
  if (FindFunction(name) != nullptr && name != "dict" && name != "strftime_now") {
    return FailAt(token.line, absl::StrCat("function \"", name,
                                           "\" without a call is not "
                                           "supported"));
  }
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kName, token.line, std::vector<ExprPtr>()));
  expr->name = name;
  return expr;
}

absl::StatusOr<ExprPtr> OperandParser::ParseFunctionCall(const Token& token) {
  const Builtin* builtin = FindFunction(token.text);
  const auto kind = builtin != nullptr ? Expr::kFunction : Expr::kMacro;
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(kind, token.line, std::vector<ExprPtr>()));
  expr->name = token.text;
  expr->builtin = builtin;
  if (builtin == nullptr) macro_calls_.emplace_back(token.text, token.line);
  static const Builtin kAnyArguments = {.name = "macro", .parameters = {}, .more = true};
  TUTTI_RETURN_IF_ERROR(
      ParseArguments("function", builtin != nullptr ? *builtin : kAnyArguments, &expr->arguments));
  return Checked(std::move(expr));
}

absl::StatusOr<ExprPtr> OperandParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (SkipOperator(".")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseAttribute(std::move(expr)));
    } else if (SkipOperator("[")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
    } else if (Now().IsOperator("(")) {
      return Fail("calling the result of an expression is not supported");
    } else {
      return expr;
    }
  }
}

absl::StatusOr<ExprPtr> OperandParser::ParseAttribute(ExprPtr object) {
  const Token token = Pop();
  if (token.kind == Token::kInteger) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr key, NewConstant(token.line, Value::Int(token.integer)));
    return New(Expr::kItem, token.line, std::move(object), std::move(key));
  }
  if (token.kind != Token::kName) {
    return FailAt(token.line, absl::StrCat("expected an attribute, found ", Describe(token)));
  }
  const bool of_loop = object->kind == Expr::kName && object->name == "loop" && loops_ > 0;
  if (of_loop && !Contains(kLoopAttributes, token.text)) {
    return FailAt(token.line, absl::StrCat("\"loop.", token.text, "\" is not supported"));
  }
  const bool call = Now().IsOperator("(");
  TUTTI_ASSIGN_OR_RETURN(
      ExprPtr expr, New(call ? Expr::kMethod : Expr::kAttribute, token.line, std::move(object)));
  expr->name = token.text;
  if (!call) return expr;
  expr->builtin = FindMethod(token.text);
  if (expr->builtin == nullptr) {
    return FailAt(token.line, absl::StrCat("method \"", token.text, "\" is not supported"));
  }
  TUTTI_RETURN_IF_ERROR(ParseArguments("method", *expr->builtin, &expr->arguments));
  return Checked(std::move(expr));
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

absl::StatusOr<ExprPtr> OperandParser::ParseFilter(ExprPtr input) {
  const int line = Now().line;
  TUTTI_ASSIGN_OR_RETURN(const std::string name, ExpectName("the name of a filter"));
  const Builtin* filter = FindFilter(name);
  if (filter == nullptr) {
    return FailAt(line, absl::StrCat("filter \"", name, "\" is not supported"));
  }
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kFilter, line, std::move(input)));
  expr->name = name;
  expr->builtin = filter;
  TUTTI_RETURN_IF_ERROR(ParseArguments("filter", *filter, &expr->arguments));
  return Checked(std::move(expr));
}

absl::StatusOr<ExprPtr> OperandParser::ParseTest(ExprPtr input) {
  const int line = Now().line;
  const bool negated = SkipName("not");
  if (Now().kind != Token::kName) return Unexpected("the name of a test");
  const std::string name = Pop().text;  // may be a keyword: x is in [1, 2]
  const Builtin* test = FindTest(name);
  if (test == nullptr) return FailAt(line, absl::StrCat("test \"", name, "\" is not supported"));
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kTest, line, std::move(input)));
  expr->name = name;
  expr->builtin = test;
  if (AtBareArgument()) {
    ExprPtr argument;
    TUTTI_ASSIGN_OR_RETURN(argument, ParsePrimary());
    TUTTI_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    std::vector<ExprPtr> positional;
    positional.push_back(std::move(argument));
    TUTTI_RETURN_IF_ERROR(
        BindArguments("test", *test, line, std::move(positional), {}, &expr->arguments));
  } else {
    TUTTI_RETURN_IF_ERROR(ParseArguments("test", *test, &expr->arguments));
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

absl::Status OperandParser::ParseArguments(std::string_view what, const Builtin& callee,
                                           Arguments* arguments) {
  const int line = Now().line;
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  if (SkipOperator("(")) {
    while (!Now().IsOperator(")")) {
      if (!positional.empty() || !named.empty()) {
        TUTTI_RETURN_IF_ERROR(ExpectOperator(","));
        if (Now().IsOperator(")")) break;
      }
      if (Now().IsOperator("*") || Now().IsOperator("**")) {
        return Fail(absl::StrCat("\"", Now().text, "\" before an argument is not supported"));
      }
      if (Now().kind == Token::kName && Next().IsOperator("=")) {
        std::string name = Pop().text;
        Skip();
        TUTTI_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
        named.emplace_back(std::move(name), std::move(value));
      } else {
        if (!named.empty()) return Fail("a positional argument follows a named one");
        TUTTI_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
        positional.push_back(std::move(value));
      }
    }
    Skip();
  }
  return BindArguments(what, callee, line, std::move(positional), std::move(named), arguments);
}

}  // namespace tutti::text::jinja
