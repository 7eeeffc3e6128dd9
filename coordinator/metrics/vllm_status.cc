// The names of vLLM 0.33 for what the status has. Counted by requests: request_metrics.cc.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/metrics/status_metrics.h"

namespace tutti::coordinator {
namespace {

using metrics::Exposition;
using metrics::Kind;
using metrics::Labels;
using v1::PipelineStatus;

struct VllmEngine {
  const PipelineStatus* pipeline;
  Labels labels;
};

std::vector<VllmEngine> EnginesOf(const v1::GetStatusResponse& status) {
  std::vector<VllmEngine> engines;
  for (const PipelineStatus& pipeline : status.pipelines()) {
    engines.push_back(
        {&pipeline,
         {{"model_name", status.model()}, {"engine", absl::StrCat(pipeline.pipeline())}}});
  }
  return engines;
}

double Usage(const PipelineStatus& pipeline) {
  return pipeline.blocks_in_use() / std::max(1.0, static_cast<double>(pipeline.blocks_total()));
}

template <typename Value>
void Each(const std::vector<VllmEngine>& engines, const char* name, Kind kind, const char* help,
          Value value, Exposition* to) {
  to->Begin(name, kind, help);
  for (const VllmEngine& engine : engines) {
    to->Sample(engine.labels, static_cast<double>(value(*engine.pipeline)));
  }
}

void WriteLoad(const v1::GetStatusResponse& status, const std::vector<VllmEngine>& engines,
               Exposition* to) {
  Each(
      engines, "vllm:num_requests_running", Kind::kGauge, "Sequences that run.",
      [](const auto& p) { return p.running(); }, to);
  // Figures of no pipeline yet count to the first.
  const auto waiting = [&](const PipelineStatus& p) {
    return p.waiting() + (&p == engines.front().pipeline ? status.waiting() : 0);
  };
  Each(engines, "vllm:num_requests_waiting", Kind::kGauge, "Requests that wait.", waiting, to);
  to->Begin("vllm:num_requests_waiting_by_reason", Kind::kGauge, "Requests that wait, by reason.");
  for (const VllmEngine& engine : engines) {
    to->Sample(engine.labels.With({{"reason", "capacity"}}), waiting(*engine.pipeline));
  }
  Each(engines, "vllm:kv_cache_usage_perc", Kind::kGauge, "Blocks in use, of 1.", Usage, to);
  // The name of earlier years, which dashboards still have.
  Each(engines, "vllm:gpu_cache_usage_perc", Kind::kGauge, "Blocks in use, of 1.", Usage, to);
}

void WriteInfos(const std::vector<VllmEngine>& engines, Exposition* to) {
  to->Begin("vllm:cache_config_info", Kind::kGauge, "1; the KV cache.");
  for (const VllmEngine& engine : engines) {
    to->Sample(
        engine.labels.With({{"block_size", absl::StrCat(engine.pipeline->block_size())},
                            {"num_gpu_blocks", absl::StrCat(engine.pipeline->blocks_total())},
                            {"num_cpu_blocks", "0"},
                            {"cache_dtype", "auto"},
                            {"enable_prefix_caching", "True"}}),
        1);
  }
}

void WriteGuesses(const std::vector<VllmEngine>& engines, Exposition* to) {
  Each(
      engines, "vllm:spec_decode_num_drafts_total", Kind::kCounter,
      "Times that guesses were verified.", [](const auto& p) { return p.guess_verifications(); },
      to);
  Each(
      engines, "vllm:spec_decode_num_draft_tokens_total", Kind::kCounter,
      "Tokens that were guessed.", [](const auto& p) { return p.guessed_tokens(); }, to);
  Each(
      engines, "vllm:spec_decode_num_accepted_tokens_total", Kind::kCounter,
      "Those of them that were right.",
      [](const auto& p) {
        return std::accumulate(p.guesses_right().begin(), p.guesses_right().end(), uint64_t{0});
      },
      to);
  to->Begin("vllm:spec_decode_num_accepted_tokens_per_pos_total", Kind::kCounter,
            "The same, by their place among the guesses.");
  for (const VllmEngine& engine : engines) {
    for (int place = 0; place < engine.pipeline->guesses_right_size(); ++place) {
      to->Sample(engine.labels.With({{"position", absl::StrCat(place)}}),
                 static_cast<double>(engine.pipeline->guesses_right(place)));
    }
  }
}

}  // namespace

void WriteVllmStatus(const v1::GetStatusResponse& status, Exposition* to) {
  const std::vector<VllmEngine> engines = EnginesOf(status);
  if (engines.empty()) return;
  WriteLoad(status, engines, to);
  WriteInfos(engines, to);
  WriteGuesses(engines, to);
  Each(
      engines, "vllm:num_preemptions_total", Kind::kCounter, "Sequences sent back to waiting.",
      [](const auto& p) { return p.preemptions(); }, to);
  Each(
      engines, "vllm:prefix_cache_queries_total", Kind::kCounter, "Tokens looked up.",
      [](const auto& p) { return p.prefix_lookup_tokens(); }, to);
  Each(
      engines, "vllm:prefix_cache_hits_total", Kind::kCounter, "Those that were cached.",
      [](const auto& p) { return p.prefix_hit_tokens(); }, to);
  to->Begin("vllm:admission_rejections_total", Kind::kCounter, "Requests not taken.");
  const Labels model = {{"model_name", status.model()}};
  to->Sample(model.With({{"reason", "max_num_queued_reqs"}}),
             static_cast<double>(status.requests().refused()));
}

}  // namespace tutti::coordinator
