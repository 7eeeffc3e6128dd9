// Tags in text that comes in pieces: what may still become one is held back, nothing else.
//
// Thread: one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::gateway {

// Finds tags anywhere.
class TagFinder {
 public:
  static constexpr int kNone = -1;
  // REQUIRES: the tags outlive it; none is the beginning of another.
  explicit TagFinder(std::vector<std::string_view> tags) : tags_(std::move(tags)) {}

  // The tag that `c` completes, or kNone. What is certain to be part of none goes to *text.
  int Push(char c, std::string* text);
  // The beginning of a tag that nothing follows.
  std::string Release() { return std::exchange(held_, {}); }

 private:
  const std::vector<std::string_view> tags_;
  std::string held_;
};

// Looks whether one of several words comes next, behind blanks.
class NextWord {
 public:
  enum class At { kOpen, kFound, kOther };
  // REQUIRES: the words outlive it; none is the beginning of another.
  explicit NextWord(std::vector<std::string_view> words) : words_(std::move(words)) {}

  // kOther: what has come is none of the words; Release gives it back.
  At Push(char c);
  std::string_view found() const { return found_; }
  // All that has come, with blanks.
  std::string Release();

 private:
  const std::vector<std::string_view> words_;
  std::string held_;
  size_t blanks_ = 0;
  std::string_view found_;
};

}  // namespace tutti::gateway
