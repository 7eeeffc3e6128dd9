// Decides what each step of a pipeline computes: which sequences run, which wait, which get KV
// blocks.
//
// A step is a budget of rows handed out to sequences that are behind: first to those one token
// behind, so that no stream stalls behind another sequence's prompt, then to prompts, first come
// first served: the earliest has all that it wants before the next has any, by classes; then to
// newcomers, in the order of place_shares.h. A newcomer of a class before that of the prompts that
// run comes first. Where the first prompt would take all rows, one of kRowsPerPromptRow goes to
// another if it is so many times shorter (scheduler_prompts.cc).
//
// While anybody generates a step has as many rows of prompts as it has time for, by
// --itl-target and the times that steps take (step_time_bound.h).
//
// Where those one token behind are so many that they would take all rows, one of kRowsPerPromptRow
// is kept for prompts, so that newcomers do not starve; as large a part of a step's time is theirs,
// however long it takes without them, and kPromptRowsMin rows. Beside others the sequences of an
// owner, and the outputs of a request, take turns where all of them would make steps longer by more
// than half: every owner has a row first, then every request (row_turns.h, docs/decisions/0090).
//
// A newcomer that lacks a place or blocks takes those of owners and requests that run more than
// its own (place_shares.h): the sequences that give way go back to waiting with nothing computed,
// but with their tokens. When a running sequence needs a block and none is left, the first of the
// same order gives way; the earliest always gets on.
//
// A plan is bounded in bytes as well: a newcomer for which this step's plan has no room left comes
// in with the next (plan_size.h).
//
// The engine decides which sequences come here at all (admission_queue.h, router.h): as a rule only
// those there is room for.
//
// A newcomer shares the blocks of its longest cached prefix. While a running sequence computes more
// of its tokens than are cached, it is held back, and others may go first: the blocks it will find
// are there before it could have computed them, in one memory instead of two. The pipeline is not
// idle meanwhile, because the tokens waited for are under way or get rows in every step.
//
// Where stages of a pipeline have kept their K/V over the loss of another, a newcomer may find a
// prefix that some stages lack: steps of those stages alone come first (rebuilds.h).
//
// When all that has been decided, rows may be left for guesses of the sequences that are one token
// behind: as many as cost nearly nothing (scheduler_guesses.cc). A sequence with guesses is not
// planned again before it is known which were right, as any other waits for its next token; blocks
// are published for tokens that were drawn only (docs/decisions/0084). And a draft model may go on
// behind a step, for guesses of the next (scheduler_drafts.cc).
//
// Steps run in the order of their plans on every stage. So a freed block may be handed out again in
// the very next plan: every step that used it before was planned before.
//
// Its functions are in seven files, because its state is one and its questions are seven: whom a
// newcomer finds a place beside (scheduler_places.cc), which prompts have rows
// (scheduler_prompts.cc), which of those who generate have (scheduler_turns.cc), what is guessed
// (scheduler_guesses.cc) and drafted (scheduler_drafts.cc), what a result changes
// (scheduler_commit.cc), and all the rest.
//
// Thread: the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/kv/kv_cache.h"
#include "coordinator/sequence.h"
#include "coordinator/steps/backlog.h"
#include "coordinator/steps/guess_sources.h"
#include "coordinator/steps/late_rows.h"
#include "coordinator/steps/place_shares.h"
#include "coordinator/steps/plan_size.h"
#include "coordinator/steps/rebuilds.h"
#include "coordinator/steps/row_turns.h"
#include "coordinator/steps/step_time_bound.h"
#include "coordinator/steps/step_times.h"
#include "coordinator/steps/step_window.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

struct SchedulerOptions {
  int32_t block_size = 16;
  int32_t max_batch_tokens = 512;
  int32_t chunk_tokens = 0;  // of a prompt in a step; 0: all rows of it (ChunkTokens)
  Duration itl_target{};     // steps that somebody waits for take so long at most; zero: any time
  int32_t max_sequences = 256;
  int64_t plan_bytes_max = kPlanBytesMax;
  int32_t token_bytes = kVarint32BytesMax;  // of a token id on the wire
  int32_t guesses_max = 0;                  // of a request that does not say; 0: none
  bool draft = false;                       // the last stage has a draft model
  int32_t drafts_max = 0;                   // that it is asked for, as guesses_max
  // By how much guesses may lengthen a step for others; more in tests only.
  double guesses_stretch = kGuessesStretch;
  // The blocks that are published when the pipeline ends are laid by, for an epoch whose stages go
  // on with it.
  bool partial_recompute = false;
};

