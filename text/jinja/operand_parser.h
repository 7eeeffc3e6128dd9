// Parses the operands of an expression: constants, names, lists, calls, and the attributes, items,
// filters and tests behind them.
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
  // Attributes, items and calls behind `expr`.
  absl::StatusOr<ExprPtr> ParsePostfix(ExprPtr expr);
  // Behind "|". `input` may be null: {% filter %}.
  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr input);
  // Behind "is". A test may take one argument without brackets: x is divisibleby 3.
  absl::StatusOr<ExprPtr> ParseTest(ExprPtr input);

  // Unknown filters and tests that make the template one that cannot be compiled: those of places
  // that may never be reached are, as in Jinja, an error only when they are used.
  std::vector<absl::Status> unknown_;
  std::vector<Macro*> macros_;  // around this place, innermost last

 private:
  // The same, with the depth of the arguments.
  static absl::StatusOr<ExprPtr> Checked(ExprPtr expr);
  static absl::StatusOr<ExprPtr> NewConstant(int line, Value value);
  absl::StatusOr<ExprPtr> ParseListOrDict(Expr::Kind kind, std::string_view close);
  absl::StatusOr<ExprPtr> ParseName();
  // Behind ".".
  absl::StatusOr<ExprPtr> ParseAttribute(ExprPtr object);
  // Behind "[".
  absl::StatusOr<ExprPtr> ParseSubscript(ExprPtr object);
  // The name of a filter or test: a | a.b
  absl::StatusOr<std::string> ParseDottedName(std::string_view wanted);
  bool AtBareArgument() const;
  // (a, b, name=c, *d, **e), or nothing at all.
  absl::Status ParseArguments(std::vector<Argument>* arguments);
};

}  // namespace tutti::text::jinja
