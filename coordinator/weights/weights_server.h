// Answers what workers without the checkpoint ask on their weights links.
//
// The engine's thread only passes the questions on; a few threads read the disk and send. Each link
// has a few questions and a few answers on their way, so that neither a worker that asks for
// everything at once nor one that does not read holds more than that of our memory; links take
// turns, and what all of them get in a second is bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/events.h"
#include "coordinator/weights/rate_limit.h"
#include "coordinator/weights/weights_files.h"
#include "transport/link.h"

namespace tutti::coordinator {

class WeightsServer {
 public:
  // `bytes_per_second`: of chunks, to all workers together; 0: no limit.
  // REQUIRES: `clock` outlives this
  WeightsServer(const Clock* clock, int64_t bytes_per_second);
  // Waits for the answer in hand of each thread.
  ~WeightsServer();

  // From now on questions can be answered; before, links are closed with UNAVAILABLE.  Thread: any.
  void SetFiles(std::shared_ptr<const WeightsFiles> files);

  // Queues a question of a weights link. `joined`: its worker has joined, and may have weights. A
  // link whose question cannot be answered is closed with the reason.  Thread: any.
  void Ask(LinkKey key, const std::shared_ptr<transport::Link>& link, bool joined,
           v1::Frame question);
  // The link is closed.  Thread: any.
  void Forget(LinkKey key);

  // Bytes of chunks that were sent.  Thread: any.
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Peer {
    std::shared_ptr<transport::Link> link;
    std::deque<v1::Frame> questions;
    int64_t frames_before = 0;  // that the link had sent when its first question came
    int64_t answered = 0;
    bool in_hand = false;  // a thread answers it
    bool in_turn = false;  // it is in turns_
  };
  // Answers that a link has not sent yet, by link. Payloads give theirs back, perhaps when the
  // server is gone.
  struct Unsent;

  void Run();
  bool TakeTurn(LinkKey* key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveTurn(LinkKey key, Peer* peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: the server ends.
  bool WaitForRate(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Answer(LinkKey key, transport::Link* link, const WeightsFiles& files,
                      const v1::Frame& question);

  const Clock* const clock_;
  const std::shared_ptr<Unsent> unsent_;
  std::atomic<uint64_t> sent_bytes_{0};

  Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<const WeightsFiles> files_ ABSL_GUARDED_BY(mutex_);
  std::map<LinkKey, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::deque<LinkKey> turns_ ABSL_GUARDED_BY(mutex_);
  RateLimit rate_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::coordinator
