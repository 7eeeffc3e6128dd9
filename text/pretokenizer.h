// Cuts text into the pieces that byte pairs are merged within.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace tutti::text {

// A list of splits, each applied to the pieces of the one before. A split isolates every match of
// its pattern and every stretch between matches. Immutable.  Thread: any.
class Pretokenizer {
 public:
  // Errors: InvalidArgument for a pattern that is refused (split_pattern.h), does not compile or
  // can match nothing.
  static absl::StatusOr<Pretokenizer> Create(const std::vector<std::string_view>& patterns);

  // The spaces before which to cut, in place of patterns.
  enum class Spaces {
    kNone,         // text stays whole
    kBehindWords,  // those behind something that is no space
    kEvery,
  };
  static Pretokenizer AtSpaces(Spaces spaces);

  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // Calls `piece` for each piece of `text`, in order; together they are `text`. An error of `piece`
  // ends it, and is returned: nothing behind it is looked at.
  //
  // REQUIRES: `text` is valid UTF-8
  // Errors: ResourceExhausted when a pattern backtracks beyond kSplitMatchLimit.
  absl::Status Split(std::string_view text,
                     absl::FunctionRef<absl::Status(std::string_view)> piece) const;

 private:
  class Pattern;
  Pretokenizer(std::vector<std::unique_ptr<Pattern>> patterns, Spaces spaces);
  absl::Status SplitFrom(size_t level, std::string_view text,
                         absl::FunctionRef<absl::Status(std::string_view)> piece) const;
  absl::Status SplitAtSpaces(std::string_view text,
                             absl::FunctionRef<absl::Status(std::string_view)> piece) const;

  std::vector<std::unique_ptr<Pattern>> patterns_;
  Spaces spaces_;  // where there are no patterns
};

}  // namespace tutti::text
