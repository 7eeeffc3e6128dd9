#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>

#include "base/status.h"

namespace tutti::text::jinja {

ExpressionParser::ExpressionParser(TokenReader* tokens, ParsedSoFar* so_far)
    : tokens_(tokens),
      so_far_(so_far),
      operands_(tokens, so_far,
                {.expression = [this] { return ParseExpression(); },
                 .in_brackets = [this] { return ParseTuple(true, /*brackets=*/true); }}) {}

bool ExpressionParser::AtTupleEnd() const {
  return tokens_->Now().kind == Token::kOutputEnd || tokens_->Now().kind == Token::kBlockEnd ||
         tokens_->Now().IsOperator(")") || tokens_->Now().IsName("recursive");
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseTuple(bool conditional, bool brackets) {
  const int line = tokens_->Now().line;
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
    if (!tokens_->SkipOperator(",")) break;
    is_tuple = true;
  }
  if (items.size() == 1 && !is_tuple) return std::move(items[0]);
  return NewExpr(Expr::kTuple, line, std::move(items));
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseExpression() {
  const TokenReader::Nested nested(tokens_);
  TUTTI_RETURN_IF_ERROR(tokens_->CheckNesting());
  const size_t unknown = so_far_->unknown.size();
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseOr());
  while (tokens_->Now().IsName("if")) {
    const int line = tokens_->Pop().line;
    std::vector<ExprPtr> children(3);
    children[0] = std::move(expr);
    TUTTI_ASSIGN_OR_RETURN(children[1], ParseOr());
    if (tokens_->SkipName("else")) {
      TUTTI_ASSIGN_OR_RETURN(children[2], ParseExpression());
    }
    TUTTI_ASSIGN_OR_RETURN(expr, NewExpr(Expr::kConditional, line, std::move(children)));
    so_far_->unknown.resize(std::min(unknown, so_far_->unknown.size()));
  }
  return expr;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseOr() {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (tokens_->Now().IsName("or")) {
    const int line = tokens_->Pop().line;
    TUTTI_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    TUTTI_ASSIGN_OR_RETURN(left, NewExpr(Expr::kOr, line, std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseAnd() {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (tokens_->Now().IsName("and")) {
    const int line = tokens_->Pop().line;
    TUTTI_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    TUTTI_ASSIGN_OR_RETURN(left, NewExpr(Expr::kAnd, line, std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseNot() {
  if (!tokens_->Now().IsName("not")) return ParseCompare();
  const TokenReader::Nested nested(tokens_);
  TUTTI_RETURN_IF_ERROR(tokens_->CheckNesting());
  const int line = tokens_->Pop().line;
  TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
  return NewExpr(Expr::kNot, line, std::move(operand));
}

std::string ExpressionParser::PopComparison() {
  static constexpr std::array<std::string_view, 6> kOps = {"==", "!=", "<", "<=", ">", ">="};
  if (tokens_->Now().kind == Token::kOperator && Contains(kOps, tokens_->Now().text))
    return tokens_->Pop().text;
  if (tokens_->SkipName("in")) return "in";
  if (tokens_->Now().IsName("not") && tokens_->Next().IsName("in")) {
    tokens_->Skip();
    tokens_->Skip();
    return "not in";
  }
  return "";
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseCompare() {
  const int line = tokens_->Now().line;
  std::vector<ExprPtr> operands(1);
  std::vector<std::string> ops;
  TUTTI_ASSIGN_OR_RETURN(operands[0], ParseSum());
  for (std::string op = PopComparison(); !op.empty(); op = PopComparison()) {
    ops.push_back(std::move(op));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseSum());
    operands.push_back(std::move(operand));
  }
  if (ops.empty()) return std::move(operands[0]);
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, NewExpr(Expr::kCompare, line, std::move(operands)));
  expr->ops = std::move(ops);
  return expr;
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseChain(
    std::initializer_list<std::string_view> ops,
    absl::StatusOr<ExprPtr> (ExpressionParser::*operand)()) {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
  while (tokens_->Now().kind == Token::kOperator &&
         std::find(ops.begin(), ops.end(), tokens_->Now().text) != ops.end()) {
    const Token op = tokens_->Pop();
    TUTTI_ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
    TUTTI_ASSIGN_OR_RETURN(left,
                           NewExpr(Expr::kBinary, op.line, std::move(left), std::move(right)));
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
  const int line = tokens_->Now().line;
  std::vector<ExprPtr> operands(1);
  TUTTI_ASSIGN_OR_RETURN(operands[0], ParseProduct());
  while (tokens_->SkipOperator("~")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseProduct());
    operands.push_back(std::move(operand));
  }
  if (operands.size() == 1) return std::move(operands[0]);
  return NewExpr(Expr::kConcat, line, std::move(operands));
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseUnaryFiltered() {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseUnary());
  while (true) {
    if (tokens_->SkipOperator("|")) {
      TUTTI_ASSIGN_OR_RETURN(expr, operands_.ParseFilter(std::move(expr)));
    } else if (tokens_->SkipName("is")) {
      TUTTI_ASSIGN_OR_RETURN(expr, operands_.ParseTest(std::move(expr)));
    } else {
      return expr;
    }
  }
}

absl::StatusOr<ExprPtr> ExpressionParser::ParseUnary() {
  const TokenReader::Nested nested(tokens_);
  TUTTI_RETURN_IF_ERROR(tokens_->CheckNesting());
  const int line = tokens_->Now().line;
  ExprPtr expr;
  if (tokens_->SkipOperator("-")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary());
    TUTTI_ASSIGN_OR_RETURN(expr, NewExpr(Expr::kNegate, line, std::move(operand)));
  } else if (tokens_->SkipOperator("+")) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary());
    TUTTI_ASSIGN_OR_RETURN(expr, NewExpr(Expr::kPositive, line, std::move(operand)));
  } else {
    TUTTI_ASSIGN_OR_RETURN(expr, operands_.ParsePrimary());
  }
  return operands_.ParsePostfix(std::move(expr));
}

}  // namespace tutti::text::jinja
