#include "tests/support/sim_options.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/limits.h"
#include "tests/support/sim_grammars.h"
#include "tests/support/tiny_model.h"

namespace tutti::tests {
namespace {

// Enough for several pipelines, stages and ranks to affect each other; more would only take longer.
constexpr int32_t kWorkersMax = 12;

Duration Microseconds(int64_t us) { return std::chrono::microseconds(us); }

// 1, 2 or 4 ranks for each stage.
std::vector<int32_t> DrawRanks(const SimOptions& options, Random* random) {
  std::vector<int32_t> ranks;
  for (int32_t stage = 0; stage < options.num_stages; ++stage) {
    ranks.push_back(1 << random->Between(0, 2));
  }
  const int32_t most = std::max(options.num_stages, kWorkersMax / options.num_pipelines);
  while (std::accumulate(ranks.begin(), ranks.end(), 0) > most) {
    *std::max_element(ranks.begin(), ranks.end()) /= 2;
  }
  return ranks;
}

// No rows, those of some blocks, those of all.
void DrawKeptRows(SimOptions* options) {
  Random random(options->seed, /*stream=*/5);
  options->partial_recompute = random.Chance(0.9);
  if (!random.Chance(0.4)) return;
  const int64_t row_bytes = 2 * TinyModel(1, kSimVocab).hidden_size;
  options->kept_rows_bytes =
      random.Between(0, options->num_blocks) * options->block_size * row_bytes;
}

// Whole chunks, and steps that are shorter and longer than they may be, up to the time of all
// stages; apart from the other draws.
void DrawTarget(SimOptions* options) {
  Random random(options->seed, /*stream=*/7);
  if (random.Chance(0.3)) options->chunk_tokens = 0;
  if (random.Chance(0.4)) return;
  const auto longest = std::chrono::microseconds(
      std::chrono::duration_cast<std::chrono::microseconds>(options->step_most).count() *
      options->num_stages);
  options->itl_target = Microseconds(random.Between(1, longest.count()));
}

// A coordinator that is replaced.
void DrawTakeover(SimOptions* options) {
  Random random(options->seed, /*stream=*/6);
  if (options->stalls > 0 || !random.Chance(0.15)) return;
  options->takeover_after = std::chrono::milliseconds(random.Between(5, 1'500));
}

// Only where all workers are needed: then the class is one that all of them can compute, whoever
// comes first.
void DrawClasses(SimOptions* options) {
  Random random(options->seed, /*stream=*/8);
  const bool all = options->num_pipelines == 1 && !options->auto_pipelines &&
                   options->spare_workers == 0 && options->WorkersOfPipeline() > 1;
  options->two_classes = all && random.Chance(0.5);
}

// Workers come and go in shorter times than a prompt is computed in, and are the same processes
// each time.
void DrawResets(SimOptions* options) {
  Random random(options->seed, /*stream=*/9);
  const bool large_plans = options->plan_bytes_max == coordinator::kPlanBytesMax;
  const bool alone = options->takeover_after == Duration::zero() && !options->two_classes;
  if (!large_plans || !alone || !random.Chance(0.12)) return;
  options->resets = static_cast<int32_t>(random.Between(4, 12));
  options->faults = random.Chance(0.5) ? 0 : 1;
  options->num_pipelines = random.Chance(0.7) ? 1 : 2;
  options->auto_pipelines = options->storm = false;
  options->num_blocks = 640 / options->block_size;
  options->prompt_tokens_max = 200;
  options->output_tokens_max = 8;
  options->num_requests = 12;
  options->arrivals_over = Microseconds(100'000);
  options->max_batch_tokens = static_cast<int32_t>(random.Between(8, 80));
  options->chunk_tokens = options->max_batch_tokens;
  options->step_most = Microseconds(random.Between(20'000, 250'000));
  options->step_least = options->step_most / 4;
  options->load_most = Microseconds(50'000);
  options->cancel_chance = options->deadline_chance = 0;
  options->killer_chance = random.Chance(0.5) ? 0 : 0.2;
}

// None, few and many, wrong and right; some however long steps become by them.
void DrawGuesses(SimOptions* options) {
  Random random(options->seed, /*stream=*/10);
  if (random.Chance(0.5)) return;
  options->guesses_max = static_cast<int32_t>(random.Between(1, coordinator::kGuessesMax));
  options->guess_right_chance = random.Chance(0.2) ? 1 : random.Uniform();
  if (random.Chance(0.7)) options->guesses_stretch = 100;
  if (random.Chance(0.5)) options->repeat_chance = random.Uniform();
}

// A good draft model and a bad one, one for short texts, and one beside other guesses.
void DrawDrafts(SimOptions* options) {
  Random random(options->seed, /*stream=*/12);
  if (random.Chance(0.6)) return;
  options->drafts_max = static_cast<int32_t>(random.Between(1, coordinator::kGuessesMax));
  options->draft.right_chance = random.Chance(0.3) ? 1 : random.Uniform();
  options->draft.max_model_len =
      static_cast<int32_t>(random.Chance(0.3) ? random.Between(1, 80) : 256);
  options->draft.num_layers = options->num_layers;
  options->draft_pass = Microseconds(random.Between(10, 400));
  if (random.Chance(0.5)) options->guesses_max = 0;
}

// With randomness of their own, so that the other draws are what they were before.
void DrawApart(SimOptions* options) {
  DrawKeptRows(options);
  DrawTakeover(options);
  DrawTarget(options);
  DrawClasses(options);
  DrawResets(options);
  DrawGuesses(options);
  DrawDrafts(options);
}

}  // namespace

// Ten prompts that begin together, most of them as long as prompts can be (150 tokens), are 1,800
// bytes, and a step has rows for a piece of each.
void CrowdPlans(SimOptions* options) {
  options->plan_bytes_max = kSimPlanBytes;
  options->max_sequences = 10;
  options->num_blocks = 1600 / options->block_size;
  options->max_batch_tokens = 200;
  options->chunk_tokens = 20;
  options->prompt_tokens_max = 1'000;  // nearly all are cut to the longest
  options->output_tokens_max = 10;
  options->num_requests = 20;
  options->max_waiting = 100;
  options->shared_chance = options->follow_chance = 0;
  options->arrivals_over = Duration::zero();
}

// A step has one row. Whoever is sent back for want of blocks leaves it to a prompt, and wants it
// again before that prompt is through.
void CrowdSteps(SimOptions* options) {
  options->max_batch_tokens = options->chunk_tokens = 1;
  options->max_sequences = 8;
  options->num_blocks = 96 / options->block_size;
  options->prompt_tokens_max = 24;
  options->output_tokens_max = 60;
  options->num_requests = 20;
  options->shared_chance = options->follow_chance = options->group_chance = 0;
  options->cancel_chance = options->deadline_chance = 0;
}

// Times are compared over windows of two seconds, the first of which do not count; what is slow for
// ten seconds moves.
void StaySlow(SimOptions* options) {
  options->num_pipelines = 1;
  options->auto_pipelines = false;
  options->num_stages = 2;
  options->num_layers = 4;
  options->stage_ranks.clear();
  options->spare_workers = 1;
  options->uneven_memory = options->storm = false;
  options->faults = options->stalls = 0;
  options->takeover_after = Duration::zero();
  options->slow_after = std::chrono::seconds(7);
  options->num_blocks = 640 / options->block_size;
  options->prompt_tokens_max = 24;
  options->output_tokens_max = 40;
  options->max_batch_tokens = 64;
  options->max_sequences = 8;
  options->num_requests = 600;
  options->arrivals_over = std::chrono::seconds(45);
  options->step_least = std::chrono::milliseconds(2);
  options->step_most = std::chrono::milliseconds(3);
  options->cancel_chance = options->deadline_chance = options->killer_chance = 0;
}

coordinator::EngineOptions SimOptions::Engine(coordinator::GuessSource* guesses) const {
  coordinator::EngineOptions options;
  // Four ranks share no fewer ids; only the first kSimVocab are ever used.
  options.model = TinyModel(num_layers, ranked() ? 4 * model::kVocabSplitRows : kSimVocab);
  options.model_name = "oracle";
  options.model_fingerprint = "oracle";
  options.build = "sim";
  options.cluster_id = "sim";
  options.num_pipelines = auto_pipelines ? 0 : num_pipelines;
  options.num_stages = num_stages;
  options.stage_ranks = stage_ranks;
  options.block_size = block_size;
  options.kv_tokens_max = kv_slots();
  options.enable_prefix_caching = prefix_caching;
  options.partial_recompute = partial_recompute;
  options.kept_rows_bytes = kept_rows_bytes;
  options.prefix_key = {seed, 1};
  options.max_batch_tokens = max_batch_tokens;
  options.chunk_tokens = chunk_tokens;
  options.itl_target = itl_target;
  options.guess_source = guesses;
  options.guesses_max = guesses_max;
  options.guesses_stretch = guesses_stretch;
  if (drafts_max > 0) {
    options.draft = std::make_shared<const model::ModelConfig>(options.model);
    options.draft_fingerprint = "draft";
    options.drafts_max = drafts_max;
  }
  options.max_sequences = max_sequences;
  options.max_waiting = max_waiting;
  options.plan_bytes_max = plan_bytes_max;
  options.max_model_len = 256;
  options.beat_interval = kSimBeat;
  options.lease = kSimLease;
  options.vocabulary = SimVocabulary(kSimVocab);
  return options;
}

int32_t SimOptions::WorkersOfPipeline() const {
  if (stage_ranks.empty()) return num_stages;
  return std::accumulate(stage_ranks.begin(), stage_ranks.end(), 0);
}

std::string SimOptions::Text() const {
  return absl::StrCat(
      "seed ", seed, ": ", num_pipelines, " pipelines of ", num_stages, " stages",
      ranked() ? absl::StrCat(" (ranks ", absl::StrJoin(stage_ranks, " "), ")") : "", " + ",
      spare_workers, " spare, ", num_layers, " layers, ", num_blocks, " blocks of ", block_size,
      prefix_caching ? ", cached" : ", not cached",
      partial_recompute ? absl::StrCat(", rows kept ", kept_rows_bytes) : ", none kept", ", batch ",
      max_batch_tokens, ", chunk ", chunk_tokens, ", target ", Milliseconds(itl_target), " ms, ",
      guesses_max, " guesses, right with ", guess_right_chance, ", ", drafts_max,
      " drafts, right with ", draft.right_chance, ", repeated with ", repeat_chance, ", ",
      max_sequences, " sequences, ", num_requests, " requests, ", faults, " faults, ", stalls,
      " stalls, ", resets, " resets",
      takeover_after > Duration::zero()
          ? absl::StrCat(", taken over after ", Milliseconds(takeover_after), " ms")
          : "");
}

SimOptions DrawSimOptions(uint64_t seed) {
  Random random(seed, /*stream=*/1);
  SimOptions options;
  options.seed = seed;
  options.num_stages = static_cast<int32_t>(random.Between(1, 4));
  options.spare_workers = random.Chance(0.2) ? 1 : 0;
  options.num_layers =
      static_cast<int32_t>(random.Between(options.num_stages, options.num_stages + 4));
  // A tight pool makes the engine send sequences back to waiting.
  const bool tight = random.Chance(0.5);
  options.num_blocks = static_cast<int32_t>(tight ? random.Between(3, 9) : random.Between(8, 60));
  options.max_batch_tokens = static_cast<int32_t>(random.Between(4, 80));
  options.chunk_tokens =
      static_cast<int32_t>(random.Between(1, std::min(40, options.max_batch_tokens)));
  options.max_sequences = static_cast<int32_t>(random.Between(tight ? 3 : 1, 10));
  options.max_waiting = static_cast<int32_t>(random.Between(3, 60));
  options.uneven_memory = random.Chance(0.3);
  if (random.Chance(0.2)) {
    options.block_size = 32;
    options.num_blocks = (options.num_blocks + 1) / 2;
  }
  options.prefix_caching = random.Chance(0.85);

  options.num_requests = static_cast<int32_t>(random.Between(5, 60));
  options.prompt_tokens_max = tight ? 24 : static_cast<int32_t>(random.Between(30, 80));
  options.output_tokens_max = tight ? 60 : static_cast<int32_t>(random.Between(8, 40));
  options.tenants = random.Chance(0.5) ? 1 : static_cast<int32_t>(random.Between(2, 3));
  options.shared_chance = random.Chance(0.3) ? 0 : random.Uniform();
  options.follow_chance = random.Chance(0.3) ? 0 : random.Uniform() * 0.6;
  options.arrivals_over = Microseconds(random.Chance(0.5) ? 50'000 : 1'500'000);
  options.cancel_chance = random.Chance(0.2) ? 0.7 : random.Uniform() * 0.2;
  options.deadline_chance = random.Uniform() * 0.2;

  const bool wild = random.Chance(0.3);
  options.link = {.least = Microseconds(20),
                  .most = Microseconds(wild ? 20'000 : random.Between(50, 2'000)),
                  .slow_chance = wild ? 0.05 : 0.0};
  options.step_least = Microseconds(500);
  options.step_most = Microseconds(random.Between(600, 8'000));
  options.load_most = Microseconds(random.Chance(0.1) ? 4'000'000 : 50'000);
  options.faults = random.Chance(0.35) ? 0 : static_cast<int32_t>(random.Between(1, 5));
  options.replay_chance = options.faults > 0 ? 0.5 : 0;

  if (random.Chance(0.5)) {
    options.num_pipelines = static_cast<int32_t>(random.Between(2, random.Chance(0.2) ? 8 : 3));
    options.num_stages = std::min(options.num_stages, 2 + 6 / options.num_pipelines);
    options.auto_pipelines = options.num_stages > options.spare_workers && random.Chance(0.3);
    options.num_requests += options.num_requests * options.num_pipelines / 4;
  }
  if (random.Chance(0.4)) options.stage_ranks = DrawRanks(options, &random);
  options.storm = random.Chance(0.1);
  if (random.Chance(0.15)) options.stalls = static_cast<int32_t>(random.Between(1, 3));
  // Fewer rows in a step than sequences that want one. They take long.
  if (random.Chance(0.15)) {
    options.max_batch_tokens = static_cast<int32_t>(random.Between(1, 4));
    options.chunk_tokens = static_cast<int32_t>(random.Between(1, options.max_batch_tokens));
    options.num_requests = std::min(options.num_requests, 20);
  }
  if (random.Chance(0.3)) options.plan_bytes_max = random.Between(kSimPlanBytes, 3'000);
  options.group_chance = random.Chance(0.5) ? 0 : random.Uniform() * 0.4;
  if (random.Chance(0.1)) options.killer_chance = 0.1;
  if (options.plan_bytes_max < coordinator::kPlanBytesMax && random.Chance(0.3)) {
    CrowdPlans(&options);
  }
  options.resume_chance = random.Chance(0.5) ? 0 : random.Uniform() * 0.5;
  const bool large_plans = options.plan_bytes_max == coordinator::kPlanBytesMax;
  if (large_plans && options.num_stages > 1 && random.Chance(0.15)) CrowdSteps(&options);
  DrawApart(&options);
  return options;
}

}  // namespace tutti::tests
