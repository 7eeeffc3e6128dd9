#include "coordinator/pipeline/replica.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti::coordinator {
namespace {

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options) {
  return {.block_size = options.block_size,
          .max_batch_tokens = options.max_batch_tokens,
          .chunk_tokens = options.chunk_tokens,
          .itl_target = options.itl_target,
          .max_sequences = options.max_sequences,
          .plan_bytes_max = options.plan_bytes_max,
          .token_bytes = TokenBytes(options.model.vocab_size),
          .guesses_max = options.guesses_max,
          .draft = options.draft != nullptr,
          .drafts_max = options.drafts_max,
          .guesses_stretch = options.guesses_stretch,
          .partial_recompute = options.partial_recompute};
}

void FillGuessStatus(const Scheduler::Guessed& guessed, v1::PipelineStatus* status) {
  status->set_guess_verifications(guessed.times);
  status->set_guessed_tokens(guessed.tokens);
  status->mutable_guesses_right()->Add(guessed.right.begin(), guessed.right.end());
  for (const GuessOrigin origin : kGuessOrigins) {
    const Scheduler::Guessed::Source& from = guessed.sources[IndexOf(origin)];
    v1::GuessSourceStatus* const source = status->add_guess_sources();
    source->set_source(std::string(GuessOriginName(origin)));
    source->set_guessed_tokens(from.tokens);
    source->set_right_tokens(from.right);
  }
}

void FillCacheStatus(const KvCache& cache, v1::PipelineStatus* status) {
  status->set_blocks_in_use(cache.blocks_in_use());
  status->set_blocks_cached(cache.blocks_cached());
  status->set_prefix_lookup_tokens(cache.counters().lookup_tokens);
  status->set_prefix_hit_tokens(cache.counters().hit_tokens);
  status->set_evictions(cache.counters().evictions);
}

}  // namespace

Replica::Replica(PipelineId id, const EngineOptions* options, Membership* membership,
                 Epoch* last_epoch, const ShardCheck* check, KvDirectory* directory,
                 FinishedAnswers* answers)
    : pipeline(id, options, membership, last_epoch, check),
      scheduler(SchedulerOptionsOf(*options), options->enable_prefix_caching ? directory : nullptr,
                id),
      rate(std::min(options->chunk_tokens > 0 ? options->chunk_tokens : kEvenChunkTokensMin,
                    options->max_batch_tokens)) {
  scheduler.TimeBy(&pipeline.times());
  scheduler.GuessBy(options->guess_source != nullptr ? options->guess_source : &lookup);
  scheduler.GuessBy(answers, GuessOrigin::kAnswers);
}

void Replica::FillStatus(Instant now, v1::PipelineStatus* status) const {
  pipeline.FillStatus(now, status);
  FillCacheStatus(scheduler.cache(), status);
  FillGuessStatus(scheduler.guessed(), status);
  status->set_running(scheduler.running());
  status->set_waiting(scheduler.waiting());
  status->set_steps_in_flight(static_cast<int32_t>(scheduler.steps().size()));
  status->set_backlog_tokens(scheduler.backlog().tokens());
  status->set_preemptions(scheduler.preemptions());
  status->set_rebuilt_tokens(scheduler.rebuilt_tokens());
  status->set_prompt_tokens_per_second(rate.rows_per_second());
  status->set_bounded_steps(scheduler.bounded_steps());
  for (const StepTimes::Seen& seen : pipeline.times().seen()) {
    (*status->mutable_step_seconds())[seen.rows] = seen.seconds;
  }
}

}  // namespace tutti::coordinator
