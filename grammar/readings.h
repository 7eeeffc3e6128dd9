// Readings in a text by a grammar, and sets of them: each set is held once and has a number.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
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

// Vectors that are equal have the same number.  Thread: one.
template <typename T>
class Interned {
 public:
  // REQUIRES: in ascending order, nothing twice
  uint32_t Add(std::vector<T> values) {
    const auto found = index_.find(values);
    if (found != index_.end()) return found->second;
    const auto number = static_cast<uint32_t>(all_.size());
    bytes_ += 2 * sizeof(T) * values.size() + 96;
    const auto added = index_.emplace(std::move(values), number).first;
    all_.push_back(&added->first);
    return number;
  }
  const std::vector<T>& operator[](uint32_t number) const { return *all_[number]; }
  size_t size() const { return all_.size(); }
  size_t bytes() const { return bytes_; }

  void Clear() {
    all_.clear();
    index_.clear();
    bytes_ = 0;
  }

 private:
  absl::node_hash_map<std::vector<T>, uint32_t> index_;
  std::vector<const std::vector<T>*> all_;
  size_t bytes_ = 0;
};

}  // namespace tutti::grammar
