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
  // There is nothing to answer with, and that is why: what links are closed with from now on.
  // REQUIRES: !why.ok().  Thread: any.
  void SetNone(absl::Status why);
  // OK: questions are answered, or may be soon. Else the reason of SetNone.  Thread: any.
  absl::Status CheckOffered();

  // Whoever asks on this link takes beats: it is told when its questions wait for long. Others, of
  // older builds, would take them for answers.  Thread: any.
  void TakesBeats(LinkKey key);
  // Queues a question of a weights link. `joined`: its worker has joined, and may have weights. A
  // link whose question cannot be answered is closed with the reason.  Thread: any.
  void Ask(LinkKey key, const std::shared_ptr<transport::Link>& link, bool joined,
           v1::Frame question);
  // The link is closed.  Thread: any.
  void Forget(LinkKey key);

  // Bytes of chunks that were sent.  Thread: any.
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Question {
    v1::Frame frame;
    bool joined = false;  // whoever asks
  };
  struct Peer {
    std::shared_ptr<transport::Link> link;
    std::deque<Question> questions;
    int64_t frames_before = 0;  // that the link had sent when its first question came
    int64_t answered = 0;
    bool takes_beats = false;
    bool in_hand = false;  // a thread answers it
    bool in_turn = false;  // it is in turns_
    bool waits = false;    // what is in hand waits for the rate
    Instant told_at{};     // when it last began to wait, or was sent something
  };
  // Answers that a link has not sent yet, by link. Payloads give theirs back, perhaps when the
  // server is gone.
  struct Unsent;

  void Run();
  bool TakeTurn(LinkKey* key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveTurn(LinkKey key, Peer* peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: the server ends.
  bool WaitForRate(LinkKey key, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells links whose questions wait that they are not lost.
  void TellPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers that the link has been given and has not sent yet.
  static int64_t Waiting(const Peer& peer) {
    return peer.answered - (peer.link->stats().frames_out - peer.frames_before);
  }
  absl::Status Answer(LinkKey key, transport::Link* link, const WeightsFiles& files,
                      const Question& question);

  const Clock* const clock_;
  const std::shared_ptr<Unsent> unsent_;
  std::atomic<uint64_t> sent_bytes_{0};

  Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<const WeightsFiles> files_ ABSL_GUARDED_BY(mutex_);
  absl::Status none_ ABSL_GUARDED_BY(mutex_);  // why there are no files
  Instant next_tell_ ABSL_GUARDED_BY(mutex_){};
  std::map<LinkKey, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::deque<LinkKey> turns_ ABSL_GUARDED_BY(mutex_);
  RateLimit rate_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::coordinator
