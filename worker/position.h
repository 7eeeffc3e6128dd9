// The position of the executor: what it does and how far it has come, for the thread that watches
// it.
//
// The executor writes, a reader never makes it wait: numbers only, apart from the name of a worker
// that a step waits for.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::worker {

enum class Activity : uint8_t { kIdle, kFrames, kLoading, kLinks, kStep, kDraft, kRank, kRows };

// A name for people; "" for kIdle.
std::string_view ActivityName(Activity activity);

class Position {
 public:
  struct Doing {
    Activity activity = Activity::kIdle;
    // The time for which it may go without a move while the processors are its own; zero: without a
    // limit.
    Duration allowed{};
  };

  // ---- Thread: the executor's.

  // A piece of a step or of a shard is done, or has come.
  void Move() { moves_.store(moves() + 1, std::memory_order_relaxed); }
  // It goes on with the same, of which nothing shows yet: no progress, but not stuck either.
  void Turn() { turns_.store(turns() + 1, std::memory_order_relaxed); }
  // Goes over to other work, which is a turn. A reader that sees the new work sees the turn.
  void Begin(Activity activity, Duration allowed = {}) {
    Turn();
    Set({activity, allowed});
  }
  // Says what it does meanwhile, and then again what it did before; neither move nor turn.
  class Meanwhile {
   public:
    // `waiting_for`: the worker of another rank, or empty.
    Meanwhile(Position* position, Activity activity, const std::string& waiting_for);
    ~Meanwhile();
    Meanwhile(const Meanwhile&) = delete;
    Meanwhile& operator=(const Meanwhile&) = delete;

   private:
    Position* const position_;
    const Doing before_;
    const bool named_;
  };

  // ---- Thread: any.

  Doing doing() const;
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  std::string waiting_for() const;

 private:
  void Set(Doing doing);

  std::atomic<uint64_t> moves_{0};
  std::atomic<uint64_t> turns_{0};
  std::atomic<uint64_t> doing_{0};  // microseconds allowed << 8 | activity
  mutable Mutex mutex_;
  std::string waiting_for_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::worker
