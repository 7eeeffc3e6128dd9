// Walks over the tokens of a template.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/lexer.h"

namespace tutti::text::jinja {

template <size_t N>
bool Contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

inline constexpr std::array<std::string_view, 8> kKeywords = {"and", "or",   "not", "in",
                                                              "is",  "else", "if",  "elif"};

class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // One level of nesting, as long as it lives.
  class Nested {
   public:
    explicit Nested(TokenReader* reader) : depth_(&reader->nesting_) { ++*depth_; }
    ~Nested() { --*depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    int* const depth_;
  };
  // Errors: InvalidArgument when more than kTemplateDepthMax of them live.
  absl::Status CheckNesting() const;

  const Token& Now() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  // Passes over the current token, which stays kEnd at the end.
  Token Pop();
  void Skip() { (void)Pop(); }
  // Whether the current token was this one, and is passed over.
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);

  // Errors: InvalidArgument "line N: expected ..., found ...".
  absl::Status Expect(Token::Kind kind, std::string_view wanted);
  absl::Status ExpectOperator(std::string_view op);
  absl::StatusOr<std::string> ExpectName(std::string_view wanted);
  absl::Status Unexpected(std::string_view wanted) const;
  absl::Status Fail(std::string_view why) const;

 private:
  const std::vector<Token> tokens_;  // the last one is kEnd
  size_t at_ = 0;
  int nesting_ = 0;
};

// InvalidArgument "line N: why".
absl::Status FailAt(int line, std::string_view why);

// The token as an error message shows it.
std::string Describe(const Token& token);

}  // namespace tutti::text::jinja
