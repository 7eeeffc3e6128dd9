// Parses what the operators of an expression stand between: constants, names, lists, calls, and the
// attributes, items, filters and tests behind them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"
#include "text/jinja/token_reader.h"

namespace tutti::text::jinja {

class OperandParser : protected TokenReader {
 protected:
  explicit OperandParser(std::vector<Token> tokens) : TokenReader(std::move(tokens)) {}
  ~OperandParser() = default;

  // a | a, b | a, ; `brackets`: between ( and ), where nothing at all is the empty tuple.
  // `conditional`: each item may be an inline if.
  virtual absl::StatusOr<ExprPtr> ParseTuple(bool conditional, bool brackets) = 0;
  virtual absl::StatusOr<ExprPtr> ParseExpression() = 0;

  // Errors: InvalidArgument when the tree nests deeper than kTemplateDepthMax.
  static absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, std::vector<ExprPtr> children);
  static absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, ExprPtr child);
  static absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, ExprPtr left, ExprPtr right);

  absl::StatusOr<ExprPtr> ParsePrimary();
  // Attributes and items behind `expr`.
  absl::StatusOr<ExprPtr> ParsePostfix(ExprPtr expr);
  // Behind "|".
  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr input);
  // Behind "is". A test may take one argument without brackets: x is divisibleby 3.
  absl::StatusOr<ExprPtr> ParseTest(ExprPtr input);

  int loops_ = 0;   // around this place
  int macros_ = 0;  // around this place
  // Calls of what is no builtin, to be checked when all macros are known: name and line.
  std::vector<std::pair<std::string, int>> macro_calls_;

 private:
  // The same, with the depth of the arguments.
  static absl::StatusOr<ExprPtr> Checked(ExprPtr expr);
  static absl::StatusOr<ExprPtr> NewConstant(int line, Value value);
  absl::StatusOr<ExprPtr> ParseListOrDict(Expr::Kind kind, std::string_view close);
  absl::StatusOr<ExprPtr> ParseName();
  absl::StatusOr<ExprPtr> ParseFunctionCall(const Token& token);
  // Behind ".".
  absl::StatusOr<ExprPtr> ParseAttribute(ExprPtr object);
  // Behind "[".
  absl::StatusOr<ExprPtr> ParseSubscript(ExprPtr object);
  bool AtBareArgument() const;
  // (a, b, name=c), or nothing at all.
  absl::Status ParseArguments(std::string_view what, const Builtin& callee, Arguments* arguments);
};

}  // namespace tutti::text::jinja
