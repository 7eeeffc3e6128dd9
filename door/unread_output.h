// The output of a stream that its client has not read yet, as counted against the client's bytes.
//
// Thread: one at a time (its owner's lock).
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "door/byte_budget.h"

namespace tutti::door {

class UnreadOutput {
 public:
  // `budget` outlives this.
  UnreadOutput(ByteBudget* budget, std::string client)
      : budget_(budget), client_(std::move(client)) {}

  // So many bytes lie there, of which the first kUnreadUncountedBytes are free. False: the client
  // may not have so many now.
  bool CountPieces(int64_t bytes);
  // So many bytes lie there, and all of them count.
  bool Cover(int64_t bytes);
  // Whole answers, of so many bytes, that were not read in time: all of it counts.
  bool BeginWhole(int64_t bytes);
  // There is more behind them. True also where nothing was begun.
  bool CountWhole(int64_t bytes);
  // All is read.
  void Clear();

 private:
  ByteBudget* budget_;
  std::string client_;
  ByteBudget::Charge charge_;
};

// RESOURCE_EXHAUSTED for a client that left so many bytes unread; `most`: of each output.
absl::Status TooMuchUnread(int64_t bytes, int64_t most);

}  // namespace tutti::door
