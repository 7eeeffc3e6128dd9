// Work that waits, and whose turn is next. Hosts take turns by the work that was done for each
// (fair queueing), not by arrival; and the connections of a host take turns at its turns. So
// neither much work nor many connections of one host hold up another host.
//
// Who comes stands where those that wait have got to on average, which moves on with all work that
// is done: so an endless row of newcomers goes ahead of nobody for long.
//
// Thread: one at a time (its owner's lock).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"

namespace tutti::door {

class FairQueue {
 public:
  struct Work {
    int64_t bytes = 0;  // of the request: how long it may take
    // Lets no exception out.
    std::function<void()> run;
  };

  FairQueue() = default;
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  // `path`: whose turn it takes, from the host to the connection. REQUIRES: as long as every other.
  void Push(absl::Span<const std::string_view> path, Work work);
  // How large work is: up to kSmallRequestBytes, up to kMediumRequestBytes, or larger.
  enum Size : uint8_t { kSmall, kMedium, kLarge };
  static Size SizeClassOf(int64_t bytes);

  // The next work that is no larger than so. Its run is empty when none waits. A connection's
  // smaller work goes before its larger.
  Work Pop(Size largest);
  // The number of works that wait.
  size_t size() const { return size_; }
  // The part of it that is of the member of that name (of the first part of a path).
  size_t SizeOf(std::string_view name) const;
  const FairQueue* Find(std::string_view name) const;

 private:
  // The order of their turns.
  struct EarlierTurn {
    bool operator()(const FairQueue* a, const FairQueue* b) const {
      return std::make_pair(a->begun_, &a->name_) < std::make_pair(b->begun_, &b->name_);
    }
  };
  using Turns = std::set<FairQueue*, EarlierTurn>;

  static constexpr size_t kSizes = kLarge + 1;
  // Whether there is work that is no larger than so.
  bool Has(Size largest) const;
  Work PopOwn(Size largest);
  FairQueue* FindOrAdd(std::string_view name);
  // Puts a member among those whose turn comes by what it has.
  void Enlist(FairQueue* member);
  void Forget();

  std::string name_;
  // The cost of all its work, and where it stood when it came.
  int64_t begun_ = 0;
  size_t size_ = 0;
  // The work of a connection, by its size.
  std::array<std::deque<Work>, kSizes> own_;
  // Members of the whole, and of a host: those with work that waits, and those that have had more
  // than their share of late.
  std::map<std::string, std::unique_ptr<FairQueue>, std::less<>> members_;
  std::array<Turns, kSizes> with_;  // those that have work no larger than so
  Turns without_;
  // The turn with which a member that comes begins: what each of those that wait has had on
  // average.
  int64_t turn_ = 0;
};

}  // namespace tutti::door