// Rows below which a prompt is not divided for the sake of several stages: on processors a step of
// so many waits for the multiplier, no more for the weights.
inline constexpr int32_t kEvenChunkTokensMin = 128;
class Scheduler {
 public:
  // `directory` outlives the scheduler; null: no prefix is ever reused.
  explicit Scheduler(const SchedulerOptions& options, KvDirectory* directory = nullptr,
                     PipelineId pipeline = PipelineId());

  // The times of its steps, where they are known; until then and for null nothing is bounded by
  // time. REQUIRES: they outlive the scheduler
  void TimeBy(const StepTimes* times) { time_.TimeBy(times); }
  // Guesses of this origin come from there; null: there are none.  REQUIRES: the source outlives
  // the scheduler
  void GuessBy(GuessSource* source, GuessOrigin origin = GuessOrigin::kText) {
    guess_sources_.Use(origin, source);
  }
  // A pipeline is ready to serve, with these many blocks on each stage. `survival`: what its
  // workers have kept of the epoch before; null: nothing.  REQUIRES: no epoch is open
  void BeginEpoch(int32_t num_stages, int32_t num_blocks, const KvSurvival* survival = nullptr);
  // The pipeline is gone: no step is under way, nothing is computed, everything that ran waits.
  void EndEpoch();
  // A block that is not needed to go on with the K/V of the last epoch in one of so many blocks;
  // none: nothing could go on.  REQUIRES: no epoch is open
  std::optional<BlockId> FreeOfLastEpoch(int32_t num_blocks);

  // Tokens of K/V that the pool holds; a sequence that needs more alone can never run here.
  int64_t kv_slots() const { return int64_t{blocks_total()} * options_.block_size; }
  // Whether a sequence that came now would be admitted before another has to end: those that wait
  // here and go before it have room too, or none does and others give way to it. `cached_tokens`:
  // how many of its tokens but the last are cached here, says the directory.
  // REQUIRES: an epoch is open
  bool HasRoom(const Sequence& sequence, int64_t cached_tokens) const;
  // Whether it could have with all of its prompt cached. Takes no time.  REQUIRES: an epoch is open
  bool MayHaveRoom(const Sequence& sequence) const;
  // How many of so many equal outputs of the sequence's request have room in that
  // sense.  REQUIRES: an epoch is open
  int64_t OutputsWithRoom(const Sequence& sequence, int64_t cached_tokens, int64_t outputs) const;
  // Another number after every change that HasRoom may see: while it is the same, nothing that
  // waited for room has got any.
  uint64_t room_version() const { return cache_.version() + backlog_.version(); }
  // Whether a plan can tell of a sequence with so many tokens.  Thread: any
  bool FitsPlan(int64_t tokens, const v1::SequenceSampling& sampling) const {
    return NewSequenceBytes(plan_size_, tokens, sampling) <= PlanBytesForNew(plan_size_);
  }
  // REQUIRES: kv_slots_max() of the sequence <= kv_slots(), and FitsPlan of so many tokens. The
  // sequence must stay until Remove or PopWaiting.
  void Enqueue(Sequence* sequence);
  // The sequence leaves, waiting or running. Its blocks are free at once; its results still under
  // way are dropped.
  void Remove(Sequence* sequence);

  // A sequence that is computed alone, to find out whether it brings workers down; null: none is.
  // Nothing else is computed beside it, one step is under way at a time, and its rows are divided
  // as Suspicion::RowsInTrial says.
  void SetAlone(const Sequence* sequence) { alone_ = sequence; }
  const Sequence* alone() const { return alone_; }

  // Sequences by preemption_key().
  std::vector<Sequence*> Running() const;
  // Null: no such sequence is running.
  Sequence* FindRunning(SequenceId id) const;
  // All waiting sequences leave; they are returned by admission_key().
  std::vector<Sequence*> PopWaiting();

  // Writes the next step, or returns false: nothing to do, or enough steps under way.  REQUIRES: an
  // epoch is open
  bool Plan(Instant now, v1::StepPlan* plan);
  // Whether Plan could write a step now.  REQUIRES: an epoch is open
  bool CanPlan();

  // One token sampled for a sequence that still runs.
  struct Sampled {
    Sequence* sequence = nullptr;
    v1::SampledToken* token = nullptr;  // in the result; null: none could be
    int32_t index = 0;                  // of the token in the output
  };
  // Commits the result of the oldest step under way (empty: a rebuild's): computed tokens advance,
  // sampled tokens join their sequences, which are ready for the next step. Those whose tokens
  // could not be drawn yet are a row behind again. Appends to *sampled in the order of the step, of
  // a sequence with guesses all its tokens.
  // REQUIRES: steps().Check(result) is OK
  void Commit(v1::StepResult* result, std::vector<Sampled>* sampled);

