// Computes the digests of a whole checkpoint on threads of its own, at low priority, from a cache
// where that still holds.
//
// A file that cannot be read is tried again after a while; until then nobody knows the digests.
//
// Thread: constructor and destructor from one thread; the callbacks come from a thread of the run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "model/checkpoint.h"
#include "model/checkpoint_digests.h"
#include "model/digest_cache.h"
#include "model/limits.h"

namespace tutti::model {

struct DigestOptions {
  int threads = 0;  // 0: a quarter of the processors, at most kDigestThreadsMax
  std::vector<std::string> cache_paths;  // as DigestCachePaths; empty: none is used
  int64_t cached_bytes_min = kCachedCheckpointBytesMin;
  int64_t settled_ns = kSettledFileNanoseconds;
  std::chrono::milliseconds retry_after = std::chrono::seconds(5);
};

struct DigestCallbacks {
  std::function<void(int percent)> on_progress;
  // Names the file. The run goes on trying.
  std::function<void(const absl::Status& why)> on_failure;
  // `hashed_bytes`: the others were in the cache. Last.
  std::function<void(std::shared_ptr<const CheckpointDigests> digests, int64_t hashed_bytes,
                     double seconds)>
      on_known;
};

class DigestRun {
 public:
  DigestRun(std::shared_ptr<const Checkpoint> checkpoint, DigestOptions options,
            DigestCallbacks callbacks);
  // Ends early if it has to.
  ~DigestRun();

 private:
  struct Piece {
    int32_t file = 0;
    int64_t first_chunk = 0;
    int64_t chunks = 0;
  };

  void Run();
  absl::Status TryOnce();
  void TakeFromCache();
  absl::Status HashFiles(std::vector<Piece> pieces);
  absl::Status HashPiece(const Piece& piece, std::vector<std::byte>* bytes);
  void TellProgress();
  void Save();
  // False: the run is to end.
  bool Pause();

  const std::shared_ptr<const Checkpoint> checkpoint_;
  const DigestOptions options_;
  const DigestCallbacks callbacks_;
  int64_t total_bytes_ = 0;
  std::vector<std::string> digests_;  // by file; "": not known
  std::vector<FileIdentity> hashed_;  // as it was when its hashing began; by file
  std::vector<bool> settled_;         // by file
  bool save_ = false;                 // something is known that the cache does not have
  std::atomic<int64_t> done_bytes_{0};
  std::atomic<int> told_percent_{-1};
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  ConditionVariable stopped_;
  std::thread thread_;
};

}  // namespace tutti::model
