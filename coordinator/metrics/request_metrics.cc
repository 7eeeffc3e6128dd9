#include "coordinator/metrics/request_metrics.h"

#include <algorithm>
#include <string>

#include "metrics/buckets.h"

namespace tutti::coordinator {

using metrics::Exposition;
using metrics::Kind;
using metrics::Labels;

// One histogram under both names.
struct RequestMetrics::Family {
  metrics::Histogram RequestMetrics::*histogram;
  const char* name;
  const char* vllm_name;
  const char* help;
};

const RequestMetrics::Family RequestMetrics::kFamilies[] = {
    {&RequestMetrics::first_token_, "tutti_time_to_first_token_seconds",
     "vllm:time_to_first_token_seconds", "From a request's arrival to an output's first token."},
    {&RequestMetrics::gap_, "tutti_inter_token_seconds", "vllm:inter_token_latency_seconds",
     "From tokens of an output to the next."},
    {&RequestMetrics::per_token_, "tutti_request_time_per_token_seconds",
     "vllm:request_time_per_output_token_seconds", "Mean of an output's gaps."},
    {&RequestMetrics::whole_, "tutti_request_seconds", "vllm:e2e_request_latency_seconds",
     "From a request's arrival to an output's last token."},
    {&RequestMetrics::queue_, "tutti_request_queue_seconds", "vllm:request_queue_time_seconds",
     "From a request's arrival to the first step that computes something of it."},
    {&RequestMetrics::inference_, "tutti_request_inference_seconds",
     "vllm:request_inference_time_seconds", "From that step to the last token."},
    {&RequestMetrics::prefill_, "tutti_request_prefill_seconds",
     "vllm:request_prefill_time_seconds", "From that step to the first token."},
    {&RequestMetrics::decode_, "tutti_request_decode_seconds", "vllm:request_decode_time_seconds",
     "From the first token to the last."},
    {&RequestMetrics::prompt_, "tutti_request_prompt_tokens", "vllm:request_prompt_tokens",
     "Tokens of a prompt."},
    {&RequestMetrics::computed_, "tutti_request_computed_prompt_tokens",
     "vllm:request_prefill_kv_computed_tokens", "Those of them that were not cached."},
    {&RequestMetrics::generated_, "tutti_request_generated_tokens",
     "vllm:request_generation_tokens", "Tokens of an output."},
    {&RequestMetrics::longest_, "tutti_request_longest_output_tokens",
     "vllm:request_max_num_generation_tokens", "Tokens of the longest output of a request."},
    {&RequestMetrics::max_tokens_, "tutti_request_max_tokens", "vllm:request_params_max_tokens",
     "Tokens that an output might have had."},
    {&RequestMetrics::outputs_, "tutti_request_outputs", "vllm:request_params_n",
     "Outputs that a request asked for."},
    {&RequestMetrics::preemptions_, "tutti_request_preemptions", "vllm:request_num_preemptions",
     "Times that an output gave its place up and waited again."},
};

RequestMetrics::RequestMetrics(int64_t max_model_len)
    : first_token_(metrics::FirstTokenBounds()),
      gap_(metrics::GapBounds()),
      per_token_(metrics::GapBounds()),
      whole_(metrics::RequestBounds()),
      queue_(metrics::RequestBounds()),
      inference_(metrics::RequestBounds()),
      prefill_(metrics::RequestBounds()),
      decode_(metrics::RequestBounds()),
      prompt_(metrics::TokenBounds(max_model_len)),
      generated_(metrics::TokenBounds(max_model_len)),
      longest_(metrics::TokenBounds(max_model_len)),
      max_tokens_(metrics::TokenBounds(max_model_len)),
      computed_(metrics::TokenBounds(max_model_len)),
      outputs_(metrics::OutputsBounds()),
      preemptions_(metrics::PreemptionsBounds()) {}

void RequestMetrics::OnEnd(const OutputEnd& end) {
  (end.at_length ? at_length_ : stopped_).Add();
  const double queue = Seconds(end.queue), first = Seconds(end.first_token);
  const double total = Seconds(end.total);
  whole_.Observe(total);
  queue_.Observe(queue);
  inference_.Observe(std::max(total - queue, 0.0));
  prefill_.Observe(std::max(first - queue, 0.0));
  decode_.Observe(total - first);
  if (end.generated_tokens > 1) {
    per_token_.Observe((total - first) / static_cast<double>(end.generated_tokens - 1));
  }
  prompt_.Observe(static_cast<double>(end.prompt_tokens));
  computed_.Observe(static_cast<double>(end.prompt_tokens - end.cached_tokens));
  generated_.Observe(static_cast<double>(end.generated_tokens));
  preemptions_.Observe(static_cast<double>(end.preemptions));
  if (end.max_tokens > 0) max_tokens_.Observe(static_cast<double>(end.max_tokens));
  prompt_tokens_.Add(static_cast<uint64_t>(end.prompt_tokens));
  cached_tokens_.Add(static_cast<uint64_t>(end.cached_tokens));
  generated_tokens_.Add(static_cast<uint64_t>(end.generated_tokens));
}

void RequestMetrics::OnFailure(absl::StatusCode code, int64_t outputs) {
  const auto number = static_cast<size_t>(code);
  failed_[number < kCodes ? number : static_cast<size_t>(absl::StatusCode::kUnknown)].Add(
      static_cast<uint64_t>(outputs));
}

void RequestMetrics::Write(Exposition* to) const {
  for (const Family& family : kFamilies) {
    to->Begin(family.name, Kind::kHistogram, family.help);
    (this->*family.histogram).Write({}, to);
  }
  to->Begin("tutti_outputs_finished_total", Kind::kCounter, "Outputs that ended as they should.");
  to->Sample({{"reason", "stop"}}, stopped_.value());
  to->Sample({{"reason", "length"}}, at_length_.value());
  to->Begin("tutti_outputs_failed_total", Kind::kCounter,
            "Outputs that ended with an error, by its gRPC status.");
  for (size_t code = 1; code < kCodes; ++code) {
    const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
    // The usual ones have a sample from the start, so that rates see the first failure.
    const bool usual = code == static_cast<size_t>(absl::StatusCode::kUnavailable) ||
                       code == static_cast<size_t>(absl::StatusCode::kInternal);
    if (usual || failed_[code].value() > 0) to->Sample({{"code", name}}, failed_[code].value());
  }
  to->Single("tutti_outputs_abandoned_total", Kind::kCounter, "Outputs whose clients left.",
             gone_.value());
}

void RequestMetrics::WriteVllm(const Labels& labels, Exposition* to) const {
  for (const Family& family : kFamilies) {
    to->Begin(family.vllm_name, Kind::kHistogram, family.help);
    (this->*family.histogram).Write(labels, to);
  }
  // The name of earlier years, which dashboards still have.
  to->Begin("vllm:time_per_output_token_seconds", Kind::kHistogram,
            "As vllm:inter_token_latency_seconds.");
  gap_.Write(labels, to);
  const auto counter = [&](const char* name, const char* help, const metrics::Counter& value) {
    to->Begin(name, Kind::kCounter, help);
    to->Sample(labels, value.value());
  };
  counter("vllm:prompt_tokens_total", "Tokens of prompts.", prompt_tokens_);
  counter("vllm:prompt_tokens_cached_total", "Those that were cached.", cached_tokens_);
  counter("vllm:generation_tokens_total", "Tokens of outputs.", generated_tokens_);
  to->Begin("vllm:prompt_tokens_by_source_total", Kind::kCounter, "Tokens of prompts, by source.");
  to->Sample(labels.With({{"source", "local_compute"}}),
             prompt_tokens_.value() - cached_tokens_.value());
  to->Sample(labels.With({{"source", "local_cache_hit"}}), cached_tokens_.value());
  to->Begin("vllm:prompt_tokens_cached_by_source_total", Kind::kCounter,
            "Cached tokens of prompts, by where they were.");
  to->Sample(labels.With({{"source", "device"}}), cached_tokens_.value());
  double failed = 0;
  for (const metrics::Counter& code : failed_) failed += code.value();
  to->Begin("vllm:request_success_total", Kind::kCounter, "Outputs that ended, by reason.");
  to->Sample(labels.With({{"finished_reason", "stop"}}), stopped_.value());
  to->Sample(labels.With({{"finished_reason", "length"}}), at_length_.value());
  to->Sample(labels.With({{"finished_reason", "abort"}}), gone_.value());
  to->Sample(labels.With({{"finished_reason", "error"}}), failed);
  to->Sample(labels.With({{"finished_reason", "repetition"}}), 0);
}

}  // namespace tutti::coordinator
