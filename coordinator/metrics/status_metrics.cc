#include "coordinator/metrics/status_metrics.h"

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/metrics/gpu_metrics.h"

namespace tutti::coordinator {
namespace {

using metrics::Exposition;
using metrics::Kind;
using metrics::Labels;
using v1::PipelineStatus;
using v1::StageStatus;

constexpr Kind kCounter = Kind::kCounter, kGauge = Kind::kGauge;

template <typename Message>
struct Family {
  const char* name;
  Kind kind;
  const char* help;
  double (*value)(const Message&);
};

// Widens, with the sign that counts have.
template <typename Number>
double Wide(Number number) {
  return static_cast<double>(number);
}

const Family<v1::GetStatusResponse> kService[] = {
    {"tutti_serving", kGauge, "1 while a pipeline is complete, else 0.",
     [](const auto& s) { return s.serving() ? 1.0 : 0.0; }},
    {"tutti_degraded", kGauge, "1 while something is missing though the service serves.",
     [](const auto& s) { return s.degraded().empty() ? 0.0 : 1.0; }},
    {"tutti_uptime_seconds", kGauge, "Since the coordinator started.",
     [](const auto& s) { return s.uptime_seconds(); }},
    {"tutti_requests_waiting", kGauge, "Requests that no pipeline has room for yet.",
     [](const auto& s) { return Wide(s.waiting()); }},
    {"tutti_outputs_accepted_total", kCounter, "Outputs of requests that were taken.",
     [](const auto& s) { return Wide(s.requests().accepted()); }},
    {"tutti_outputs_refused_total", kCounter,
     "Outputs not taken, because too many waited or too little time was left.",
     [](const auto& s) { return Wide(s.requests().refused()); }},
    {"tutti_requests_invalid_total", kCounter, "Requests that were wrong in themselves.",
     [](const auto& s) { return Wide(s.requests().invalid()); }},
    {"tutti_requests_resumed_total", kCounter, "Requests that went on with a broken answer.",
     [](const auto& s) { return Wide(s.requests().resumed()); }},
    {"tutti_prompt_tokens_total", kCounter, "Tokens of the prompts of outputs taken.",
     [](const auto& s) { return Wide(s.requests().prompt_tokens()); }},
    {"tutti_generated_tokens_total", kCounter, "Tokens that were generated.",
     [](const auto& s) { return Wide(s.requests().generated_tokens()); }},
    {"tutti_sequences_recovered_total", kCounter,
     "Sequences that went on after their pipeline had ended.",
     [](const auto& s) { return Wide(s.requests().recovered()); }},
    {"tutti_stale_frames_total", kCounter, "Frames of workers of an earlier epoch.",
     [](const auto& s) { return Wide(s.requests().stale_frames()); }},
    {"tutti_idle_workers", kGauge, "Workers of no pipeline.",
     [](const auto& s) { return Wide(s.idle_workers_size()); }},
    {"tutti_pipelines", kGauge, "Pipelines, complete or not.",
     [](const auto& s) { return Wide(s.pipelines_size()); }},
};

const Family<PipelineStatus> kPipelines[] = {
    {"tutti_pipeline_serving", kGauge, "1 while the pipeline is complete, else 0.",
     [](const auto& p) { return p.state() == "serving" ? 1.0 : 0.0; }},
    {"tutti_pipeline_epoch", kGauge, "Grows whenever a pipeline ends or forms.",
     [](const auto& p) { return Wide(p.epoch()); }},
    {"tutti_pipeline_running", kGauge, "Sequences that run.",
     [](const auto& p) { return Wide(p.running()); }},
    {"tutti_pipeline_waiting", kGauge, "Sequences that are bound to it and wait.",
     [](const auto& p) { return Wide(p.waiting()); }},
    {"tutti_pipeline_steps_in_flight", kGauge, "Steps under way.",
     [](const auto& p) { return Wide(p.steps_in_flight()); }},
    {"tutti_pipeline_steps_total", kCounter, "Steps done since it formed.",
     [](const auto& p) { return Wide(p.steps()); }},
    {"tutti_pipeline_busy_seconds_total", kCounter, "Time with a step under way since it formed.",
     [](const auto& p) { return p.busy_seconds_total(); }},
    {"tutti_pipeline_backlog_tokens", kGauge, "Tokens of prompts bound to it and not planned.",
     [](const auto& p) { return Wide(p.backlog_tokens()); }},
    {"tutti_pipeline_preemptions_total", kCounter, "Sequences that were sent back to waiting.",
     [](const auto& p) { return Wide(p.preemptions()); }},
    {"tutti_pipeline_prompt_tokens_per_second", kGauge,
     "Tokens of prompts computed in a second, lately with full steps; 0: not known.",
     [](const auto& p) { return p.prompt_tokens_per_second(); }},
    {"tutti_pipeline_kv_blocks", kGauge, "Blocks of its KV cache.",
     [](const auto& p) { return Wide(p.blocks_total()); }},
    {"tutti_pipeline_kv_blocks_in_use", kGauge, "Blocks of running sequences.",
     [](const auto& p) { return Wide(p.blocks_in_use()); }},
    {"tutti_pipeline_kv_blocks_cached", kGauge, "Blocks kept for prompts that begin alike.",
     [](const auto& p) { return Wide(p.blocks_cached()); }},
    {"tutti_pipeline_kv_block_tokens", kGauge, "Tokens in a block.",
     [](const auto& p) { return Wide(p.block_size()); }},
    {"tutti_pipeline_prefix_lookup_tokens_total", kCounter,
     "Tokens of sequences when they were first admitted.",
     [](const auto& p) { return Wide(p.prefix_lookup_tokens()); }},
    {"tutti_pipeline_prefix_hit_tokens_total", kCounter, "Those of them that were cached.",
     [](const auto& p) { return Wide(p.prefix_hit_tokens()); }},
    {"tutti_pipeline_evictions_total", kCounter, "Cached blocks whose memory was needed.",
     [](const auto& p) { return Wide(p.evictions()); }},
    {"tutti_pipeline_rebuilt_tokens_total", kCounter,
     "Tokens whose K/V was computed anew in the place of a lost stage.",
     [](const auto& p) { return Wide(p.rebuilt_tokens()); }},
    {"tutti_pipeline_bounded_steps_total", kCounter,
     "Steps in which prompts had fewer rows than there were, for the time that they take.",
     [](const auto& p) { return Wide(p.bounded_steps()); }},
    {"tutti_pipeline_guess_verifications_total", kCounter,
     "Times that guesses of a sequence's next tokens were verified.",
     [](const auto& p) { return Wide(p.guess_verifications()); }},
    {"tutti_pipeline_guessed_tokens_total", kCounter, "Tokens that were guessed.",
     [](const auto& p) { return Wide(p.guessed_tokens()); }},
    {"tutti_pipeline_accepted_tokens_total", kCounter, "Those of them that were right.",
     [](const auto& p) {
       return Wide(
           std::accumulate(p.guesses_right().begin(), p.guesses_right().end(), uint64_t{0}));
     }},
    {"tutti_pipeline_draft_seconds_total", kCounter,
     "Time that the draft model took since it formed.",
     [](const auto& p) { return p.draft_seconds(); }},
    {"tutti_pipeline_straggler", kGauge, "1 while one of its workers has become slow, else 0.",
     [](const auto& p) { return p.straggler().empty() ? 0.0 : 1.0; }},
};

const Family<StageStatus> kRanks[] = {
    {"tutti_rank_step_seconds", kGauge, "Recent compute time of a step; 0: not known.",
     [](const auto& s) { return s.step_seconds(); }},
    {"tutti_rank_predicted_step_seconds", kGauge, "The prediction for it; 0: not known.",
     [](const auto& s) { return s.predicted_step_seconds(); }},
    {"tutti_rank_steps_total", kCounter, "Steps since the pipeline formed.",
     [](const auto& s) { return Wide(s.steps_total()); }},
    {"tutti_rank_rows_total", kCounter, "Token rows since the pipeline formed.",
     [](const auto& s) { return Wide(s.rows()); }},
    {"tutti_rank_compute_seconds_total", kCounter, "Time spent computing.",
     [](const auto& s) { return s.compute_seconds_total(); }},
    {"tutti_rank_wait_seconds_total", kCounter, "Time spent waiting for activations.",
     [](const auto& s) { return s.wait_seconds_total(); }},
    {"tutti_rank_exchange_wait_seconds_total", kCounter,
     "Time spent waiting for other ranks; part of computing.",
     [](const auto& s) { return s.exchange_wait_seconds_total(); }},
    {"tutti_rank_bubble_ratio", kGauge,
     "Of the time with a step under way, the share without computing here.",
     [](const auto& s) { return s.bubble_share(); }},
    {"tutti_rank_slowdown_ratio", kGauge, "Time of a step by the worker's best; 1: no slower.",
     [](const auto& s) { return s.slowdown(); }},
    {"tutti_rank_activation_bytes_total", kCounter, "Bytes sent to the next stage.",
     [](const auto& s) { return Wide(s.activation_bytes_out()); }},
    {"tutti_rank_activation_frames_total", kCounter, "Frames sent to the next stage.",
     [](const auto& s) { return Wide(s.activation_frames_out()); }},
    {"tutti_rank_exchange_bytes_total", kCounter, "Bytes sent to other ranks of the stage.",
     [](const auto& s) { return Wide(s.exchange_bytes_out()); }},
    {"tutti_rank_layers", kGauge, "Layers of the stage.",
     [](const auto& s) { return Wide(s.num_layers()); }},
    {"tutti_rank_load_seconds", kGauge, "The time that loading the shard took.",
     [](const auto& s) { return s.load_seconds(); }},
    {"tutti_rank_loaded_ratio", kGauge, "The part of the shard that is loaded.",
     [](const auto& s) { return s.loaded_share(); }},
    {"tutti_rank_unheard_seconds", kGauge, "Since the worker's last frame.",
     [](const auto& s) { return s.worker().last_progress_ms_ago() / 1e3; }},
};

const struct {
  const char* kind;
  int64_t (v1::MemoryBytes::*bytes)() const;
} kMemories[] = {
    {"weights", &v1::MemoryBytes::weights},         {"kv", &v1::MemoryBytes::kv},
    {"activations", &v1::MemoryBytes::activations}, {"kept_rows", &v1::MemoryBytes::kept_rows},
    {"resident", &v1::MemoryBytes::resident},       {"budget", &v1::MemoryBytes::budget},
};

// A rank's labels, written once.
struct Rank {
  const StageStatus* status;
  Labels labels;
};

std::vector<Rank> RanksOf(const v1::GetStatusResponse& status) {
  std::vector<Rank> ranks;
  for (const PipelineStatus& pipeline : status.pipelines()) {
    for (const StageStatus& stage : pipeline.stages()) {
      ranks.push_back({&stage,
                       {{"pipeline", absl::StrCat(pipeline.pipeline())},
                        {"stage", absl::StrCat(stage.stage())},
                        {"rank", absl::StrCat(stage.rank())},
                        {"worker", stage.worker().worker_id()}}});
    }
  }
  return ranks;
}

void WriteRanks(const v1::GetStatusResponse& status, Exposition* to) {
  const std::vector<Rank> ranks = RanksOf(status);
  for (const auto& family : kRanks) {
    to->Begin(family.name, family.kind, family.help);
    for (const Rank& rank : ranks) to->Sample(rank.labels, family.value(*rank.status));
  }
  to->Begin("tutti_rank_memory_bytes", kGauge, "Memory of the worker, by kind.");
  for (const Rank& rank : ranks) {
    for (const auto& memory : kMemories) {
      to->Sample(rank.labels.With({{"kind", memory.kind}}),
                 Wide((rank.status->actual().*memory.bytes)()));
    }
  }
}

// Figures of the last loss that streams have outlived.
void WriteRecovery(const v1::GetStatusResponse& status, Exposition* to) {
  to->Begin("tutti_last_recovery_seconds", kGauge,
            "Of the last end of a pipeline that streams outlived: until what was lost was heard of "
            "no more, and from the end until each part was done.");
  if (status.recoveries().empty()) return;
  const v1::Recovery& last = status.recoveries(0);
  to->Sample({{"part", "unheard"}}, last.unheard_ms() / 1e3);
  to->Sample({{"part", "formed"}}, last.formed_ms() / 1e3);
  to->Sample({{"part", "loaded"}}, last.loaded_ms() / 1e3);
  to->Sample({{"part", "serving"}}, last.serving_ms() / 1e3);
  to->Sample({{"part", "recovered"}}, last.recovered_ms() / 1e3);
}

void WriteLinks(const v1::GetStatusResponse& status, Exposition* to) {
  to->Begin("tutti_link_up", kGauge, "1 while a link between workers carries frames, else 0.");
  for (const PipelineStatus& pipeline : status.pipelines()) {
    const std::string number = absl::StrCat(pipeline.pipeline());
    for (const v1::LinkStatus& link : pipeline.links()) {
      to->Sample({{"pipeline", number},
                  {"from", link.from()},
                  {"to", link.to()},
                  {"purpose", link.purpose()}},
                 link.up() ? 1 : 0);
    }
  }
}

// The same counts of guesses by where they came from.
void WriteGuessSources(const v1::GetStatusResponse& status, Exposition* to) {
  const auto write = [&](uint64_t (v1::GuessSourceStatus::*count)() const) {
    for (const PipelineStatus& pipeline : status.pipelines()) {
      for (const v1::GuessSourceStatus& source : pipeline.guess_sources()) {
        to->Sample({{"pipeline", absl::StrCat(pipeline.pipeline())}, {"source", source.source()}},
                   Wide((source.*count)()));
      }
    }
  };
  to->Begin("tutti_pipeline_source_guessed_tokens_total", kCounter,
            "Tokens that were guessed, by where the guesses came from.");
  write(&v1::GuessSourceStatus::guessed_tokens);
  to->Begin("tutti_pipeline_source_accepted_tokens_total", kCounter,
            "Those of them that were right.");
  write(&v1::GuessSourceStatus::right_tokens);
}

void WriteStepTimes(const v1::GetStatusResponse& status, Exposition* to) {
  to->Begin("tutti_pipeline_step_seconds", kGauge,
            "The time that a step of so many rows takes, as learnt from those of about as many.");
  for (const PipelineStatus& pipeline : status.pipelines()) {
    const std::map<int32_t, double> by_rows(pipeline.step_seconds().begin(),
                                            pipeline.step_seconds().end());
    for (const auto& [rows, seconds] : by_rows) {
      to->Sample({{"pipeline", absl::StrCat(pipeline.pipeline())}, {"rows", absl::StrCat(rows)}},
                 seconds);
    }
  }
}

void WriteEnds(const v1::RequestCounters& requests, Exposition* to) {
  to->Begin("tutti_outputs_ended_total", kCounter, "Outputs that ended, and how.");
  to->Sample({{"how", "finished"}}, Wide(requests.finished()));
  to->Sample({{"how", "cancelled"}}, Wide(requests.cancelled()));
  to->Sample({{"how", "failed"}}, Wide(requests.failed()));
  to->Sample({{"how", "deadline_exceeded"}}, Wide(requests.deadline_exceeded()));
}

}  // namespace

void WriteStatus(const v1::GetStatusResponse& status, const EngineTotals& totals, Exposition* to) {
  to->Begin("tutti_model_info", kGauge, "1; the model that is served.");
  to->Sample({{"model", status.model()}, {"fingerprint", status.model_fingerprint()}}, 1);
  for (const auto& family : kService) {
    to->Single(family.name, family.kind, family.help, family.value(status));
  }
  WriteEnds(status.requests(), to);
  to->Single("tutti_refused_peers_total", kCounter, "Links that were turned away.",
             Wide(totals.refused_peers));
  to->Single("tutti_lost_workers_total", kCounter,
             "Links of workers that had joined, and ended: lost, stopped or let go.",
             Wide(totals.lost_workers));
  to->Single("tutti_weights_sent_bytes_total", kCounter,
             "Bytes of the checkpoint sent to workers that lack it.",
             Wide(totals.weights_sent_bytes));
  for (const auto& family : kPipelines) {
    to->Begin(family.name, family.kind, family.help);
    for (const PipelineStatus& pipeline : status.pipelines()) {
      to->Sample({{"pipeline", absl::StrCat(pipeline.pipeline())}}, family.value(pipeline));
    }
  }
  WriteGuessSources(status, to);
  WriteStepTimes(status, to);
  WriteRanks(status, to);
  WriteGpus(status, to);
  WriteLinks(status, to);
  WriteRecovery(status, to);
}

}  // namespace tutti::coordinator
