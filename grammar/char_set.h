// Sets of characters, as ranges of code points.
//
// Values; pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::grammar {

inline constexpr uint32_t kCodePointMax = 0x10FFFF;
inline constexpr uint32_t kSurrogateBegin = 0xD800;
inline constexpr uint32_t kSurrogateEnd = 0xE000;

struct CharRange {
  uint32_t first = 0;
  uint32_t last = 0;

  auto operator<=>(const CharRange&) const = default;
};

// Ranges in ascending order that neither meet nor touch; no surrogates, which are no characters.
class CharSet {
 public:
  CharSet() = default;
  // Of ranges in any order, cut to what are characters.
  explicit CharSet(std::vector<CharRange> ranges);

  static CharSet All() { return CharSet({{0, kCodePointMax}}); }
  static CharSet One(uint32_t character) { return CharSet({{character, character}}); }

  bool Contains(uint32_t character) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CharRange>& ranges() const { return ranges_; }

  CharSet Complement() const;

  auto operator<=>(const CharSet&) const = default;

 private:
  std::vector<CharRange> ranges_;
};

// The code points cut into classes whose members are in the same of some sets.
class CharClasses {
 public:
  CharClasses() = default;
  // Ends, with classes that mean nothing, where `work` gets beyond its limit.
  CharClasses(const std::vector<const CharSet*>& sets, int64_t work_max);

  // The cuts inside each set, all together.
  int64_t work() const { return work_; }

  uint32_t size() const { return static_cast<uint32_t>(representatives_.size()); }
  // REQUIRES: a character, no surrogate
  uint32_t Of(uint32_t character) const;
  // A member of the class.
  uint32_t Representative(uint32_t index) const { return representatives_[index]; }

  // Calls `visit(class)` for the classes of the stretches that meet [first, last], classes several
  // times where they have several stretches; ends and returns true when a call does.
  template <typename Visit>
  bool Any(uint32_t first, uint32_t last, const Visit& visit) const {
    for (size_t i = StretchOf(first); i < begins_.size() && begins_[i] <= last; ++i) {
      if (class_of_[i] != kNone && visit(class_of_[i])) return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  size_t StretchOf(uint32_t character) const;

  std::vector<uint32_t> begins_;    // of stretches, ascending, the first 0
  std::vector<uint32_t> class_of_;  // of each stretch; kNone: surrogates
  std::vector<uint32_t> representatives_;
  std::vector<uint32_t> ascii_;  // [128] classes
  int64_t work_ = 0;
};

}  // namespace tutti::grammar
