// Parses the operands of an expression: constants, names, lists, calls, and the attributes, items,
// filters and tests behind them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"
#include "text/jinja/token_reader.h"

namespace tutti::text::jinja {

// A new expression.
// Errors: InvalidArgument when the tree nests deeper than kTemplateDepthMax.
absl::StatusOr<ExprPtr> NewExpr(Expr::Kind kind, int line, std::vector<ExprPtr> children);
absl::StatusOr<ExprPtr> NewExpr(Expr::Kind kind, int line, ExprPtr child);
absl::StatusOr<ExprPtr> NewExpr(Expr::Kind kind, int line, ExprPtr left, ExprPtr right);

// The facts that a template's expressions and statements learn from each other.
struct ParsedSoFar {
  // Unknown filters and tests that make the template one that cannot be compiled: those of places
  // that may never be reached are, as in Jinja, an error only when they are used.
  std::vector<absl::Status> unknown;
  std::vector<Macro*> macros;  // around this place, innermost last
};

class OperandParser {
 public:
  // The expressions inside operands, which somebody else parses.
  struct Whole {
    std::function<absl::StatusOr<ExprPtr>()> expression;
    // A tuple between ( and ), or what stands there alone.
    std::function<absl::StatusOr<ExprPtr>()> in_brackets;
  };

  // REQUIRES: all outlive the parser
  OperandParser(TokenReader* tokens, ParsedSoFar* so_far, Whole whole)
      : tokens_(tokens), so_far_(so_far), whole_(std::move(whole)) {}

  absl::StatusOr<ExprPtr> ParsePrimary();
  // Attributes, items and calls behind `expr`.
  absl::StatusOr<ExprPtr> ParsePostfix(ExprPtr expr);
  // Behind "|". `input` may be null: {% filter %}.
  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr input);
  // Behind "is". A test may take one argument without brackets: x is divisibleby 3.
  absl::StatusOr<ExprPtr> ParseTest(ExprPtr input);

 private:
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

  TokenReader* const tokens_;
  ParsedSoFar* const so_far_;
  const Whole whole_;
};

}  // namespace tutti::text::jinja
