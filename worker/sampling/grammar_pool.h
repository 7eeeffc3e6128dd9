// Answers by grammars: where each has come, and the masks of their next tokens, made on threads of
// their own while the executor computes the step.
//
// A mask is a function of the grammar and the output's ids so far, which are fed to it again after
// a preemption, on another worker and when a client goes on with its answer; nothing else is kept.
//
// There are two makers. The quick one has all answers, and little time for each: a grammar that it
// cannot make soon, or an answer whose masks take long, becomes the patient one's, which runs where
// the machine has time to spare (docs/decisions/0085). So nobody waits for another's grammar; who
// is late is drawn in a later step (grammar_mask.h).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "metrics/exposition.h"
#include "metrics/histogram.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

class GrammarPool;
class MaskMaker;      // mask_maker.h
struct MaskedAnswer;  // mask_maker.h

// One sequence's answer. It ends with the sequence.  Thread: the executor's.
class GrammarAnswer {
 public:
  // Told while a mask is waited for and others are made.
  using Progress = std::function<void()>;

  // REQUIRES: the pool outlives it
  GrammarAnswer(GrammarPool* pool, std::shared_ptr<MaskedAnswer> answer);
  ~GrammarAnswer();
  GrammarAnswer(const GrammarAnswer&) = delete;
  GrammarAnswer& operator=(const GrammarAnswer&) = delete;

  // Asks for the mask of the token behind `output`, which goes on with that of the last call; the
  // same again changes nothing.
  void Ask(std::span<const TokenId> output);
  // Whether it is there, or the reason that there is none.  REQUIRES: it was asked for
  bool IsReady() const;
  // Waits for it until then, and says whether it is there.
  bool WaitUntil(Instant until, const Progress& progress) const;
  // Waits for it: bit i % 32 of word i / 32 says whether id i may come; valid until the next Ask.
  // Where the output is none of the grammar, or nothing may come behind it: the reason, with the
  // position. INTERNAL: its maker is stuck.  REQUIRES: it was asked for
  absl::StatusOr<std::span<const uint32_t>> Take(const Progress& progress = nullptr);

  // It was not there when a token was to be drawn.
  void CountLate();

  // The answer ends here, because no token can be drawn.
  void End(absl::Status why) { end_ = std::move(why); }
  // OK: it goes on.
  const absl::Status& end() const { return end_; }

 private:
  GrammarPool* const pool_;
  const std::shared_ptr<MaskedAnswer> answer_;
  std::optional<size_t> asked_;  // tokens of the output
  absl::Status end_;
};

class GrammarPool {
 public:
  // kInline: masks are made where they are asked for, with all the time they take, for the
  // simulator.
  enum class Runs { kOnThread, kInline };

  explicit GrammarPool(Runs runs);
  ~GrammarPool();  // REQUIRES: no answer is left

  // ---- Thread: the executor's.

  // The texts of the model's tokens, before the first answer of an epoch. INVALID_ARGUMENT for what
  // cannot be those of a model with so many ids.
  absl::Status SetVocabulary(v1::Vocabulary vocabulary, int32_t vocab_size);
  // Begins an answer. Its grammar is made meanwhile; where it cannot be, Take says so.
  std::shared_ptr<GrammarAnswer> Begin(v1::SequenceGrammar grammar,
                                       const v1::SequenceSampling& sampling);

  // ---- Thread: any.

  void Write(metrics::Exposition* to) const;

 private:
  friend class GrammarAnswer;
  using Job = std::function<void()>;
  using Answer = std::shared_ptr<MaskedAnswer>;

  // A maker, its thread and what it is to do.
  struct Lane {
    Lane(std::string_view name, std::unique_ptr<MaskMaker> maker);
    ~Lane();

    const std::string_view name;
    const std::unique_ptr<MaskMaker> maker;  // the thread's; inline the executor's
    std::thread thread;                      // begun with the first vocabulary
    // Guarded by the pool's mutex:
    ConditionVariable posted;
    // Masks of answers whose masks take little time go before those of others, and those before
    // grammars that are needed later.
    std::array<std::deque<Job>, 3> jobs;
    uint64_t moves = 0;  // jobs done, and parts of long ones
    bool is_busy = false;
    Instant moved_at;
  };

  Lane* LaneOf(const MaskedAnswer& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  enum class Order : uint8_t { kFirst, kMasks, kLater };
  void Post(Lane* lane, Order order, Job job);
  void Run(Lane* lane);
  void CountMove(Lane* lane);
  bool IsStuck(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- Thread: a maker's.

  void BeginOn(Lane* lane, const Answer& answer);
  void MakeOn(Lane* lane, const Answer& answer, std::span<const TokenId> more);
  void ForgetOn(Lane* lane, const Answer& answer);
  void HandOver(const Answer& answer);

  // ---- Thread: the executor's.

  void Ask(const Answer& answer, std::span<const TokenId> more);
  void Forget(const Answer& answer);
  // Whether the answer's mask is made. INTERNAL: its maker is stuck.
  absl::StatusOr<bool> Wait(const Answer& answer, Instant until,
                            const GrammarAnswer::Progress& progress);

  const Runs runs_;
  Lane quick_, patient_;
  v1::Vocabulary vocabulary_;  // the last one
  int32_t vocab_size_ = 0;
  metrics::Counter late_, handed_over_;
  mutable Mutex mutex_;
  ConditionVariable done_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::worker
