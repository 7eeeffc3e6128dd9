#include "gateway/parse/tag_finder.h"

#include "gateway/limits.h"
#include "gateway/parse/json_scanner.h"

namespace tutti::gateway {

int TagFinder::Push(char c, std::string* text) {
  held_ += c;
  while (!held_.empty()) {
    bool may_become = false;
    for (size_t i = 0; i < tags_.size() && !may_become; ++i) {
      if (tags_[i] == held_) {
        held_.clear();
        return static_cast<int>(i);
      }
      may_become = tags_[i].starts_with(held_);
    }
    if (may_become) return kNone;
    *text += held_.front();
    held_.erase(0, 1);
  }
  return kNone;
}

NextWord::At NextWord::Push(char c) {
  held_ += c;
  if (blanks_ + 1 == held_.size() && IsJsonBlank(c)) {
    return ++blanks_ > kMarkupBlanksMax ? At::kOther : At::kOpen;
  }
  const std::string_view begun = std::string_view(held_).substr(blanks_);
  bool may_become = false;
  for (const std::string_view word : words_) {
    if (word == begun) {
      found_ = word;
      return At::kFound;
    }
    may_become |= word.starts_with(begun);
  }
  return may_become ? At::kOpen : At::kOther;
}

std::string NextWord::Release() {
  blanks_ = 0;
  return std::exchange(held_, {});
}

}  // namespace tutti::gateway
