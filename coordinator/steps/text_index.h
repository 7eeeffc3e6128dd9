// The places of texts, by the tokens before them: where the last tokens of a text have stood
// before.
//
// A text is indexed in parts of equal length, each with a table of its own: a table is small enough
// for the nearest cache, none grows, and a text that becomes longer costs one part more.
//
// Thread: the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"

namespace tutti::coordinator {

// The places of one part.
class PartIndex {
 public:
  // Tokens that must be equal before a place, and those that are compared at most.
  static constexpr int32_t kEqualMin = 3;
  static constexpr int32_t kEqualMax = 32;
  static constexpr int32_t kPartBits = 11;
  static constexpr int32_t kPartTokens = 1 << kPartBits;
  // Places with the same hash that a search looks at, from the latest; and entries, of which a text
  // can be made to have many with one slot.
  static constexpr int32_t kPlacesMax = 16;
  static constexpr int32_t kEntriesMax = 256;

  // The tokens before a place, hashed.
  struct Key {
    uint32_t slot;
    uint32_t tag;  // of an entry, in its place
  };
  // REQUIRES: place >= kEqualMin
  static Key KeyOf(std::span<const TokenId> text, int32_t place);

  // REQUIRES: 0 <= place < kPartTokens, and places come in order
  void Add(const Key& key, int32_t place) {
    Entry& latest = latest_[key.slot];
    before_[static_cast<size_t>(place)] = latest;
    latest = key.tag | static_cast<Entry>(place + 1);
  }
  // A search will look here soon.
  void FetchAhead(const Key& key) const { __builtin_prefetch(&latest_[key.slot]); }

 private:
  friend class PlaceSearch;
  // A place of the part, counted from 1, in the lowest bits, and a part of its hash above them; 0:
  // none.
  using Entry = uint32_t;
  static constexpr Entry kPlaceMask = (Entry{2} << kPartBits) - 1;

  std::array<Entry, kPartTokens> latest_{};  // by hash
  std::array<Entry, kPartTokens> before_;    // of each place: the one before it with that hash
};

// A search for the place with the longest equal text before it, of equal ones the first that is
// looked at.
class PlaceSearch {
 public:
  // For what stands at the end of `text`; `entries_max`: that it looks at.
  // REQUIRES: text.size() >= kEqualMin
  explicit PlaceSearch(std::span<const TokenId> text, int32_t entries_max = PartIndex::kEntriesMax);

  // Looks at the places of a part, from the latest: false if it has seen enough.
  //   text  that the part is of; its first place is text[first]
  bool Look(const PartIndex& part, std::span<const TokenId> text, int32_t first);

  const PartIndex::Key& key() const { return key_; }
  // In the text of the part that was looked at when it changed last; -1: none.
  int32_t place() const { return place_; }
  // Tokens before it that are equal; 0: there is no place.
  int32_t equal() const { return place_ < 0 ? 0 : longest_; }
  // That it has looked at.
  int32_t entries() const { return entries_; }

 private:
  const std::span<const TokenId> end_;
  const PartIndex::Key key_;
  const int32_t entries_max_;
  int32_t place_ = -1;
  int32_t longest_ = PartIndex::kEqualMin - 1;
  int32_t entries_ = 0, places_ = 0;  // looked at
};

// The places of one text.
class TextIndex {
 public:
  static constexpr int32_t kEqualMin = PartIndex::kEqualMin;
  static constexpr int32_t kEqualMax = PartIndex::kEqualMax;
  static constexpr int32_t kPartTokens = PartIndex::kPartTokens;
  static constexpr int64_t kPartBytes = sizeof(PartIndex);

  // Indexes at most `most` tokens more of a text that goes on with each call, as long as there are
  // `parts_max` parts at most.
  void Add(std::span<const TokenId> text, int32_t most, int64_t parts_max);
  // The place before which the same tokens stand as at the text's end; -1: none. `equal`, if not
  // null, is set to how many of them are the same, at most kEqualMax.
  //   text  at least what has been indexed
  int32_t Find(std::span<const TokenId> text, int32_t* equal = nullptr) const;

  int32_t size() const { return size_; }
  int64_t parts() const { return static_cast<int64_t>(parts_.size()); }
  int64_t bytes() const { return parts() * kPartBytes; }

 private:
  int32_t size_ = 0;  // tokens
  std::vector<std::unique_ptr<PartIndex>> parts_;
};

}  // namespace tutti::coordinator
