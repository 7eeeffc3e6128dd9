// Integers that cannot be mistaken for each other.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace tutti {

// An integer of its own type: RequestId and StepId do not mix. Construct it and read it explicitly.
template <typename Tag, typename Int>
class StrongInt {
 public:
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Int value) : value_(value) {}
  constexpr Int value() const { return value_; }
  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  constexpr auto operator<=>(const StrongInt&) const = default;
  friend std::ostream& operator<<(std::ostream& out, StrongInt id) { return out << +id.value_; }

 private:
  Int value_ = 0;
};

// Made by the engine, never by a client.
using RequestId = StrongInt<struct RequestIdTag, uint64_t>;
// One stay of a sequence on the workers; never used twice.
using SequenceId = StrongInt<struct SequenceIdTag, uint64_t>;
// Counts the steps of one pipeline's epoch from 1.
using StepId = StrongInt<struct StepIdTag, uint64_t>;
// Counts the formings and ends of all pipelines.
using Epoch = StrongInt<struct EpochTag, uint64_t>;
using PipelineId = StrongInt<struct PipelineIdTag, uint32_t>;
// A KV block; the same on every stage and rank.
using BlockId = StrongInt<struct BlockIdTag, int32_t>;
using StageIndex = StrongInt<struct StageIndexTag, int32_t>;
using RankIndex = StrongInt<struct RankIndexTag, int32_t>;

// Token ids are plain: kernels index arrays with them.
using TokenId = int32_t;

}  // namespace tutti

template <typename Tag, typename Int>
struct std::hash<tutti::StrongInt<Tag, Int>> {
  size_t operator()(tutti::StrongInt<Tag, Int> id) const { return std::hash<Int>()(id.value()); }
};
