// Parses the statements of a template.
#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"
#include "text/jinja/expression_parser.h"

namespace tutti::text::jinja {

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<std::unique_ptr<Template>> Run();

 private:
  using StmtPtr = std::unique_ptr<Stmt>;

  // Until one of `ends` begins a block, whose "{%" is passed over, or to the end of the template.
  absl::StatusOr<Body> ParseBody(std::initializer_list<std::string_view> ends);
  // Behind "%}" of the beginning up to the name that ends the block, which is passed over.
  absl::StatusOr<Body> ParseBlockBody(std::string_view end);
  // Behind "{%".
  absl::Status ParseStatement(Body* body);
  absl::StatusOr<StmtPtr> ParseKeyword(const Token& word);
  absl::StatusOr<StmtPtr> ParseIf(int line);
  absl::StatusOr<StmtPtr> ParseFor(int line);
  absl::StatusOr<StmtPtr> ParseSet(int line);
  absl::StatusOr<StmtPtr> ParseMacro(int line);
  absl::StatusOr<StmtPtr> ParseCallBlock(int line);
  absl::StatusOr<StmtPtr> ParseFilterBlock(int line);
  absl::StatusOr<StmtPtr> ParseWith(int line);
  absl::StatusOr<StmtPtr> ParseNamedBlock(int line);
  absl::StatusOr<StmtPtr> ParseGeneration(int line);
  absl::StatusOr<StmtPtr> ParseLoopControl(const Token& word);
  absl::StatusOr<StmtPtr> ParseLoad(const Token& word);
  absl::Status ParsePrint(int line, Body* body);
  // a | a, b | (a, (b, c)) | a.b
  absl::StatusOr<Target> ParseTarget();
  absl::StatusOr<Target> ParseOneTarget();
  // (a, b=1)
  absl::Status ParseParameters(Macro* macro);
  // The body of a macro or of a call, up to `end`.
  absl::Status ParseMacroBody(Macro* macro, std::string_view end);
  // a|b|c
  absl::StatusOr<ExprPtr> ParseFilterChain();
  absl::Status EndBlock() { return tokens_.Expect(Token::kBlockEnd, "\"%}\""); }

  TokenReader tokens_;
  ParsedSoFar so_far_;
  ExpressionParser expressions_{&tokens_, &so_far_};
  int loops_ = 0;  // around this place
  std::vector<const Stmt*> blocks_;
};

}  // namespace tutti::text::jinja
