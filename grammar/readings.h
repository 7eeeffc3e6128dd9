// Readings in a text by a grammar, and sets of them: each set is held once and has a number.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "grammar/graph.h"

namespace tutti::grammar {

// Where a call returns to: the numbers a and b of the node, and what that returns to itself.
struct Return {
  NodeId node = 0;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t returns = 0;

  auto operator<=>(const Return&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Return& r) {
    return H::combine(std::move(h), r.node, r.a, r.b, r.returns);
  }
};

struct Reading {
  NodeId node = 0;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t returns = 0;  // a set of Returns

  auto operator<=>(const Reading&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Reading& p) {
    return H::combine(std::move(h), p.node, p.a, p.b, p.c, p.returns);
  }
};

// Sets that are equal have the same number. They lie behind each other in memory, where they stay
// until all go.  Thread: one.
template <typename T>
class Interned {
 public:
  Interned() : index_(0, Hash{&sets_}, Equal{&sets_}) {}
  Interned(const Interned&) = delete;
  Interned& operator=(const Interned&) = delete;

  // REQUIRES: in ascending order, nothing twice
  uint32_t Add(std::span<const T> values) {
    const auto found = index_.find(values);
    if (found != index_.end()) return *found;
    const auto number = static_cast<uint32_t>(sets_.size());
    sets_.push_back(Keep(values));
    index_.insert(number);
    return number;
  }
  std::span<const T> operator[](uint32_t number) const { return sets_[number]; }
  size_t size() const { return sets_.size(); }
  // What is held, about.
  size_t bytes() const { return block_bytes_ + sets_.size() * (sizeof(sets_[0]) + 8); }

 private:
  static constexpr size_t kBlock = 512;

  struct Hash {
    using is_transparent = void;
    const std::vector<std::span<const T>>* sets;
    size_t operator()(std::span<const T> values) const {
      return absl::HashOf(absl::MakeConstSpan(values.data(), values.size()));
    }
    size_t operator()(uint32_t number) const { return (*this)((*sets)[number]); }
  };
  struct Equal {
    using is_transparent = void;
    const std::vector<std::span<const T>>* sets;
    std::span<const T> Of(std::span<const T> values) const { return values; }
    std::span<const T> Of(uint32_t number) const { return (*sets)[number]; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return std::ranges::equal(Of(a), Of(b));
    }
  };

  std::span<const T> Keep(std::span<const T> values) {
    if (values.size() > free_.size()) {
      const size_t count = std::max(kBlock, values.size());
      blocks_.push_back(std::make_unique<T[]>(count));
      free_ = std::span<T>(blocks_.back().get(), count);
      block_bytes_ += count * sizeof(T);
    }
    const std::span<T> kept = free_.first(values.size());
    std::ranges::copy(values, kept.begin());
    free_ = free_.subspan(values.size());
    return kept;
  }

  std::vector<std::span<const T>> sets_;
  std::vector<std::unique_ptr<T[]>> blocks_;
  std::span<T> free_;  // of the last block
  size_t block_bytes_ = 0;
  absl::flat_hash_set<uint32_t, Hash, Equal> index_;
};

}  // namespace tutti::grammar
