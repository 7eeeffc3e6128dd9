// The figures of a worker's steps, counted where they are reported and read by another thread.
//
// What each stage and rank does in its pipeline the coordinator tells; this is the worker's own
// view, over all epochs since it started.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "metrics/exposition.h"
#include "metrics/histogram.h"
#include "proto/peer_messages.h"
#include "worker/position.h"

namespace tutti::worker {

class WorkerMetrics {
 public:
  // Traffic of links, one direction of one kind.
  struct Traffic {
    metrics::Counter bytes, frames;
    // The counts of the epoch under way: reports count from its beginning.
    std::atomic<int64_t> seen_bytes{0}, seen_frames{0};
  };

  // ---- Thread: the executor's.

  // The counts of frames on their way to the coordinator; those that are no report change nothing.
  void OnFrame(const v1::Frame& frame);
  // A shard is loaded, to be computed in this class; "": in the worker's best.
  void ComputesIn(const std::string& numerics_class);

  // ---- Thread: any.

  void Write(const Position& position, metrics::Exposition* to) const;
  // The worker's name, with the class that it computes in: its best until a shard is loaded.
  void WriteInfo(const v1::Hello& hello, metrics::Exposition* to) const;

 private:
  void Count(const v1::LinkCounters& now, bool new_epoch, Traffic* traffic);

  uint64_t epoch_ = 0;  // the executor's
  metrics::Counter steps_, failures_, epochs_;
  metrics::Counter compute_us_, wait_us_, exchange_wait_us_, draft_us_;
  Traffic activation_in_, activation_out_, exchange_in_, exchange_out_;
  mutable Mutex mutex_;
  std::string numerics_class_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::worker
