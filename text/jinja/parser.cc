#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

class Parser final : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  absl::StatusOr<std::unique_ptr<Template>> Run() {
    auto result = std::make_unique<Template>();
    TUTTI_ASSIGN_OR_RETURN(result->body, ParseBody({}));
    for (const auto& [name, line] : macro_calls_) {
      if (!macro_names_.contains(name)) {
        return FailAt(line, absl::StrCat("function \"", name, "\" is not supported"));
      }
    }
    return result;
  }

 private:
  // Until one of `ends` begins a block, whose "{%" is passed over, or to the end of the template.
  absl::StatusOr<Body> ParseBody(std::initializer_list<std::string_view> ends) {
    const Nested nested(this);
    TUTTI_RETURN_IF_ERROR(CheckNesting());
    Body body;
    while (true) {
      const Token token = Pop();
      if (token.kind == Token::kText) {
        auto text = NewStmt(Stmt::kText, token.line);
        text->constant = Value::Literal(token.text);
        body.push_back(std::move(text));
      } else if (token.kind == Token::kOutputBegin) {
        auto output = NewStmt(Stmt::kOutput, token.line);
        TUTTI_ASSIGN_OR_RETURN(output->expr, ParseTuple(/*conditional=*/true, false));
        TUTTI_RETURN_IF_ERROR(Expect(Token::kOutputEnd, "\"}}\""));
        body.push_back(std::move(output));
      } else if (token.kind == Token::kBlockBegin) {
        const bool at_end = std::find(ends.begin(), ends.end(), Now().text) != ends.end();
        if (Now().kind == Token::kName && at_end) return body;
        TUTTI_RETURN_IF_ERROR(ParseStatement(&body));
      } else if (ends.size() > 0) {
        return FailAt(token.line, absl::StrCat("expected {% ", Absl(*ends.begin()), " %}, found ",
                                               Describe(token)));
      } else {
        return body;
      }
    }
  }

  static std::unique_ptr<Stmt> NewStmt(Stmt::Kind kind, int line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  absl::Status EndBlock() { return Expect(Token::kBlockEnd, "\"%}\""); }

  // Behind "{%".
  absl::Status ParseStatement(Body* body) {
    const Token word = Pop();
    std::unique_ptr<Stmt> stmt;
    if (word.IsName("generation")) return ParseGeneration(body);
    if (word.IsName("if")) {
      TUTTI_ASSIGN_OR_RETURN(stmt, ParseIf(word.line));
    } else if (word.IsName("for")) {
      TUTTI_ASSIGN_OR_RETURN(stmt, ParseFor(word.line));
    } else if (word.IsName("set")) {
      TUTTI_ASSIGN_OR_RETURN(stmt, ParseSet(word.line));
    } else if (word.IsName("macro")) {
      TUTTI_ASSIGN_OR_RETURN(stmt, ParseMacro(word.line));
    } else if (word.IsName("break") || word.IsName("continue")) {
      if (loops_ == 0)
        return FailAt(word.line, absl::StrCat("\"", word.text, "\" outside of a for"));
      stmt = NewStmt(word.text == "break" ? Stmt::kBreak : Stmt::kContinue, word.line);
    } else {
      return FailAt(word.line, absl::StrCat("statement ", Describe(word), " is not supported"));
    }
    TUTTI_RETURN_IF_ERROR(EndBlock());
    body->push_back(std::move(stmt));
    return absl::OkStatus();
  }

  // {% generation %} marks what the assistant says, for training; rendering is not changed by it.
  absl::Status ParseGeneration(Body* body) {
    TUTTI_RETURN_IF_ERROR(EndBlock());
    TUTTI_ASSIGN_OR_RETURN(Body inner, ParseBody({"endgeneration"}));
    Skip();
    for (auto& stmt : inner) body->push_back(std::move(stmt));
    return EndBlock();
  }

  absl::StatusOr<std::unique_ptr<Stmt>> ParseIf(int line) {
    auto stmt = NewStmt(Stmt::kIf, line);
    while (true) {
      Branch branch;
      TUTTI_ASSIGN_OR_RETURN(branch.condition, ParseTuple(/*conditional=*/false, false));
      TUTTI_RETURN_IF_ERROR(EndBlock());
      TUTTI_ASSIGN_OR_RETURN(branch.body, ParseBody({"endif", "elif", "else"}));
      stmt->branches.push_back(std::move(branch));
      const Token end = Pop();
      if (end.text == "elif") continue;
      if (end.text == "else") {
        TUTTI_RETURN_IF_ERROR(EndBlock());
        Branch otherwise;
        TUTTI_ASSIGN_OR_RETURN(otherwise.body, ParseBody({"endif"}));
        stmt->branches.push_back(std::move(otherwise));
        Skip();
      }
      return stmt;
    }
  }

  // a | a, b | (a, b)
  absl::Status ParseTargets(Stmt* stmt) {
    const bool bracketed = SkipOperator("(");
    do {
      if (stmt->unpack && (Now().IsOperator(")") || Now().IsName("in") || Now().IsOperator("="))) {
        break;
      }
      TUTTI_ASSIGN_OR_RETURN(std::string name, ExpectName("the name of a variable"));
      stmt->names.push_back(std::move(name));
      if (Now().IsOperator(",")) stmt->unpack = true;
    } while (SkipOperator(","));
    if (bracketed) TUTTI_RETURN_IF_ERROR(ExpectOperator(")"));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Stmt>> ParseFor(int line) {
    auto stmt = NewStmt(Stmt::kFor, line);
    TUTTI_RETURN_IF_ERROR(ParseTargets(stmt.get()));
    for (const std::string& name : stmt->names) {
      if (name == "loop") return FailAt(line, "a for cannot assign to \"loop\"");
    }
    if (!SkipName("in")) return Unexpected("\"in\"");
    TUTTI_ASSIGN_OR_RETURN(stmt->expr, ParseTuple(/*conditional=*/false, false));
    if (SkipName("if")) {
      TUTTI_ASSIGN_OR_RETURN(stmt->filter, ParseExpression());
    }
    if (Now().IsName("recursive")) return Fail("\"recursive\" is not supported");
    TUTTI_RETURN_IF_ERROR(EndBlock());
    ++loops_;
    TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBody({"endfor", "else"}));
    --loops_;
    if (Pop().text == "else") {
      TUTTI_RETURN_IF_ERROR(EndBlock());
      TUTTI_ASSIGN_OR_RETURN(stmt->otherwise, ParseBody({"endfor"}));
      Skip();
    }
    return stmt;
  }

  absl::StatusOr<std::unique_ptr<Stmt>> ParseSet(int line) {
    auto stmt = NewStmt(Stmt::kSet, line);
    if (Now().kind == Token::kName && Next().IsOperator(".")) {
      stmt->kind = Stmt::kSetAttribute;
      stmt->names.push_back(Pop().text);
      Skip();
      TUTTI_ASSIGN_OR_RETURN(std::string attribute, ExpectName("the name of an attribute"));
      stmt->names.push_back(std::move(attribute));
    } else {
      TUTTI_RETURN_IF_ERROR(ParseTargets(stmt.get()));
    }
    if (SkipOperator("=")) {
      TUTTI_ASSIGN_OR_RETURN(stmt->expr, ParseTuple(/*conditional=*/true, false));
      return stmt;
    }
    if (stmt->kind != Stmt::kSet || stmt->unpack) return Unexpected("\"=\"");
    if (Now().IsOperator("|")) return Fail("a filter on {% set %} is not supported");
    stmt->kind = Stmt::kSetBlock;
    TUTTI_RETURN_IF_ERROR(EndBlock());
    TUTTI_ASSIGN_OR_RETURN(stmt->body, ParseBody({"endset"}));
    Skip();
    return stmt;
  }

  absl::StatusOr<std::unique_ptr<Stmt>> ParseMacro(int line) {
    auto stmt = NewStmt(Stmt::kMacro, line);
    auto macro = std::make_unique<Macro>();
    TUTTI_ASSIGN_OR_RETURN(macro->name, ExpectName("the name of a macro"));
    macro_names_.insert(macro->name);
    TUTTI_RETURN_IF_ERROR(ExpectOperator("("));
    while (!Now().IsOperator(")")) {
      if (!macro->parameters.empty()) {
        TUTTI_RETURN_IF_ERROR(ExpectOperator(","));
        if (Now().IsOperator(")")) break;
      }
      TUTTI_ASSIGN_OR_RETURN(std::string parameter, ExpectName("the name of a parameter"));
      macro->parameters.push_back(std::move(parameter));
      ExprPtr value;
      if (SkipOperator("=")) {
        TUTTI_ASSIGN_OR_RETURN(value, ParseExpression());
      }
      macro->defaults.push_back(std::move(value));
    }
    Skip();
    TUTTI_RETURN_IF_ERROR(EndBlock());
    const int loops =
        std::exchange(loops_, 0);  // a break in a macro does not leave a loop around it
    ++macros_;
    TUTTI_ASSIGN_OR_RETURN(macro->body, ParseBody({"endmacro"}));
    --macros_;
    loops_ = loops;
    Skip();
    if (Now().kind == Token::kName) Skip();  // {% endmacro name %}
    stmt->macro = std::move(macro);
    return stmt;
  }

  absl::flat_hash_set<std::string> macro_names_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Template>> ParseTemplate(std::string_view source) {
  if (source.size() > kTemplateBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", source.size(), " bytes, at most ", kTemplateBytesMax));
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace tutti::text::jinja