  // The steps under way.
  const StepWindow& steps() const { return steps_; }
  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(backlog_.waiting().size()); }
  int32_t block_size() const { return options_.block_size; }
  int32_t blocks_total() const { return cache_.blocks_total(); }
  int32_t blocks_in_use() const { return cache_.blocks_in_use(); }
  const KvCache& cache() const { return cache_; }
  uint64_t preemptions() const { return preemptions_; }
  // Steps in which prompts wanted more rows than there was time for.
  uint64_t bounded_steps() const { return bounded_steps_; }
  struct Guessed {
    uint64_t times = 0;                         // that guesses of a sequence were verified
    uint64_t tokens = 0;                        // guessed, verified or not
    std::array<uint64_t, kGuessesMax> right{};  // by their place among the guesses
    struct Source {
      uint64_t tokens = 0;
      uint64_t right = 0;
    };
    std::array<Source, kGuessOriginCount> sources{};  // the same tokens, by origin
  };
  const Guessed& guessed() const { return guessed_; }
  // Tokens whose K/V some stages have computed anew.
  uint64_t rebuilt_tokens() const { return rebuilds_.tokens(); }
  // Sequences that wait, or are far behind.
  const Backlog& backlog() const { return backlog_; }
  // The requests that wait for a place only, although another of their class runs so many that it
  // should have given way, and no prompt uses up the rows. Walks over everything, for tests.
  std::vector<RequestId> Outranked();

  // CHECKs by count that every block is free, cached or in use.
  void CheckLedger() const {
    cache_.CheckLedger();
    PARANOID_CHECK(backlog_.SumsAreRight());
  }

 private:
  // The decisions of one call of Plan so far.
  struct Row {
    Sequence* sequence = nullptr;
    int32_t count = 0;
    int32_t guesses = 0;  // rows behind those
    size_t first_guess = 0;
    GuessOrigin origin = GuessOrigin::kText;  // of the guesses
    bool repeats = false;                     // see GuessPace::Expected
    // Tokens that the draft model is asked for behind the step; 0: it reads the rows and no more.
    std::optional<int32_t> drafts;
  };
  struct Scratch {
    std::vector<Row> rows;
    std::vector<TokenId> guesses;  // of all rows
    std::vector<Sequence*> early;  // prompts that have had their rows before their turn
    int32_t budget = 0;            // rows still to hand out
    int32_t chunk = 0;             // of a prompt at most
    int64_t new_bytes = 0;         // of the plan, for newcomers
    int64_t new_fields = 0;        // the same
    bool preempted = false;        // a sequence went back for want of blocks: none may come in
    bool out_of_time = false;      // a prompt has fewer rows than it could for time_
    bool out_of_plan = false;      // a newcomer waits for the next step's plan
    bool another_owner = false;    // comes in, most likely
    int32_t its_class = 0;
  };

  bool PlanRebuild(v1::StepPlan* plan);
  void Decide();
  void ContinueRunning();
  void ContinueLate(int32_t rows_max);
  void ContinuePrompts();
  void GiveShortFirst();
  void AdmitWaiting(std::optional<int32_t> before_class = std::nullopt);
  bool PutIntoPlan(const Sequence& sequence);
  void GiveRows(Sequence* sequence, int32_t rows_max);
  void SchedulePrompt(Sequence* sequence, int32_t count);
  int32_t ChunkTokens() const;
  void BeginTiming();
  GuessSources::Most GuessesWanted(const Row& row) const;
  void Guess();
  bool MayGuess() const;
  void CutGuesses(Row* row);
  double LongestGuessed(double seconds, bool all) const;
  int32_t GuessesInTime() const;
  void KeepGuesses(int32_t most, Row* row);
  bool MayDraft() const;
  int32_t DraftsAllowed(const Sequence& sequence) const;
  int32_t DraftsWanted(const Row& row) const;
  int32_t DraftRowsToRead(const Row& row) const;
  bool MayCatchUp(const Row& row, bool all_may, int32_t read) const;
  bool KeepsUp(const Row& row, bool all_may) const;
  void AskForDrafts();
  int32_t DraftsInTime() const;
  double VerifiedIn(int32_t drafts) const;
  double DraftedTokens(int32_t drafts) const;
  void KeepDrafts(int32_t most, Row* row);
  void WritePlan(Instant now, v1::StepPlan* plan);
  StepUnderWay* BeginPlan(v1::StepPlan* plan);
  void WriteRow(const Row& row, Instant now, v1::StepPlan* plan);
  bool IsIdle() const { return steps_.size() == 0; }

  void PublishRejected(const StepEntry& entry, Sequence* sequence);
  void CommitTokens(const StepEntry& entry, std::span<v1::SampledToken* const> tokens, bool late,
                    Sequence* sequence, std::vector<Sampled>* sampled);
  void TakeDrafts(v1::StepResult* result, std::vector<Sampled>* sampled);
  void BelieveDrafts(const v1::DraftedTokens& drafted, Sequence* sequence, v1::StepResult* result,
                     std::vector<Sampled>* sampled);
  void CountGuesses(const StepEntry& entry, int32_t right, Sequence* sequence);
  void PutOff(const StepEntry& entry, Sequence* sequence);

  void Wait(Sequence* sequence);
  bool Unwait(Sequence* sequence);

  std::optional<int64_t> BlocksLeft(const Request& request) const;
  bool MayTakeAPlace(const Request& request) const;
  // The most blocks that it can share: at least its last token is computed.
  int64_t SharedMax(const Sequence& sequence) const {
    return cache_.reuses() ? (int64_t{sequence.total()} - 1) / options_.block_size : 0;
  }

  int32_t RowsMax(const Sequence& sequence) const;
  bool WantsAnotherStep();
  int32_t Generating() const;
  int32_t EvenShare() const;
  bool AnotherOwnerComes();
  std::optional<int32_t> ModestRows() const;
  int32_t Share() const;
  void PutLateInLine(std::optional<int32_t> due = std::nullopt);
  int32_t RowsForPrompts();
  bool is_full() const {
    return scratch_.budget == 0 || scratch_.out_of_time ||
           static_cast<int32_t>(scratch_.rows.size()) == kStepSequencesMax;
  }

  struct Newcomer {
    Sequence* sequence = nullptr;
    KvCache::Room room;
    std::vector<Sequence*> giving_way;  // to it
  };
  std::optional<Newcomer> FindNewcomer();
  std::optional<std::vector<Sequence*>> FindGivingWay(const Sequence& sequence,
                                                      const KvCache::Room& room) const;
  bool IsHeldBack(Sequence* sequence, const KvCache::Room& room);
  void Admit(Newcomer newcomer, int32_t rows_max);
  void Schedule(Sequence* sequence, int32_t count);
  bool GrowBlocks(Sequence* sequence);
  void Preempt(Sequence* sequence);
  void Leave(Sequence* sequence);
  void Queue(Sequence* sequence);
  void Unqueue(Sequence* sequence);

  const SchedulerOptions options_;
  const PlanSizeOptions plan_size_;
  int32_t num_stages_ = 0;
  bool open_ = false;  // an epoch is
  const Sequence* alone_ = nullptr;
  KvCache cache_;
  Rebuilds rebuilds_;
  StepTimeBound time_;  // of the step that is decided
  StepWindow steps_;
  Backlog backlog_;
  PlaceShares shares_;  // of those that wait and those that run
  std::map<Backlog::PreemptionKey, Sequence*> running_;
  absl::flat_hash_map<SequenceId, Sequence*> running_by_id_;
  // The running sequences that a step can bring forward are here or, far behind, in backlog_, or in
  // late_; those with all tokens under way are in none.
  RowTurns one_behind_;
  LateRows late_;
  // The running sequences with full blocks that are not published yet, in the order of admission.
  std::map<SequenceId, Sequence*> filling_;
  std::vector<SequenceId> finished_;  // left, and the workers do not know yet
  uint64_t last_sequence_id_ = 0;
  uint64_t last_place_ = 0;
  uint64_t preemptions_ = 0;
  uint64_t bounded_steps_ = 0;
  GuessSources guess_sources_;
  const int32_t guesses_in_plan_;
  Guessed guessed_;
  // Rows kept for prompts that have not become whole rows yet, in parts of kRowsPerPromptRow.
  int32_t prompt_credit_ = 0;
  Scratch scratch_;
  std::vector<Sequence*> committed_;  // of Commit, kept for its memory; null: left meanwhile
  std::optional<Instant> others_at_;  // when several owners had sequences here, last
  bool others_lately_ = false;        // that was less than kOthersLately ago
  std::vector<Sequence*> came_back_;  // of late_, kept for its memory
};

}  // namespace tutti::coordinator
