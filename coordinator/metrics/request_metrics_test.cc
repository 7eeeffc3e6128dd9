#include "coordinator/metrics/request_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(RequestMetrics, CountTimesAndTokensOfAnOutput) {
  RequestMetrics counted(4096);
  counted.OnOpen(1);
  counted.OnFirstToken(milliseconds(300));
  counted.OnGap(milliseconds(20));
  counted.OnGap(milliseconds(60));
  counted.OnEnd({.at_length = true,
                 .queue = milliseconds(125),
                 .first_token = milliseconds(375),
                 .total = milliseconds(500),
                 .prompt_tokens = 48,
                 .cached_tokens = 32,
                 .generated_tokens = 3,
                 .preemptions = 2,
                 .max_tokens = 3});
  counted.OnLongest(3);
  counted.OnFailure(absl::StatusCode::kUnavailable, 2);
  counted.OnClientGone(1);
  metrics::Exposition ours;
  counted.Write(&ours);
  const std::string text = ours.Release();
  for (const char* line :
       {"tutti_time_to_first_token_seconds_bucket{le=\"0.25\"} 0\n",
        "tutti_time_to_first_token_seconds_bucket{le=\"0.5\"} 1\n",
        "tutti_inter_token_seconds_bucket{le=\"0.025\"} 1\n",
        "tutti_inter_token_seconds_bucket{le=\"0.075\"} 2\n",
        "tutti_request_time_per_token_seconds_sum 0.0625\n",
        "tutti_request_queue_seconds_sum 0.125\n", "tutti_request_prefill_seconds_sum 0.25\n",
        "tutti_request_prompt_tokens_sum 48\n", "tutti_request_computed_prompt_tokens_sum 16\n",
        "tutti_request_preemptions_bucket{le=\"1.0\"} 0\n",
        "tutti_request_preemptions_bucket{le=\"2.0\"} 1\n",
        "tutti_outputs_finished_total{reason=\"length\"} 1\n",
        "tutti_outputs_failed_total{code=\"UNAVAILABLE\"} 2\n",
        "tutti_outputs_abandoned_total 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(RequestMetrics, HaveVllmsNamesAndLabels) {
  RequestMetrics counted(64);
  counted.OnEnd({.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = 1});
  metrics::Exposition theirs;
  counted.WriteVllm({{"model_name", "m"}, {"engine", "0"}}, &theirs);
  const std::string text = theirs.Release();
  for (const char* line :
       {"vllm:request_success_total{model_name=\"m\",engine=\"0\",finished_reason=\"stop\"} 1\n",
        "vllm:prompt_tokens_total{model_name=\"m\",engine=\"0\"} 5\n",
        "vllm:prompt_tokens_by_source_total{model_name=\"m\",engine=\"0\",source=\"local_compute\"}"
        " 3\n",
        "vllm:request_prompt_tokens_bucket{model_name=\"m\",engine=\"0\",le=\"50.0\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace tutti::coordinator
