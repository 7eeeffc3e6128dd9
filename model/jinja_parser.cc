#include "model/jinja_parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/absl_text.h"
#include "model/jinja_lexer.h"
#include "model/limits.h"

namespace tutti::jinja {
namespace {

template <size_t N>
bool Contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 8> kKeywords = {"and", "or",   "not", "in",
                                                       "is",  "else", "if",  "elif"};
constexpr std::array<std::string_view, 9> kLoopAttributes = {
    "index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem"};
// Inside a macro these would be its surplus arguments and the block of a call.
constexpr std::array<std::string_view, 3> kMacroSpecials = {"varargs", "kwargs", "caller"};
// Functions of HuggingFace's environment that we do not have. `strftime_now is defined` must not
// quietly be false.
constexpr std::array<std::string_view, 5> kUnsupportedNames = {"strftime_now", "cycler", "joiner",
                                                               "lipsum", "self"};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

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
  // One level of nesting, as long as it lives.
  class Nested {
   public:
    explicit Nested(int* depth) : depth_(depth) { ++*depth_; }
    ~Nested() { --*depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    int* const depth_;
  };

  // --- Tokens ---

  const Token& Now() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Take() {
    Token token = tokens_[at_];
    if (token.kind != Token::kEnd) ++at_;
    return token;
  }
  bool SkipOperator(std::string_view op) {
    if (!Now().IsOperator(op)) return false;
    ++at_;
    return true;
  }
  bool SkipName(std::string_view name) {
    if (!Now().IsName(name)) return false;
    ++at_;
    return true;
  }
  static std::string Describe(const Token& token) {
    switch (token.kind) {
      case Token::kEnd:
        return "end of template";
      case Token::kText:
        return "text";
      case Token::kOutputBegin:
        return "\"{{\"";
      case Token::kOutputEnd:
        return "\"}}\"";
      case Token::kBlockBegin:
        return "\"{%\"";
      case Token::kBlockEnd:
        return "\"%}\"";
      default:
        return absl::StrCat("\"", token.text, "\"");
    }
  }
  static absl::Status FailAt(int line, std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", Absl(why)));
  }
  absl::Status Fail(std::string_view why) const { return FailAt(Now().line, why); }
  absl::Status Unexpected(std::string_view wanted) const {
    return Fail(absl::StrCat("expected ", Absl(wanted), ", found ", Describe(Now())));
  }
  absl::Status Expect(Token::Kind kind, std::string_view wanted) {
    if (Now().kind != kind) return Unexpected(wanted);
    ++at_;
    return absl::OkStatus();
  }
  absl::Status ExpectOperator(std::string_view op) {
    if (!SkipOperator(op)) return Unexpected(absl::StrCat("\"", Absl(op), "\""));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ExpectName(std::string_view wanted) {
    if (Now().kind != Token::kName || Contains(kKeywords, Now().text)) return Unexpected(wanted);
    return Take().text;
  }
  absl::Status CheckNesting() const {
    if (nesting_ <= kTemplateDepthMax) return absl::OkStatus();
    return Fail(absl::StrCat("nests deeper than ", kTemplateDepthMax));
  }

  // --- Statements ---

  // Until one of `ends` begins a block, whose "{%" is passed over, or to the end of the template.
  absl::StatusOr<Body> ParseBody(std::initializer_list<std::string_view> ends) {
    const Nested nested(&nesting_);
    TUTTI_RETURN_IF_ERROR(CheckNesting());
    Body body;
    while (true) {
      const Token token = Take();
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
    const Token word = Take();
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
    ++at_;
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
      const Token end = Take();
      if (end.text == "elif") continue;
      if (end.text == "else") {
        TUTTI_RETURN_IF_ERROR(EndBlock());
        Branch otherwise;
        TUTTI_ASSIGN_OR_RETURN(otherwise.body, ParseBody({"endif"}));
        stmt->branches.push_back(std::move(otherwise));
        ++at_;
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
    if (Take().text == "else") {
      TUTTI_RETURN_IF_ERROR(EndBlock());
      TUTTI_ASSIGN_OR_RETURN(stmt->otherwise, ParseBody({"endfor"}));
      ++at_;
    }
    return stmt;
  }

  absl::StatusOr<std::unique_ptr<Stmt>> ParseSet(int line) {
    auto stmt = NewStmt(Stmt::kSet, line);
    if (Now().kind == Token::kName && Next().IsOperator(".")) {
      stmt->kind = Stmt::kSetAttribute;
      stmt->names.push_back(Take().text);
      ++at_;
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
    ++at_;
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
    ++at_;
    TUTTI_RETURN_IF_ERROR(EndBlock());
    const int loops =
        std::exchange(loops_, 0);  // a break in a macro does not leave a loop around it
    ++macros_;
    TUTTI_ASSIGN_OR_RETURN(macro->body, ParseBody({"endmacro"}));
    --macros_;
    loops_ = loops;
    ++at_;
    if (Now().kind == Token::kName) ++at_;  // {% endmacro name %}
    stmt->macro = std::move(macro);
    return stmt;
  }

  // --- Expressions, weakest binding first ---

  absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, std::vector<ExprPtr> children) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = line;
    for (const ExprPtr& child : children) {
      if (child != nullptr) expr->depth = std::max(expr->depth, child->depth + 1);
    }
    expr->children = std::move(children);
    return Checked(std::move(expr));
  }
  absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, ExprPtr child) {
    std::vector<ExprPtr> children;
    children.push_back(std::move(child));
    return New(kind, line, std::move(children));
  }
  absl::StatusOr<ExprPtr> New(Expr::Kind kind, int line, ExprPtr left, ExprPtr right) {
    std::vector<ExprPtr> children;
    children.push_back(std::move(left));
    children.push_back(std::move(right));
    return New(kind, line, std::move(children));
  }
  absl::StatusOr<ExprPtr> Checked(ExprPtr expr) {
    for (const ExprPtr& value : expr->arguments.values) {
      if (value != nullptr) expr->depth = std::max(expr->depth, value->depth + 1);
    }
    if (expr->depth > kTemplateDepthMax) {
      return FailAt(expr->line, absl::StrCat("nests deeper than ", kTemplateDepthMax));
    }
    return expr;
  }

  bool AtTupleEnd() const {
    return Now().kind == Token::kOutputEnd || Now().kind == Token::kBlockEnd ||
           Now().IsOperator(")") || Now().IsName("recursive");
  }

  // a | a, b | a, ; `brackets`: between ( and ), where nothing at all is the empty tuple.
  absl::StatusOr<ExprPtr> ParseTuple(bool conditional, bool brackets) {
    const int line = Now().line;
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
      if (!SkipOperator(",")) break;
      is_tuple = true;
    }
    if (items.size() == 1 && !is_tuple) return std::move(items[0]);
    return New(Expr::kTuple, line, std::move(items));
  }

