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

using RequestId =
    StrongInt<struct RequestIdTag, uint64_t>;  // made by the engine, never by a client
using SequenceId =
    StrongInt<struct SequenceIdTag, uint64_t>;  // one output of a request; never used twice
using StepId =
    StrongInt<struct StepIdTag, uint64_t>;  // counts the steps of one pipeline epoch from 1
using Epoch = StrongInt<struct EpochTag, uint64_t>;  // membership version of a pipeline
using PipelineId = StrongInt<struct PipelineIdTag, uint32_t>;
using BlockId =
    StrongInt<struct BlockIdTag, int32_t>;  // a KV block; the same on every stage and rank
using StageIndex = StrongInt<struct StageIndexTag, int32_t>;
using RankIndex = StrongInt<struct RankIndexTag, int32_t>;

// Token ids are plain: kernels index arrays with them.
using TokenId = int32_t;

}  // namespace tutti

template <typename Tag, typename Int>
struct std::hash<tutti::StrongInt<Tag, Int>> {
  size_t operator()(tutti::StrongInt<Tag, Int> id) const { return std::hash<Int>()(id.value()); }
};
