#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>

#include "base/status.h"

namespace tutti::text::jinja {

bool ExpressionParser::AtTupleEnd() const {
  return Now().kind == Token::kOutputEnd || Now().kind == Token::kBlockEnd ||
         Now().IsOperator(")") || Now().IsName("recursive");
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseTuple(bool conditional, bool brackets) {
  const int line = Now().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (AtTupleEnd() && (is_tuple || brackets)) break;
    ExprPtr item;
    if (conditional) {
      TUTTI_ASSIGN_OR_RETURN(item, ParseExpression());
    } else {
      TUTTI_ASSIGN_OR_RETURN(item, ParseOr());
    }
    items.push_back(std::move(item));
    if (!SkipOperator(",")) break;
    is_tuple = true;
  }
  if (items.size() == 1 && !is_tuple) return std::move(items[0]);
  return New(Expr::kTuple, line, std::move(items));
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseExpression() {
  const Nested nested(this);
  TUTTI_RETURN_IF_ERROR(CheckNesting());
  const size_t unknown = unknown_.size();
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseOr());
  while (Now().IsName("if")) {
    const int line = Pop().line;
    std::vector<ExprPtr> children(3);
    children[0] = std::move(expr);
    TUTTI_ASSIGN_OR_RETURN(children[1], ParseOr());
    if (SkipName("else")) {
      TUTTI_ASSIGN_OR_RETURN(children[2], ParseExpression());
    }
    TUTTI_ASSIGN_OR_RETURN(expr, New(Expr::kConditional, line, std::move(children)));
    unknown_.resize(std::min(unknown, unknown_.size()));
  }
  return expr;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseOr() {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (Now().IsName("or")) {
    const int line = Pop().line;
    TUTTI_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    TUTTI_ASSIGN_OR_RETURN(left, New(Expr::kOr, line, std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseAnd() {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (Now().IsName("and")) {
    const int line = Pop().line;
    TUTTI_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    TUTTI_ASSIGN_OR_RETURN(left, New(Expr::kAnd, line, std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseNot() {
  if (!Now().IsName("not")) return ParseCompare();
  const Nested nested(this);
  TUTTI_RETURN_IF_ERROR(CheckNesting());
  const int line = Pop().line;
  TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
  return New(Expr::kNot, line, std::move(operand));
}

std::string ExpressionParser::PopComparison() {
  static constexpr std::array<std::string_view, 6> kOps = {"==", "!=", "<", "<=", ">", ">="};
  if (Now().kind == Token::kOperator && Contains(kOps, Now().text)) return Pop().text;
  if (SkipName("in")) return "in";
  if (Now().IsName("not") && Next().IsName("in")) {
    Skip();
    Skip();
    return "not in";
  }
  return "";
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseCompare() {
  const int line = Now().line;
  std::vector<ExprPtr> operands(1);
  std::vector<std::string> ops;
  TUTTI_ASSIGN_OR_RETURN(operands[0], ParseSum());
  for (std::string op = PopComparison(); !op.empty(); op = PopComparison()) {
    ops.push_back(std::move(op));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseSum());
    operands.push_back(std::move(operand));
  }
  if (ops.empty()) return std::move(operands[0]);
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kCompare, line, std::move(operands)));
  expr->ops = std::move(ops);
  return expr;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseChain(
    std::initializer_list<std::string_view> ops,
    absl::StatusOr<ExprPtr> (ExpressionParser::*operand)()) {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
  while (Now().kind == Token::kOperator &&
         std::find(ops.begin(), ops.end(), Now().text) != ops.end()) {
    const Token op = Pop();
    TUTTI_ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
    TUTTI_ASSIGN_OR_RETURN(left, New(Expr::kBinary, op.line, std::move(left), std::move(right)));
    left->name = op.text;
  }
  return left;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseSum() {
  return ParseChain({"+", "-"}, &ExpressionParser::ParseConcat);
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseProduct() {
  return ParseChain({"*", "/", "//", "%"}, &ExpressionParser::ParsePower);
}

absl::StatusOr<ExprPtr> ExpressionParser::ParsePower() {
  return ParseChain({"**"}, &ExpressionParser::ParseUnaryFiltered);
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseConcat() {
  const int line = Now().line;
  std::vector<ExprPtr> operands(1);
  TUTTI_ASSIGN_OR_RETURN(operands[0], ParseProduct());
  while (SkipOperator("~")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseProduct());
    operands.push_back(std::move(operand));
  }
  if (operands.size() == 1) return std::move(operands[0]);
  return New(Expr::kConcat, line, std::move(operands));
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseUnaryFiltered() {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseUnary());
  while (true) {
    if (SkipOperator("|")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseFilter(std::move(expr)));
    } else if (SkipName("is")) {
      TUTTI_ASSIGN_OR_RETURN(expr, ParseTest(std::move(expr)));
    } else {
      return expr;
    }
  }
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseUnary() {
  const Nested nested(this);
  TUTTI_RETURN_IF_ERROR(CheckNesting());
  const int line = Now().line;
  ExprPtr expr;
  if (SkipOperator("-")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary());
    TUTTI_ASSIGN_OR_RETURN(expr, New(Expr::kNegate, line, std::move(operand)));
  } else if (SkipOperator("+")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary());
    TUTTI_ASSIGN_OR_RETURN(expr, New(Expr::kPositive, line, std::move(operand)));
  } else {
    TUTTI_ASSIGN_OR_RETURN(expr, ParsePrimary());
  }
  return ParsePostfix(std::move(expr));
}

}  // namespace tutti::text::jinja