  absl::StatusOr<ExprPtr> ParseExpression() {
    const Nested nested(&nesting_);
    TUTTI_RETURN_IF_ERROR(CheckNesting());
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseOr());
    while (Now().IsName("if")) {
      const int line = Take().line;
      std::vector<ExprPtr> children(3);
      children[0] = std::move(expr);
      TUTTI_ASSIGN_OR_RETURN(children[1], ParseOr());
      if (SkipName("else")) {
        TUTTI_ASSIGN_OR_RETURN(children[2], ParseExpression());
      }
      TUTTI_ASSIGN_OR_RETURN(expr, New(Expr::kConditional, line, std::move(children)));
    }
    return expr;
  }

  absl::StatusOr<ExprPtr> ParseOr() {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
    while (Now().IsName("or")) {
      const int line = Take().line;
      TUTTI_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
      TUTTI_ASSIGN_OR_RETURN(left, New(Expr::kOr, line, std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<ExprPtr> ParseAnd() {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
    while (Now().IsName("and")) {
      const int line = Take().line;
      TUTTI_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
      TUTTI_ASSIGN_OR_RETURN(left, New(Expr::kAnd, line, std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<ExprPtr> ParseNot() {
    if (!Now().IsName("not")) return ParseCompare();
    const Nested nested(&nesting_);
    TUTTI_RETURN_IF_ERROR(CheckNesting());
    const int line = Take().line;
    TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
    return New(Expr::kNot, line, std::move(operand));
  }

  // The comparison that begins here, passed over; "" when none does.
  std::string TakeComparison() {
    static constexpr std::array<std::string_view, 6> kOps = {"==", "!=", "<", "<=", ">", ">="};
    if (Now().kind == Token::kOperator && Contains(kOps, Now().text)) return Take().text;
    if (SkipName("in")) return "in";
    if (Now().IsName("not") && Next().IsName("in")) {
      at_ += 2;
      return "not in";
    }
    return "";
  }

  absl::StatusOr<ExprPtr> ParseCompare() {
    const int line = Now().line;
    std::vector<ExprPtr> operands(1);
    std::vector<std::string> ops;
    TUTTI_ASSIGN_OR_RETURN(operands[0], ParseSum());
    for (std::string op = TakeComparison(); !op.empty(); op = TakeComparison()) {
      ops.push_back(std::move(op));
      TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseSum());
      operands.push_back(std::move(operand));
    }
    if (ops.empty()) return std::move(operands[0]);
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kCompare, line, std::move(operands)));
    expr->ops = std::move(ops);
    return expr;
  }

  // left op right op ..., where `operand` parses what binds tighter.
  absl::StatusOr<ExprPtr> ParseChain(std::initializer_list<std::string_view> ops,
                                     absl::StatusOr<ExprPtr> (Parser::*operand)()) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
    while (Now().kind == Token::kOperator &&
           std::find(ops.begin(), ops.end(), Now().text) != ops.end()) {
      const Token op = Take();
      TUTTI_ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
      TUTTI_ASSIGN_OR_RETURN(left, New(Expr::kBinary, op.line, std::move(left), std::move(right)));
      left->name = op.text;
    }
    return left;
  }
  absl::StatusOr<ExprPtr> ParseSum() { return ParseChain({"+", "-"}, &Parser::ParseConcat); }
  absl::StatusOr<ExprPtr> ParseProduct() {
    return ParseChain({"*", "/", "//", "%"}, &Parser::ParsePower);
  }
  absl::StatusOr<ExprPtr> ParsePower() { return ParseChain({"**"}, &Parser::ParseUnaryFiltered); }

  absl::StatusOr<ExprPtr> ParseConcat() {
    const int line = Now().line;
    std::vector<ExprPtr> operands(1);
    TUTTI_ASSIGN_OR_RETURN(operands[0], ParseProduct());
    while (SkipOperator("~")) {
      TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseProduct());
      operands.push_back(std::move(operand));
    }
    if (operands.size() == 1) return std::move(operands[0]);
    return New(Expr::kConcat, line, std::move(operands));
  }

  absl::StatusOr<ExprPtr> ParseUnaryFiltered() {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseUnary());
    while (true) {
      if (SkipOperator("|")) {
        TUTTI_ASSIGN_OR_RETURN(expr, ParseFilter(std::move(expr)));
      } else if (SkipName("is")) {
        TUTTI_ASSIGN_OR_RETURN(expr, ParseTest(std::move(expr)));
      } else {
        return expr;
      }
    }
  }

  absl::StatusOr<ExprPtr> ParseUnary() {
    const Nested nested(&nesting_);
    TUTTI_RETURN_IF_ERROR(CheckNesting());
    const int line = Now().line;
    ExprPtr expr;
    if (SkipOperator("-")) {
      TUTTI_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary());
      TUTTI_ASSIGN_OR_RETURN(expr, New(Expr::kNegate, line, std::move(operand)));
    } else if (Now().IsOperator("+")) {
      return Fail("unary \"+\" is not supported");
    } else {
      TUTTI_ASSIGN_OR_RETURN(expr, ParsePrimary());
    }
    return ParsePostfix(std::move(expr));
  }

  absl::StatusOr<ExprPtr> NewConstant(int line, Value value) {
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kConstant, line, std::vector<ExprPtr>()));
    expr->constant = std::move(value);
    return expr;
  }

