// Answers by grammars: where each has come, and the masks of their next tokens, made on a thread of
// their own while the executor computes the step.
//
// A mask is a function of the grammar and the output's ids so far, which are fed to it again after
// a preemption, on another worker and when a client goes on with its answer; nothing else is kept.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "metrics/exposition.h"
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

  // Asks for the mask of the token behind `output`, which goes on with that of the last call.
  void Ask(std::span<const TokenId> output);
  // Waits for it: bit i % 32 of word i / 32 says whether id i may come; valid until the next Ask.
  // Where the output is none of the grammar, or nothing may come behind it: the reason, with the
  // position.  REQUIRES: it was asked for
  absl::StatusOr<std::span<const uint32_t>> Take(const Progress& progress);

  // The answer ends here, because no token can be drawn.
  void End(absl::Status why) { end_ = std::move(why); }
  // OK: it goes on.
  const absl::Status& end() const { return end_; }

 private:
  GrammarPool* const pool_;
  const std::shared_ptr<MaskedAnswer> answer_;
  size_t asked_ = 0;  // tokens of the output
  absl::Status end_;
};

class GrammarPool {
 public:
  // kInline: masks are made where they are asked for, for the simulator.
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

  // Masks go before grammars that are needed later.
  void Post(bool urgent, Job job);
  void Run();
  void CountMove();
  void Ask(const std::shared_ptr<MaskedAnswer>& answer, std::span<const TokenId> more);
  void Wait(const MaskedAnswer& answer, const GrammarAnswer::Progress& progress);

  const Runs runs_;
  const std::unique_ptr<MaskMaker> maker_;  // the thread's; inline the executor's
  v1::Vocabulary vocabulary_;               // the last one
  int32_t vocab_size_ = 0;
  std::thread thread_;  // begun with the first vocabulary
  Mutex mutex_;
  ConditionVariable posted_, done_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t moves_ ABSL_GUARDED_BY(mutex_) = 0;  // jobs done, and parts of long ones
  std::deque<Job> urgent_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> others_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::worker
