#include "text/jinja/statement_parser.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"

namespace tutti::text::jinja {
namespace {

// Names that nothing can be assigned to.
constexpr std::array<std::string_view, 6> kReserved = {"true", "false", "none",
                                                       "True", "False", "None"};

std::unique_ptr<Stmt> NewStmt(Stmt::Kind kind, int line) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = line;
  return stmt;
}

bool Assigns(const Target& target, std::string_view name) {
  if (!target.is_tuple) return target.name == name;
  return std::any_of(target.parts.begin(), target.parts.end(),
                     [&](const Target& part) { return Assigns(part, name); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Template>> StatementParser::Run() {
  auto result = std::make_unique<Template>();
  TUTTI_ASSIGN_OR_RETURN(result->body, ParseBody({}));
  if (!so_far_.unknown.empty()) return so_far_.unknown[0];
  result->blocks = std::move(blocks_);
  return result;
}

absl::StatusOr<Body> StatementParser::ParseBody(std::initializer_list<std::string_view> ends) {
  const TokenReader::Nested nested(&tokens_);
  TUTTI_RETURN_IF_ERROR(tokens_.CheckNesting());
  Body body;
  while (true) {
    const Token token = tokens_.Pop();
    if (token.kind == Token::kText) {
      auto text = NewStmt(Stmt::kText, token.line);
      text->constant = Value::Literal(token.text);
      body.push_back(std::move(text));
    } else if (token.kind == Token::kOutputBegin) {
      auto output = NewStmt(Stmt::kOutput, token.line);
      TUTTI_ASSIGN_OR_RETURN(output->expr, expressions_.ParseTuple(/*conditional=*/true, false));
      TUTTI_RETURN_IF_ERROR(tokens_.Expect(Token::kOutputEnd, "\"}}\""));
      body.push_back(std::move(output));
    } else if (token.kind == Token::kBlockBegin) {
      const bool at_end = std::find(ends.begin(), ends.end(), tokens_.Now().text) != ends.end();
      if (tokens_.Now().kind == Token::kName && at_end) return body;
      TUTTI_RETURN_IF_ERROR(ParseStatement(&body));
    } else if (ends.size() > 0) {
      return FailAt(token.line, absl::StrCat("expected {% ", Absl(*ends.begin()), " %}, found ",
                                             Describe(token)));
    } else {
      return body;
    }
  }
}

absl::StatusOr<Body> StatementParser::ParseBlockBody(std::string_view end) {
  TUTTI_RETURN_IF_ERROR(EndBlock());
  TUTTI_ASSIGN_OR_RETURN(Body body, ParseBody({end}));
  tokens_.Skip();
  return body;
}

absl::Status StatementParser::ParseStatement(Body* body) {
  const Token word = tokens_.Pop();
  if (word.IsName("print")) return ParsePrint(word.line, body);
  TUTTI_ASSIGN_OR_RETURN(StmtPtr stmt, ParseKeyword(word));
  TUTTI_RETURN_IF_ERROR(EndBlock());
  body->push_back(std::move(stmt));
  return absl::OkStatus();
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseKeyword(const Token& word) {
  if (word.kind == Token::kName) {
    if (word.text == "if") return ParseIf(word.line);
    if (word.text == "for") return ParseFor(word.line);
    if (word.text == "set") return ParseSet(word.line);
    if (word.text == "macro") return ParseMacro(word.line);
    if (word.text == "call") return ParseCallBlock(word.line);
    if (word.text == "filter") return ParseFilterBlock(word.line);
    if (word.text == "with") return ParseWith(word.line);
    if (word.text == "block") return ParseNamedBlock(word.line);
    if (word.text == "generation") return ParseGeneration(word.line);
    if (word.text == "break" || word.text == "continue") return ParseLoopControl(word);
    for (const std::string_view load : {"include", "import", "from", "extends"}) {
      if (word.text == load) return ParseLoad(word);
    }
  }
  return FailAt(word.line, absl::StrCat("statement ", Describe(word), " is not supported"));
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseIf(int line) {
  const size_t unknown = so_far_.unknown.size();
  auto stmt = NewStmt(Stmt::kIf, line);
  while (true) {
    Branch branch;
    TUTTI_ASSIGN_OR_RETURN(branch.condition, expressions_.ParseTuple(/*conditional=*/false, false));
    TUTTI_RETURN_IF_ERROR(EndBlock());
    TUTTI_ASSIGN_OR_RETURN(branch.body, ParseBody({"endif", "elif", "else"}));
    stmt->branches.push_back(std::move(branch));
    const Token end = tokens_.Pop();
    if (end.text == "elif") continue;
    if (end.text == "else") {
      Branch otherwise;
      TUTTI_ASSIGN_OR_RETURN(otherwise.body, ParseBlockBody("endif"));
      stmt->branches.push_back(std::move(otherwise));
    }
    so_far_.unknown.resize(unknown);
    return stmt;
  }
}

absl::StatusOr<Target> StatementParser::ParseOneTarget() {
  Target target;
  if (tokens_.SkipOperator("(")) {
    TUTTI_ASSIGN_OR_RETURN(target, ParseTarget());
    TUTTI_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return target;
  }
  TUTTI_ASSIGN_OR_RETURN(target.name, tokens_.ExpectName("the name of a variable"));
  if (Contains(kReserved, target.name)) {
    return tokens_.Fail(absl::StrCat("cannot assign to \"", target.name, "\""));
  }
  if (!tokens_.SkipOperator(".")) return target;
  TUTTI_ASSIGN_OR_RETURN(target.attribute, tokens_.ExpectName("the name of an attribute"));
  return target;
}

absl::StatusOr<Target> StatementParser::ParseTarget() {
  const TokenReader::Nested nested(&tokens_);
  TUTTI_RETURN_IF_ERROR(tokens_.CheckNesting());
  Target target;
  do {
    if (target.is_tuple &&
        (tokens_.Now().IsOperator(")") || tokens_.Now().IsName("in") ||
         tokens_.Now().IsOperator("=") || tokens_.Now().kind == Token::kBlockEnd)) {
      break;
    }
    TUTTI_ASSIGN_OR_RETURN(Target part, ParseOneTarget());
    target.parts.push_back(std::move(part));
    if (tokens_.Now().IsOperator(",")) target.is_tuple = true;
  } while (tokens_.SkipOperator(","));
  if (target.is_tuple) return target;
  Target only = std::move(target.parts[0]);
  return only;
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseFor(int line) {
  auto stmt = NewStmt(Stmt::kFor, line);
  TUTTI_ASSIGN_OR_RETURN(stmt->target, ParseTarget());
  if (Assigns(stmt->target, "loop")) return FailAt(line, "a for cannot assign to \"loop\"");
  if (!tokens_.SkipName("in")) return tokens_.Unexpected("\"in\"");
  TUTTI_ASSIGN_OR_RETURN(stmt->expr, expressions_.ParseTuple(/*conditional=*/false, false));
  if (tokens_.SkipName("if")) {
    TUTTI_ASSIGN_OR_RETURN(stmt->filter, expressions_.ParseExpression());
  }
  stmt->recursive = tokens_.SkipName("recursive");
  TUTTI_RETURN_IF_ERROR(EndBlock());
  ++loops_;
  TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBody({"endfor", "else"}));
  --loops_;
  if (tokens_.Pop().text == "else") {
    TUTTI_ASSIGN_OR_RETURN(stmt->otherwise, ParseBlockBody("endfor"));
  }
  return stmt;
}

absl::StatusOr<ExprPtr> StatementParser::ParseFilterChain() {
  TUTTI_ASSIGN_OR_RETURN(ExprPtr filter, expressions_.ParseFilter(nullptr));
  while (tokens_.SkipOperator("|")) {
    TUTTI_ASSIGN_OR_RETURN(filter, expressions_.ParseFilter(std::move(filter)));
  }
  return filter;
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseSet(int line) {
  auto stmt = NewStmt(Stmt::kSet, line);
  TUTTI_ASSIGN_OR_RETURN(stmt->target, ParseTarget());
  if (tokens_.SkipOperator("=")) {
    TUTTI_ASSIGN_OR_RETURN(stmt->expr, expressions_.ParseTuple(/*conditional=*/true, false));
    return stmt;
  }
  if (stmt->target.is_tuple) return tokens_.Unexpected("\"=\"");
  stmt->kind = Stmt::kSetBlock;
  if (tokens_.SkipOperator("|")) {
    TUTTI_ASSIGN_OR_RETURN(stmt->filter, ParseFilterChain());
  } else if (tokens_.Now().kind != Token::kBlockEnd) {
    return tokens_.Unexpected("\"=\"");
  }
  TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBlockBody("endset"));
  return stmt;
}

absl::Status StatementParser::ParseParameters(Macro* macro) {
  TUTTI_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  while (!tokens_.Now().IsOperator(")")) {
    if (!macro->parameters.empty()) {
      TUTTI_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.Now().IsOperator(")")) break;
    }
    TUTTI_ASSIGN_OR_RETURN(std::string parameter, tokens_.ExpectName("the name of a parameter"));
    macro->parameters.push_back(std::move(parameter));
    ExprPtr value;
    if (tokens_.SkipOperator("=")) {
      TUTTI_ASSIGN_OR_RETURN(value, expressions_.ParseExpression());
    }
    macro->defaults.push_back(std::move(value));
  }
  tokens_.Skip();
  return absl::OkStatus();
}

absl::Status StatementParser::ParseMacroBody(Macro* macro, std::string_view end) {
  const int loops = std::exchange(loops_, 0);  // a break in a macro does not leave a loop around it
  so_far_.macros.push_back(macro);
  TUTTI_ASSIGN_OR_RETURN(macro->body, ParseBlockBody(end));
  so_far_.macros.pop_back();
  loops_ = loops;
  return absl::OkStatus();
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseMacro(int line) {
  auto stmt = NewStmt(Stmt::kMacro, line);
  stmt->macro = std::make_unique<Macro>();
  TUTTI_ASSIGN_OR_RETURN(stmt->macro->name, tokens_.ExpectName("the name of a macro"));
  TUTTI_RETURN_IF_ERROR(ParseParameters(stmt->macro.get()));
  TUTTI_RETURN_IF_ERROR(ParseMacroBody(stmt->macro.get(), "endmacro"));
  if (tokens_.Now().kind == Token::kName) tokens_.Skip();  // {% endmacro name %}
  return stmt;
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseCallBlock(int line) {
  auto stmt = NewStmt(Stmt::kCallBlock, line);
  stmt->macro = std::make_unique<Macro>();
  stmt->macro->name = "caller";
  if (tokens_.Now().IsOperator("(")) TUTTI_RETURN_IF_ERROR(ParseParameters(stmt->macro.get()));
  TUTTI_ASSIGN_OR_RETURN(stmt->expr, expressions_.ParseExpression());
  if (stmt->expr->kind != Expr::kCall) return FailAt(line, "expected a call");
  TUTTI_RETURN_IF_ERROR(ParseMacroBody(stmt->macro.get(), "endcall"));
  return stmt;
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseFilterBlock(int line) {
  auto stmt = NewStmt(Stmt::kFilterBlock, line);
  TUTTI_ASSIGN_OR_RETURN(stmt->filter, ParseFilterChain());
  TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBlockBody("endfilter"));
  return stmt;
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseWith(int line) {
  auto stmt = NewStmt(Stmt::kWith, line);
  while (tokens_.Now().kind != Token::kBlockEnd) {
    if (!stmt->assignments.empty()) TUTTI_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    Target target;
    TUTTI_ASSIGN_OR_RETURN(target, ParseOneTarget());
    TUTTI_RETURN_IF_ERROR(tokens_.ExpectOperator("="));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr value, expressions_.ParseExpression());
    stmt->assignments.emplace_back(std::move(target), std::move(value));
  }
  TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBlockBody("endwith"));
  return stmt;
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseNamedBlock(int line) {
  auto stmt = NewStmt(Stmt::kBlock, line);
  TUTTI_ASSIGN_OR_RETURN(stmt->name, tokens_.ExpectName("the name of a block"));
  const bool twice = std::any_of(blocks_.begin(), blocks_.end(),
                                 [&](const Stmt* block) { return block->name == stmt->name; });
  if (twice) return FailAt(line, absl::StrCat("block \"", stmt->name, "\" is defined twice"));
  blocks_.push_back(stmt.get());
  if (tokens_.SkipName("scoped")) stmt->recursive = true;  // sees the variables around it
  if (tokens_.Now().IsName("required"))
    return tokens_.Fail("a required block has no content to render");
  const int loops = std::exchange(loops_, 0);
  TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBlockBody("endblock"));
  loops_ = loops;
  if (tokens_.Now().kind == Token::kName) tokens_.Skip();  // {% endblock name %}
  return stmt;
}

// {% generation %} marks the text of the assistant, for training; rendering is not changed by it.
absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseGeneration(int line) {
  auto stmt = NewStmt(Stmt::kWith, line);
  const int loops = std::exchange(loops_, 0);
  TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBlockBody("endgeneration"));
  loops_ = loops;
  return stmt;
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseLoopControl(const Token& word) {
  if (loops_ == 0) return FailAt(word.line, absl::StrCat("\"", word.text, "\" outside of a for"));
  return NewStmt(word.text == "break" ? Stmt::kBreak : Stmt::kContinue, word.line);
}

absl::StatusOr<StatementParser::StmtPtr> StatementParser::ParseLoad(const Token& word) {
  auto stmt = NewStmt(Stmt::kLoad, word.line);
  stmt->name = word.text;
  while (tokens_.Now().kind != Token::kBlockEnd && tokens_.Now().kind != Token::kEnd)
    tokens_.Skip();
  return stmt;
}

// {% print a, b %}
absl::Status StatementParser::ParsePrint(int line, Body* body) {
  while (tokens_.Now().kind != Token::kBlockEnd) {
    auto output = NewStmt(Stmt::kOutput, line);
    TUTTI_ASSIGN_OR_RETURN(output->expr, expressions_.ParseExpression());
    body->push_back(std::move(output));
    if (!tokens_.SkipOperator(",")) break;
  }
  return EndBlock();
}

}  // namespace tutti::text::jinja