  absl::StatusOr<ExprPtr> ParsePrimary() {
    const Token token = Now();
    switch (token.kind) {
      case Token::kName:
        return ParseName();
      case Token::kString: {
        std::string text;
        while (Now().kind == Token::kString) text += Take().text;
        return NewConstant(token.line, Value::Literal(std::move(text)));
      }
      case Token::kInteger:
        ++at_;
        return NewConstant(token.line, Value::Int(token.integer));
      case Token::kFloat:
        ++at_;
        return NewConstant(token.line, Value::Float(token.number));
      default:
        break;
    }
    if (SkipOperator("(")) {
      TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple(/*conditional=*/true, /*brackets=*/true));
      TUTTI_RETURN_IF_ERROR(ExpectOperator(")"));
      return expr;
    }
    if (SkipOperator("[")) return ParseListOrDict(Expr::kList, "]");
    if (SkipOperator("{")) return ParseListOrDict(Expr::kDict, "}");
    return Unexpected("an expression");
  }

  absl::StatusOr<ExprPtr> ParseListOrDict(Expr::Kind kind, std::string_view close) {
    const int line = Now().line;
    std::vector<ExprPtr> children;
    while (!Now().IsOperator(close)) {
      if (!children.empty()) {
        TUTTI_RETURN_IF_ERROR(ExpectOperator(","));
        if (Now().IsOperator(close)) break;
      }
      TUTTI_ASSIGN_OR_RETURN(ExprPtr child, ParseExpression());
      children.push_back(std::move(child));
      if (kind != Expr::kDict) continue;
      TUTTI_RETURN_IF_ERROR(ExpectOperator(":"));
      TUTTI_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      children.push_back(std::move(value));
    }
    ++at_;
    return New(kind, line, std::move(children));
  }

  absl::StatusOr<ExprPtr> ParseName() {
    const Token token = Take();
    const std::string& name = token.text;
    if (name == "true" || name == "True") return NewConstant(token.line, Value::Bool(true));
    if (name == "false" || name == "False") return NewConstant(token.line, Value::Bool(false));
    if (name == "none" || name == "None") return NewConstant(token.line, Value());
    if (Contains(kKeywords, name)) {
      return FailAt(token.line, absl::StrCat("expected an expression, found \"", name, "\""));
    }
    if (Contains(kUnsupportedNames, name) || (macros_ > 0 && Contains(kMacroSpecials, name))) {
      return FailAt(token.line, absl::StrCat("\"", name, "\" is not supported"));
    }
    if (Now().IsOperator("(")) return ParseFunctionCall(token);
    if (FindFunction(name) != nullptr && name != "dict") {
      return FailAt(token.line, absl::StrCat("function \"", name,
                                             "\" without a call is not "
                                             "supported"));
    }
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kName, token.line, std::vector<ExprPtr>()));
    expr->name = name;
    return expr;
  }

  absl::StatusOr<ExprPtr> ParseFunctionCall(const Token& token) {
    const Builtin* builtin = FindFunction(token.text);
    const auto kind = builtin != nullptr ? Expr::kFunction : Expr::kMacro;
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(kind, token.line, std::vector<ExprPtr>()));
    expr->name = token.text;
    expr->builtin = builtin;
    if (builtin == nullptr) macro_calls_.emplace_back(token.text, token.line);
    static const Builtin kAnyArguments = {.name = "macro", .parameters = {}, .more = true};
    TUTTI_RETURN_IF_ERROR(ParseArguments("function", builtin != nullptr ? *builtin : kAnyArguments,
                                         &expr->arguments));
    return Checked(std::move(expr));
  }

  absl::StatusOr<ExprPtr> ParsePostfix(ExprPtr expr) {
    while (true) {
      if (SkipOperator(".")) {
        TUTTI_ASSIGN_OR_RETURN(expr, ParseAttribute(std::move(expr)));
      } else if (SkipOperator("[")) {
        TUTTI_ASSIGN_OR_RETURN(expr, ParseSubscript(std::move(expr)));
      } else if (Now().IsOperator("(")) {
        return Fail("calling the result of an expression is not supported");
      } else {
        return expr;
      }
    }
  }

  absl::StatusOr<ExprPtr> ParseAttribute(ExprPtr object) {
    const Token token = Take();
    if (token.kind == Token::kInteger) {
      TUTTI_ASSIGN_OR_RETURN(ExprPtr key, NewConstant(token.line, Value::Int(token.integer)));
      return New(Expr::kItem, token.line, std::move(object), std::move(key));
    }
    if (token.kind != Token::kName) {
      return FailAt(token.line, absl::StrCat("expected an attribute, found ", Describe(token)));
    }
    const bool of_loop = object->kind == Expr::kName && object->name == "loop" && loops_ > 0;
    if (of_loop && !Contains(kLoopAttributes, token.text)) {
      return FailAt(token.line, absl::StrCat("\"loop.", token.text, "\" is not supported"));
    }
    const bool call = Now().IsOperator("(");
    TUTTI_ASSIGN_OR_RETURN(
        ExprPtr expr, New(call ? Expr::kMethod : Expr::kAttribute, token.line, std::move(object)));
    expr->name = token.text;
    if (!call) return expr;
    expr->builtin = FindMethod(token.text);
    if (expr->builtin == nullptr) {
      return FailAt(token.line, absl::StrCat("method \"", token.text, "\" is not supported"));
    }
    TUTTI_RETURN_IF_ERROR(ParseArguments("method", *expr->builtin, &expr->arguments));
    return Checked(std::move(expr));
  }

  // Behind "[".
  absl::StatusOr<ExprPtr> ParseSubscript(ExprPtr object) {
    const int line = Now().line;
    std::vector<ExprPtr> parts(4);  // object, begin, end, step
    size_t part = 1;
    bool is_slice = false;
    while (!Now().IsOperator("]")) {
      if (SkipOperator(":")) {
        is_slice = true;
        if (++part > 3) return Unexpected("\"]\"");
        continue;
      }
      if (parts[part] != nullptr) return Unexpected("\"]\"");
      TUTTI_ASSIGN_OR_RETURN(parts[part], ParseExpression());
    }
    ++at_;
    parts[0] = std::move(object);
    if (is_slice) return New(Expr::kSlice, line, std::move(parts));
    if (parts[1] == nullptr) return FailAt(line, "expected an expression, found \"]\"");
    return New(Expr::kItem, line, std::move(parts[0]), std::move(parts[1]));
  }

  // Behind "|".
  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr input) {
    const int line = Now().line;
    TUTTI_ASSIGN_OR_RETURN(const std::string name, ExpectName("the name of a filter"));
    const Builtin* filter = FindFilter(name);
    if (filter == nullptr) {
      return FailAt(line, absl::StrCat("filter \"", name, "\" is not supported"));
    }
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kFilter, line, std::move(input)));
    expr->name = name;
    expr->builtin = filter;
    TUTTI_RETURN_IF_ERROR(ParseArguments("filter", *filter, &expr->arguments));
    return Checked(std::move(expr));
  }

  // Behind "is". A test may take one argument without brackets: x is divisibleby 3.
  absl::StatusOr<ExprPtr> ParseTest(ExprPtr input) {
    const int line = Now().line;
    const bool negated = SkipName("not");
    if (Now().kind != Token::kName) return Unexpected("the name of a test");
    const std::string name = Take().text;  // may be a keyword: x is in [1, 2]
    const Builtin* test = FindTest(name);
    if (test == nullptr) return FailAt(line, absl::StrCat("test \"", name, "\" is not supported"));
    TUTTI_ASSIGN_OR_RETURN(ExprPtr expr, New(Expr::kTest, line, std::move(input)));
    expr->name = name;
    expr->builtin = test;
    if (AtBareArgument()) {
      ExprPtr argument;
      TUTTI_ASSIGN_OR_RETURN(argument, ParsePrimary());
      TUTTI_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
      std::vector<ExprPtr> positional;
      positional.push_back(std::move(argument));
      TUTTI_RETURN_IF_ERROR(Bind("test", *test, line, std::move(positional), {}, &expr->arguments));
    } else {
      TUTTI_RETURN_IF_ERROR(ParseArguments("test", *test, &expr->arguments));
    }
    TUTTI_ASSIGN_OR_RETURN(expr, Checked(std::move(expr)));
    if (!negated) return expr;
    return New(Expr::kNot, line, std::move(expr));
  }

  bool AtBareArgument() const {
    if (Now().kind == Token::kName) return !Contains(kKeywords, Now().text);
    return Now().kind == Token::kString || Now().kind == Token::kInteger ||
           Now().kind == Token::kFloat || Now().IsOperator("[") || Now().IsOperator("{");
  }

  // (a, b, name=c), or nothing at all.
  absl::Status ParseArguments(std::string_view what, const Builtin& callee, Arguments* arguments) {
    const int line = Now().line;
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
    if (SkipOperator("(")) {
      while (!Now().IsOperator(")")) {
        if (!positional.empty() || !named.empty()) {
          TUTTI_RETURN_IF_ERROR(ExpectOperator(","));
          if (Now().IsOperator(")")) break;
        }
        if (Now().IsOperator("*") || Now().IsOperator("**")) {
          return Fail(absl::StrCat("\"", Now().text, "\" before an argument is not supported"));
        }
        if (Now().kind == Token::kName && Next().IsOperator("=")) {
          std::string name = Take().text;
          ++at_;
          TUTTI_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
          named.emplace_back(std::move(name), std::move(value));
        } else {
          if (!named.empty()) return Fail("a positional argument follows a named one");
          TUTTI_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
          positional.push_back(std::move(value));
        }
      }
      ++at_;
    }
    return Bind(what, callee, line, std::move(positional), std::move(named), arguments);
  }

  // Puts arguments in the order of the parameters and checks all that can be checked before
  // rendering.
  static absl::Status Bind(std::string_view what, const Builtin& callee, int line,
                           std::vector<ExprPtr> positional,
                           std::vector<std::pair<std::string, ExprPtr>> named,
                           Arguments* arguments) {
    const std::string called = absl::StrCat(Absl(what), " \"", Absl(callee.name), "\"");
    const size_t parameters = callee.parameters.size();
    if (positional.size() > parameters && !callee.more) {
      return FailAt(line, absl::StrCat(called, " takes at most ", parameters, " arguments"));
    }
    arguments->values = std::move(positional);
    if (arguments->values.size() < parameters) arguments->values.resize(parameters);
    arguments->names.resize(arguments->values.size() - parameters);
    for (auto& [name, value] : named) {
      const auto found = std::find(callee.parameters.begin(), callee.parameters.end(), name);
      if (found == callee.parameters.end()) {
        const auto& more = callee.more_names;
        const bool known = more.empty() || std::find(more.begin(), more.end(), name) != more.end();
        if (!callee.more || !known) {
          return FailAt(line, absl::StrCat(called, " has no argument \"", name, "\""));
        }
        arguments->values.push_back(std::move(value));
        arguments->names.push_back(name);
        continue;
      }
      ExprPtr& slot = arguments->values[found - callee.parameters.begin()];
      if (slot != nullptr) {
        return FailAt(line, absl::StrCat(called, ": argument \"", name, "\" given twice"));
      }
      slot = std::move(value);
    }
    for (size_t i = 0; i < callee.required; ++i) {
      if (arguments->values[i] == nullptr) {
        return FailAt(
            line, absl::StrCat(called, " needs the argument \"", Absl(callee.parameters[i]), "\""));
      }
    }
    return CheckNamedBuiltin(called, callee, line, *arguments);
  }

  // map("upper") and select("defined") name a filter or test in a string: it must be one we have.
  static absl::Status CheckNamedBuiltin(const std::string& called, const Builtin& callee, int line,
                                        const Arguments& arguments) {
    if (callee.names_builtin == '\0' || callee.names_builtin_at >= arguments.values.size()) {
      return absl::OkStatus();
    }
    const size_t at = callee.names_builtin_at;
    const ExprPtr& argument = arguments.values[at];
    const size_t parameters = callee.parameters.size();
    const bool named = at >= parameters && !arguments.names[at - parameters].empty();
    if (argument == nullptr || named) return absl::OkStatus();
    const bool is_filter = callee.names_builtin == 'f';
    if (argument->kind != Expr::kConstant || !argument->constant.IsStr()) {
      return FailAt(line, absl::StrCat(called, ": the ", is_filter ? "filter" : "test",
                                       " must be named by a constant string"));
    }
    const std::string_view name = argument->constant.str();
    if ((is_filter ? FindFilter(name) : FindTest(name)) == nullptr) {
      return FailAt(line, absl::StrCat(is_filter ? "filter" : "test", " \"", Absl(name),
                                       "\" is not supported"));
    }
    return absl::OkStatus();
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // around this place
  int macros_ = 0;
  absl::flat_hash_set<std::string> macro_names_;
  std::vector<std::pair<std::string, int>> macro_calls_;
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

}  // namespace tutti::jinja
