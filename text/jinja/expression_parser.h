// Parses the expressions of a template: operators, weakest binding first.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"
#include "text/jinja/operand_parser.h"

namespace tutti::text::jinja {

class ExpressionParser : protected OperandParser {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : OperandParser(std::move(tokens)) {}
  ~ExpressionParser() = default;

  absl::StatusOr<ExprPtr> ParseTuple(bool conditional, bool brackets) final;
  absl::StatusOr<ExprPtr> ParseExpression() final;

 private:
  bool AtTupleEnd() const;
  absl::StatusOr<ExprPtr> ParseOr();
  absl::StatusOr<ExprPtr> ParseAnd();
  absl::StatusOr<ExprPtr> ParseNot();
  // The comparison that begins here, passed over; "" when none does.
  std::string PopComparison();
  absl::StatusOr<ExprPtr> ParseCompare();
  // left op right op ..., where `operand` parses what binds tighter.
  absl::StatusOr<ExprPtr> ParseChain(std::initializer_list<std::string_view> ops,
                                     absl::StatusOr<ExprPtr> (ExpressionParser::*operand)());
  absl::StatusOr<ExprPtr> ParseSum();
  absl::StatusOr<ExprPtr> ParseProduct();
  absl::StatusOr<ExprPtr> ParsePower();
  absl::StatusOr<ExprPtr> ParseConcat();
  absl::StatusOr<ExprPtr> ParseUnaryFiltered();
  absl::StatusOr<ExprPtr> ParseUnary();
};

}  // namespace tutti::text::jinja
