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

class ExpressionParser {
 public:
  // REQUIRES: both outlive the parser
  ExpressionParser(TokenReader* tokens, ParsedSoFar* so_far);
  ExpressionParser(const ExpressionParser&) = delete;  // its operands know it
  ExpressionParser& operator=(const ExpressionParser&) = delete;

  // a | a, b | a, ; `brackets`: between ( and ), where nothing at all is the empty tuple.
  // `conditional`: each item may be an inline if.
  absl::StatusOr<ExprPtr> ParseTuple(bool conditional, bool brackets);
  absl::StatusOr<ExprPtr> ParseExpression();
  // Behind "|" of {% filter %}.
  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr input) {
    return operands_.ParseFilter(std::move(input));
  }

 private:
  bool AtTupleEnd() const;
  absl::StatusOr<ExprPtr> ParseOr();
  absl::StatusOr<ExprPtr> ParseAnd();
  absl::StatusOr<ExprPtr> ParseNot();
  // The comparison that begins here, passed over; "" when none does.
  std::string PopComparison();
  absl::StatusOr<ExprPtr> ParseCompare();
  // left op right op ..., where `operand` parses the tighter binding side.
  absl::StatusOr<ExprPtr> ParseChain(std::initializer_list<std::string_view> ops,
                                     absl::StatusOr<ExprPtr> (ExpressionParser::*operand)());
  absl::StatusOr<ExprPtr> ParseSum();
  absl::StatusOr<ExprPtr> ParseProduct();
  absl::StatusOr<ExprPtr> ParsePower();
  absl::StatusOr<ExprPtr> ParseConcat();
  absl::StatusOr<ExprPtr> ParseUnaryFiltered();
  absl::StatusOr<ExprPtr> ParseUnary();

  TokenReader* const tokens_;
  ParsedSoFar* const so_far_;
  OperandParser operands_;
};

}  // namespace tutti::text::jinja
