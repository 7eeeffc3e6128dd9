// Parses the expressions of a template.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"
#include "text/jinja/token_reader.h"

namespace tutti::text::jinja {

class ExpressionParser : protected TokenReader {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : TokenReader(std::move(tokens)) {}

  // a | a, b | a, ; `brackets`: between ( and ), where nothing at all is the empty tuple.
  absl::StatusOr<ExprPtr> ParseTuple(bool conditional, bool brackets);
  absl::StatusOr<ExprPtr> ParseExpression();

  int loops_ = 0;   // around this place
  int macros_ = 0;  // around this place
  // Calls of what is no builtin, to be checked when all macros are known: name and line.
  std::vector<std::pair<std::string, int>> macro_calls_;

 private:
  // --- Weakest binding first ---

  absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, std::vector<ExprPtr> children);
  absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, ExprPtr child);
  absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, ExprPtr left, ExprPtr right);
  absl::StatusOr<ExprPtr> Checked(ExprPtr expr);
  bool AtTupleEnd() const;
  absl::StatusOr<ExprPtr> ParseOr();
  absl::StatusOr<ExprPtr> ParseAnd();
  absl::StatusOr<ExprPtr> ParseNot();
  // The comparison that begins here, passed over; "" when none does.
  std::string TakeComparison();
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
  absl::StatusOr<ExprPtr> NewConstant(int line, Value value);
  absl::StatusOr<ExprPtr> ParsePrimary();
  absl::StatusOr<ExprPtr> ParseListOrDict(Expr::Kind kind, std::string_view close);
  absl::StatusOr<ExprPtr> ParseName();
  absl::StatusOr<ExprPtr> ParseFunctionCall(const Token& token);
  absl::StatusOr<ExprPtr> ParsePostfix(ExprPtr expr);
  absl::StatusOr<ExprPtr> ParseAttribute(ExprPtr object);
  // Behind "[".
  absl::StatusOr<ExprPtr> ParseSubscript(ExprPtr object);
  // Behind "|".
  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr input);
  // Behind "is". A test may take one argument without brackets: x is divisibleby 3.
  absl::StatusOr<ExprPtr> ParseTest(ExprPtr input);
  bool AtBareArgument() const;
  // (a, b, name=c), or nothing at all.
  absl::Status ParseArguments(std::string_view what, const Builtin& callee, Arguments* arguments);
};

}  // namespace tutti::text::jinja
